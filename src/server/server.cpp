// The server's life, who may ask, and the way of a request to its route.
#include "server/server.h"

#include <algorithm>
#include <charconv>
#include <new>

#include "base/ascii.h"
#include "base/log.h"
#include "server/answer_job.h"
#include "server/answer_plan.h"
#include "server/embeddings.h"
#include "server/fields.h"
#include "server/request_trace.h"
#include "server/route.h"
#include "server/sessions.h"

namespace tamis::server {
namespace {

constexpr std::string_view kWantsKey = "a valid API key is needed: Authorization: Bearer KEY";
constexpr double kMaxTimeout = 86400;     // seconds
constexpr Milliseconds kLastWords{2000};  // for answers to reach their clients after the last token

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

AnswerSyntax syntax_of(std::string_view chat_template) {
  AnswerSyntax syntax = find_answer_syntax(chat_template);
  if (!syntax.offers_tools) syntax.calls = &call_syntaxes().back();
  return syntax;
}

// `work` with the two things that may be thrown past our code ending as answers: std::bad_alloc, and what a foreign
// library let through.
template <class WorkFn>
void at_seam(Reply& reply, const WorkFn& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    reply.fail(error_response(plain_error(503, "not enough memory for this request")), "");
  } catch (const std::exception& exception) {
    log_warning("a request failed: {}", exception.what());
    reply.fail(error_response(plain_error(500, "internal error")), "");
  }
}

// The model that a body asks for; "" where it does not say. What else is wrong with it is found by who reads it.
std::string named_model(const Json& body, bool has_name) {
  const Json* name = has_name ? body.find("name") : nullptr;
  if (name == nullptr || !name->is_string()) name = body.find("model");
  return name != nullptr && name->is_string() ? name->as_string() : std::string();
}

AnswerFacts facts_of(const ServedModel& model, GenerationCall& call, const std::vector<std::vector<TokenId>>& prompts) {
  AnswerFacts facts;
  facts.model = model.alias;
  facts.created = unix_time();
  facts.tokenizer = model.engine->tokenizer();
  for (const std::vector<TokenId>& prompt : prompts) facts.n_prompt += prompt.size();
  facts.n_choices = call.request.n_choices;
  for (size_t i = 0; call.echoes_prompt && i < prompts.size(); ++i) {
    const GivenPrompt& given = call.prompts[i];
    facts.echoes.push_back({given.text ? *given.text : facts.tokenizer->decode(given.tokens), prompts[i].front()});
  }
  facts.includes_usage = call.includes_usage;
  facts.has_logprobs = call.request.has_logprobs;
  facts.scores_prompt = call.request.scores_prompt;
  facts.returns_tokens = call.returns_tokens;
  facts.repeated = std::move(call.repeated);
  return facts;
}

// A hold on the bytes that the log-probabilities of prompts of n_prompt tokens take at most until they are sent.
ApiResult<std::shared_ptr<void>> hold_scores(const GenerateRequest& request, size_t n_prompt,
                                             const std::shared_ptr<std::atomic<uint64_t>>& total) {
  constexpr uint64_t kScore = 160;  // a token's text and number, as JSON and on the way there
  const uint64_t n_bytes = kScore * n_prompt * request.n_choices * (1 + uint64_t{request.n_top_logprobs});
  if (n_bytes > kMaxHeldBytes) return refuse("logprobs", "the answer to so many tokens would be too large");
  auto held = hold_bytes(total, n_bytes);
  if (held == nullptr) return refused(503, "too many large answers are being made");
  return held;
}

bool makes_chats(Dialect dialect) {
  return dialect != Dialect::openai_text && dialect != Dialect::native && dialect != Dialect::ollama_generate;
}

void send_answer(Reply& reply, const ApiResult<Json>& answer) {
  if (!answer) return reply.send(error_response(answer.error()));
  Response response;
  response.body = answer->dump() + "\n";
  reply.send(std::move(response));
}

}  // namespace

ServedModel::ServedModel(std::shared_ptr<const Engine> loaded)
    : engine(std::move(loaded)),
      chat_template(engine->model().file.get_string("tokenizer.chat_template").value_or("")),
      syntax(syntax_of(chat_template)) {}

std::optional<std::chrono::steady_clock::time_point> deadline_in(double seconds) {
  if (seconds <= 0) return std::nullopt;
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

Server::Server(ServerOptions options) : options_(std::move(options)), keys_(std::make_shared<ApiKeys>(options_.keys)) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  raise_descriptor_limit();
  std::shared_ptr<Sessions> sessions;
  if (!options.slot_save_dir.empty()) {
    TAMIS_TRY(sessions, Sessions::open(options.slot_save_dir, options.slot_save_bytes));
  }
  std::unique_ptr<Server> server(new Server(std::move(options)));
  server->sessions_ = std::move(sessions);
  server->workers_ = std::make_unique<Workers>(server->options_.n_workers);
  const AccessLog log = server->options_.access_log;
  if (log != AccessLog::off) server->log_ = std::make_unique<AccessLogWriter>(log);
  if (server->options_.trace_sink)
    server->traces_ = std::make_unique<TraceExporter>(server->options_.trace_sink, server->options_.version,
                                                      server->options_.trace_limits);
  TAMIS_TRY(server->http_, HttpServer::open(server->options_.http, *server));
  server->http_->run();  // handlers use everything above
  return server;
}

Server::~Server() {
  workers_->stop();  // requests still come: they are dropped, or told that there is no model
  if (sessions_ != nullptr) sessions_->stop();
  set_model(nullptr);  // ends the schedulers, whose listeners still answer through http_
  set_models(nullptr);
  http_.reset();
}

void Server::set_model(std::shared_ptr<const ServedModel> model) {
  const std::lock_guard lock(mutex_);  // given back before the old model ends
  model_.swap(model);
}

void Server::set_models(std::shared_ptr<ModelShelf> models) {
  const std::lock_guard lock(mutex_);
  shelf_.swap(models);
}

std::shared_ptr<ModelShelf> Server::models_shelf() const {
  const std::lock_guard lock(mutex_);
  return shelf_;
}

std::vector<ModelStatus> Server::model_list() const {
  if (const auto several = models_shelf()) return several->list();
  const auto only = model();
  if (only == nullptr) return {};
  std::vector<ModelStatus> out(1);
  out[0].card = *only;
  out[0].state = ModelStatus::State::loaded;
  out[0].lease = ModelLease{nullptr, only, counts_};
  out[0].counts = counts_;
  return out;
}

ApiResult<ModelLease> Server::shown_model(const Request& request) const {
  const std::string name = models_shelf() != nullptr ? request.head.query("model").value_or("") : "";
  bool is_known = name.empty();
  for (ModelStatus& status : model_list()) {
    if (!name.empty() && status.card.alias != name) continue;
    is_known = true;
    if (status.lease) return *std::move(status.lease);
  }
  if (!is_known) return tl::unexpected(unknown_model(name));
  return refused(503, models_shelf() != nullptr ? "the model is not in memory" : "the model is being loaded");
}

std::shared_ptr<const ServedModel> Server::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

void Server::set_keys(ApiKeys keys) {
  auto fresh = std::make_shared<const ApiKeys>(std::move(keys));
  const std::lock_guard lock(mutex_);
  keys_.swap(fresh);
}

std::shared_ptr<const ApiKeys> Server::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

bool Server::drain(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const auto served = model();
  const auto several = models_shelf();
  if (served) served->scheduler->refuse_waiting();
  if (several) several->refuse_waiting();
  is_draining_ = true;
  const bool is_clean = (!served || served->scheduler->drain(seconds)) && (!several || several->drain(seconds));
  http_->close_when_answered();
  const auto left = std::chrono::duration_cast<Milliseconds>(until - std::chrono::steady_clock::now());
  return http_->wait_until_answered(std::max(left, kLastWords)) && is_clean;
}

Response Server::refusal(int status, std::string_view message) { return error_response(plain_error(status, message)); }

void Server::on_answered(const Answered& answered) {
  metrics_.on_answered(answered.status);
  if (log_ != nullptr) log_->write(answered, unix_time());
  if (traces_ != nullptr && answered.facts != nullptr && answered.facts->trace != nullptr) traces_->add(answered);
}

std::shared_ptr<RequestTrace> Server::begin_trace(const Route& route, const RequestHead& head) const {
  if (traces_ == nullptr || route.parse == nullptr) return nullptr;
  auto trace = std::make_shared<RequestTrace>();
  trace->parent = find_trace_parent(head);
  if (trace->parent && !trace->parent->is_sampled) return nullptr;  // as whoever began the trace decided
  trace->operation = makes_chats(route.dialect) ? "chat" : "text_completion";
  return trace;
}

bool Server::is_known_host(const RequestHead& head) const {
  const std::string& bound = options_.http.host;
  if (!is_loopback(bound)) return true;
  const std::string* const value = head.find("host");
  if (value == nullptr) return true;  // HTTP/1.0
  std::string host = to_lower(*value);
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return is_loopback(host) || host == bound;
}

// The method whose route decides about a request: HEAD is a GET, OPTIONS any that the path has.
std::string_view Server::routed_method(const RequestHead& head) {
  if (head.method == "HEAD") return "GET";
  if (head.method != "OPTIONS") return head.method;
  return find_route("GET", head.path()) != nullptr ? "GET" : "POST";
}

bool Server::accepts(const RequestHead& head, const std::string& peer, Response& refusal) {
  const auto checked = check_head(head, peer);
  if (checked) return true;
  refusal = error_response(checked.error());
  if (checked.error().status == 405) refusal.headers.emplace_back("allow", allowed_methods(head.path()));
  return false;
}

// Who asks, before what is asked: a key first, on every route but the public ones.
ApiResult<void> Server::check_head(const RequestHead& head, const std::string& peer) {
  if (!is_known_host(head)) return refused(403, "this Host is not served here");
  const std::string_view method = routed_method(head);
  const Route* const route = find_route(method, head.path());
  if (route == nullptr || !route->is_public) {
    // Who has a key is served whatever others send from that address: a proxy's, say.
    if (!keys()->owner(head)) {
      const auto now = FailureLimit::Clock::now();
      const std::string network = network_of(peer);
      if (failures_.is_blocked(network, now)) return refused(429, "too many wrong API keys; wait a minute");
      failures_.on_failure(network, now);
      return refused(401, kWantsKey);
    }
  }
  if (route == nullptr) {
    if (allowed_methods(head.path()).empty()) return refused(404, "there is no such path");
    return refused(405, "this path does not take that method");
  }
  if (head.method != "POST") return {};
  const std::string* const type = head.find("content-type");
  const std::string media = type == nullptr ? "" : to_lower(type->substr(0, std::min(type->find(';'), type->size())));
  if (media.substr(0, media.find_last_not_of(' ') + 1) != "application/json")
    return refused(415, "the content type must be application/json");
  if (head.find("content-encoding") != nullptr) return refused(415, "encoded bodies are not taken");
  if (head.find("content-length") == nullptr && head.find("transfer-encoding") == nullptr)
    return refused(411, "a Content-Length is needed");
  return {};
}

void Server::handle(Request request, std::shared_ptr<Reply> reply) {
  const Route* const route = find_route(routed_method(request.head), request.head.path());
  std::optional<KeyOwner> owner = keys()->owner(request.head);
  if (!owner && (route == nullptr || !route->is_public)) return reply->send(refusal(401, kWantsKey));  // it just left
  request.facts->owner = owner ? std::move(owner->name) : "";
  request.facts->tenant = owner ? std::move(owner->id) : "";
  if (route == nullptr) return reply->send(refusal(404, "there is no such path"));
  if (request.head.method == "OPTIONS") {  // no page of another origin is let in: there are no headers for one
    Response allowed;
    allowed.status = 204;
    allowed.content_type.clear();
    allowed.headers.emplace_back("allow", allowed_methods(request.head.path()));
    return reply->send(std::move(allowed));
  }
  request.facts->trace = begin_trace(*route, request.head);
  if (route->quick != nullptr) return at_seam(*reply, [&] { reply->send((this->*route->quick)(request)); });
  if (is_draining_) return reply->send(refusal(503, "the server is shutting down"));
  if (!has_models()) return reply->send(refusal(503, "the model is being loaded"));
  const auto job = std::make_shared<Job>();
  job->route = route;
  job->request = std::move(request);
  job->reply = std::move(reply);
  // Nothing is done for who leaves while it waits.
  job->reply->on_gone([weak = std::weak_ptr(job), several = std::weak_ptr(models_shelf())] {
    const auto left = weak.lock();
    if (left == nullptr) return;
    left->has_left = true;
    if (const auto shelf = several.lock()) shelf->forget(left.get());
  });
  begin(job);
}

void Server::begin(const std::shared_ptr<Job>& job) {
  workers_->run([this, job] {
    if (!job->has_left) work(job);
  });
}

ApiResult<double> Server::time_left(const Request& request) const {
  double limit = options_.request_timeout_seconds;
  if (const std::string* const text = request.head.find("x-request-timeout")) {
    double wanted = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), wanted);
    const bool is_number = error == std::errc() && end == text->data() + text->size();
    if (!is_number || !(wanted > 0 && wanted <= kMaxTimeout))
      return refused(400, "X-Request-Timeout: expected seconds, more than 0 and at most 86400");
    limit = limit > 0 ? std::min(limit, wanted) : wanted;
  }
  if (limit == 0) return 0.0;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - request.arrived;
  if (passed.count() >= limit) return refused(503, "the request's time is over");
  return limit - passed.count();
}

void Server::work(const std::shared_ptr<Job>& job) {
  at_seam(*job->reply, [&] {
    const auto body = parse_body(job->request.body);
    if (!body) return job->reply->send(error_response(body.error()));
    const auto lease = lease_for(job, *body);
    if (!lease) return job->reply->send(error_response(lease.error()));
    if (*lease) work_with(*job, *body, **lease);
  });
}

ApiResult<std::optional<ModelLease>> Server::lease_for(const std::shared_ptr<Job>& job, const Json& body) {
  const auto several = models_shelf();
  if (several == nullptr) {
    const auto served = model();
    if (served == nullptr) return refused(503, "the model is being loaded");
    return ModelLease{nullptr, served, counts_};
  }
  ModelWait wait;
  wait.key = job.get();
  wait.tenant = job->request.facts->tenant;
  TAMIS_API_TRY(const double left, time_left(job->request));
  const double limit = options_.load_timeout_seconds;
  wait.seconds = limit > 0 && left > 0 ? std::min(limit, left) : std::max(limit, left);
  // It begins again when the model is there: a body that was read would be kept twice meanwhile.
  wait.then = [this, job](ApiResult<ModelLease> lease) {
    if (!lease) return job->reply->send(error_response(lease.error()));
    workers_->run([this, job, lease = *std::move(lease)] {
      if (job->has_left) return;
      at_seam(*job->reply, [&] {
        const auto again = parse_body(job->request.body);
        if (again) work_with(*job, *again, lease);  // it was read before
      });
    });
  };
  TAMIS_API_TRY(auto lease, several->take(named_model(body, job->route->work == &Server::show), std::move(wait)));
  if (job->has_left) several->forget(job.get());
  return lease;
}

ApiResult<void> Server::session(const ModelLease& lease, const Request& request, const Json& body,
                                const std::shared_ptr<Reply>& reply) {
  TAMIS_API_TRY(SessionCall call, parse_session_request(request.head, body, limits_of(*lease.model)));
  TAMIS_API_TRY_STATUS(check_model_name(call.model, *lease.model));
  if (sessions_ == nullptr) return refused(403, "this server keeps no sessions: it runs without --slot-save-path");
  call.tenant = request.facts->tenant;
  call.cache_salt = effective_salt(call.tenant, call.cache_salt);
  const bool is_taken = sessions_->run([sessions = sessions_.get(), lease, call = std::move(call), reply] {
    at_seam(*reply, [&] { send_answer(*reply, sessions->act(lease.model, call)); });
  });
  return is_taken ? ApiResult<void>() : refused(503, "too many sessions wait to be saved or restored");
}

void Server::work_with(const Job& job, const Json& body, const ModelLease& lease) {
  const Route& route = *job.route;
  if (route.parse != nullptr) {
    const auto submitted = submit(route, job.request, body, lease, job.reply);
    if (!submitted) job.reply->fail(error_response(submitted.error()), "");
    return;
  }
  if (route.begin != nullptr) {
    const auto begun = (this->*route.begin)(lease, job.request, body, job.reply);
    if (!begun) job.reply->send(error_response(begun.error()));
    return;
  }
  send_answer(*job.reply, (this->*route.work)(*lease.model, body));
}

ApiResult<void> Server::submit(const Route& route, const Request& request, const Json& body, const ModelLease& lease,
                               const std::shared_ptr<Reply>& reply) {
  const std::shared_ptr<const ServedModel>& served = lease.model;
  TAMIS_API_TRY(GenerationCall call, route.parse(body, limits_of(*served)));
  TAMIS_API_TRY_STATUS(check_model_name(call.model, *served));
  std::string prompt_end;
  TAMIS_API_TRY(std::vector<std::vector<TokenId>> prompts, build_prompts(*served, call, &prompt_end));
  TAMIS_API_TRY(AnswerPlan plan, plan_answer(*served, prompt_end, call));
  TAMIS_API_TRY(call.request.masks, build_masks(*served, call));
  call.request.tenant = request.facts->tenant;
  call.request.cache_salt = effective_salt(call.request.tenant, call.request.cache_salt);
  TAMIS_API_TRY(const double seconds, time_left(request));

  AnswerFacts facts = facts_of(*served, call, prompts);
  facts.id = request.id;
  AnswerJob::Setup setup;
  if (call.request.scores_prompt) {
    TAMIS_API_TRY(setup.held, hold_scores(call.request, facts.n_prompt, answer_bytes_));
  }
  if (sessions_ != nullptr && prompts.size() == 1 && !call.request.scores_prompt) {
    GenerateRequest& asked = call.request;
    asked.prompt = prompts.front();
    const SlotOwner owner = slot_owner(*served, asked.tenant);
    asked.slot = facts.slot = sessions_->take_slot(owner, asked, call.slot);
    setup.keep = [sessions = sessions_, owner, slot = *facts.slot, salt = asked.cache_salt,
                  n_prompt = asked.prompt.size()](std::vector<TokenId> tokens) {
      sessions->put(owner, slot, salt, std::move(tokens), n_prompt);
    };
  }
  setup.reply = reply;
  setup.format = make_format(route.dialect, std::move(facts));
  setup.is_stream = call.is_stream;
  setup.request = std::move(call.request);
  setup.prompts = std::move(prompts);
  setup.n_at_once = std::clamp<size_t>(served->max_queue / 4, 1, served->max_seqs);
  setup.deadline = deadline_in(seconds);
  setup.model = served;
  setup.facts = request.facts;
  setup.metrics = lease.counts;
  setup.hold = lease.hold;
  setup.plan = std::move(plan);
  setup.id = request.id;
  setup.model_name = served->alias;
  return std::make_shared<AnswerJob>(std::move(setup))->start();
}

std::string Server::effective_salt(const std::string& tenant, const std::string& asked) const {
  return options_.is_cache_per_key ? tenant + asked : asked;  // ids have one length: no two pairs look alike
}

ApiResult<void> Server::check_model_name(const std::string& name, const ServedModel& model) const {
  if (!options_.is_strict_model || name == model.alias) return {};
  return tl::unexpected(unknown_model(name));
}

}  // namespace tamis::server
