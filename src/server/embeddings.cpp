// Embeddings: requests read, inputs kept on their way, vectors written as numbers or as base64.
#include "server/embeddings.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "server/call_fields.h"

namespace tamis::server {
namespace {

constexpr std::string_view kTimeIsOver = "the request's time is over";

bool is_ids(const Json& value) {
  return value.is_array() && !value.as_array().empty() && value.as_array().front().is_number();
}

void read_one(Fields& fields, const std::string& field, const Json& value, const CallLimits& limits,
              EmbeddingsCall& call) {
  EmbeddingsCall::Input input;
  input.field = field;
  if (value.is_string()) {
    input.text = value.as_string();
  } else if (!is_ids(value)) {
    return fields.fail(field, fmt::format("got {}, expected a string or token ids", kind_of(value)));
  } else {
    read_prompt_ids(fields, field, value, limits, input.tokens);
  }
  call.inputs.push_back(std::move(input));
}

void read_inputs(Fields& fields, const CallLimits& limits, EmbeddingsCall& call) {
  const Json* const input = fields.any("input");
  if (input == nullptr) return fields.fail("input", "is missing");
  if (!input->is_array() || is_ids(*input)) return read_one(fields, "input", *input, limits, call);
  const size_t n = input->as_array().size();
  if (n == 0 || n > EmbeddingsCall::kMaxInputs)
    return fields.fail("input", fmt::format("got {} inputs, expected 1 to {}", n, EmbeddingsCall::kMaxInputs));
  for (size_t i = 0; i < n && !fields.has_failed(); ++i)
    read_one(fields, fmt::format("input[{}]", i), input->as_array()[i], limits, call);
}

// As OpenAI's clients read them: 32-bit floats, the least significant byte first.
std::string base64(std::span<const float> values) {
  std::vector<unsigned char> bytes(values.size() * 4);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &values[i], sizeof bits);
    for (size_t k = 0; k < 4; ++k) bytes[4 * i + k] = static_cast<unsigned char>(bits >> (8 * k));
  }
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with the 0 that OpenSSL writes behind it
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes.data(), static_cast<int>(bytes.size()));
  out.pop_back();
  return out;
}

}  // namespace

ApiResult<EmbeddingsCall> parse_embeddings(const Json& body, const CallLimits& limits) {
  Fields fields(body);
  EmbeddingsCall call;
  fields.text("model", call.model);
  read_inputs(fields, limits, call);
  std::string format = "float";
  fields.text("encoding_format", format);
  if (format != "float" && format != "base64") fields.fail("encoding_format", R"(expected "float" or "base64")");
  call.is_base64 = format == "base64";
  if (const Json* const n = fields.any("dimensions"); n != nullptr && *n != Json(int64_t{limits.n_embd}))
    fields.fail("dimensions", fmt::format("this model's embeddings have {}; none are cut off", limits.n_embd));
  fields.inert_text("user");
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<Pooling> pooling_of(const ServedModel& model) {
  const GgufValue* const value = model.engine->model().file.find(model.architecture + ".pooling_type");
  const auto type = value == nullptr ? std::nullopt : value->as_uint();
  switch (type.value_or(0)) {  // GGUF's numbers; 0: the file leaves it to the caller
    case 0:
    case 1: return Pooling::mean;
    case 2: return Pooling::first;
    case 3: return Pooling::last;
    default: return refused(501, "this model's way of pooling embeddings is not supported");
  }
}

uint64_t most_bytes(const EmbeddingsCall& call, const CallLimits& limits) {
  constexpr uint64_t kNumber = 25, kAround = 128;  // "-1.2345678901234567e-123,"; the names, and what stands once
  const uint64_t values = call.is_base64 ? (uint64_t{limits.n_embd} * 4 + 2) / 3 * 4 : limits.n_embd * kNumber;
  return (call.inputs.size() + 1) * kAround + call.inputs.size() * values;
}

std::shared_ptr<void> hold_bytes(const std::shared_ptr<std::atomic<uint64_t>>& total, uint64_t n) {
  if (total->fetch_add(n) + n > kMaxHeldBytes) {
    *total -= n;
    return nullptr;
  }
  return {total.get(), [total, n](void*) { *total -= n; }};
}

EmbeddingJob::EmbeddingJob(Setup setup) : setup_(std::move(setup)) {
  body_.reserve(setup_.max_bytes);
  body_ = R"({"object":"list","data":[)";
}

class EmbeddingJob::Listener : public GenerateListener {
 public:
  Listener(std::shared_ptr<EmbeddingJob> job, size_t idx) : job_(std::move(job)) { done_.idx = idx; }
  void on_token(const TokenEvent&) override {}
  void on_choice_end(const ChoiceEnd& event) override {
    if (event.end == GenerationEnd::cancelled) done_.failure = plain_error(503, "the server is shutting down");
    if (event.end == GenerationEnd::time_limit) done_.failure = plain_error(503, kTimeIsOver);
  }
  void on_embedding(std::span<const float> values) override { done_.values.assign(values.begin(), values.end()); }
  void on_end(const RequestReport& report) override {
    if (report.failure != nullptr) done_.failure = from_failure(*report.failure);
    done_.report = report;
    done_.report.failure = nullptr;
    job_->on_done(std::move(done_));
  }

 private:
  const std::shared_ptr<EmbeddingJob> job_;
  Done done_;
};

void EmbeddingJob::start() {
  setup_.reply->post([self = shared_from_this()] { self->submit_more(); });
  setup_.reply->on_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel_all();
  });
}

void EmbeddingJob::on_done(Done done) {
  {
    const std::lock_guard lock(mutex_);
    done_.push_back(std::move(done));
  }
  setup_.reply->post([self = shared_from_this()] { self->handle_done(); });
}

void EmbeddingJob::handle_done() {
  std::vector<Done> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  for (const Done& one : done)
    if (!is_over_) take(one);
  if (!is_over_) submit_more();
}

void EmbeddingJob::take(const Done& done) {
  if (done.failure) return fail(*done.failure);
  Json item = Json::object();
  item.set("object", "embedding").set("index", uint64_t{done.idx});
  if (setup_.is_base64) {
    item.set("embedding", base64(done.values));
  } else {
    Json list = Json::array();
    for (const float value : done.values) list.push_back(double{value});
    item.set("embedding", std::move(list));
  }
  early_[done.idx] = item.dump();
  for (auto next = early_.begin(); next != early_.end() && next->first == n_written_; next = early_.erase(next))
    body_ += (n_written_++ > 0 ? "," : "") + next->second;
  n_tokens_ += done.report.n_prompt;
  if (++n_done_ == setup_.prompts.size()) finish();
}

void EmbeddingJob::submit_more() {
  const auto model = setup_.model.lock();
  if (!model) return fail(plain_error(503, "the server is shutting down"));
  while (!is_over_ && n_submitted_ < setup_.prompts.size() && n_submitted_ - n_done_ < setup_.n_at_once) {
    const size_t idx = n_submitted_++;
    GenerateRequest request;
    request.prompt = std::move(setup_.prompts[idx]);
    request.pooling = setup_.pooling;
    request.tenant = setup_.tenant;
    if (setup_.deadline) {
      const std::chrono::duration<double> left = *setup_.deadline - std::chrono::steady_clock::now();
      if (left.count() <= 0) return fail(plain_error(503, kTimeIsOver));
      request.time_limit_seconds = left.count();
    }
    const auto id = model->scheduler->submit(std::move(request), std::make_shared<Listener>(shared_from_this(), idx));
    if (!id) return fail(from_failure(id.error()));
    running_.push_back(*id);
  }
}

void EmbeddingJob::finish() {
  is_over_ = true;
  Json usage = Json::object();
  usage.set("prompt_tokens", uint64_t{n_tokens_}).set("total_tokens", uint64_t{n_tokens_});
  Response response;
  response.body = std::move(body_);
  response.held = std::move(setup_.held);
  response.body += fmt::format("],\"model\":{},\"usage\":{}}}\n", Json(setup_.alias).dump(), usage.dump());
  setup_.reply->send(std::move(response));
}

void EmbeddingJob::fail(const ApiError& error) {
  if (is_over_) return;
  cancel_all();
  setup_.reply->fail(error_response(error), "");
}

void EmbeddingJob::cancel_all() {
  is_over_ = true;
  const auto model = setup_.model.lock();
  if (!model) return;
  for (const RequestId id : running_) model->scheduler->cancel(id);
}

}  // namespace tamis::server
