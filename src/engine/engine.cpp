// Opening an engine: file, tokenizer, template and weights, each failure with its place in the file.
#include "engine/engine.h"

#include <algorithm>

#include "base/checked.h"
#include "base/memory.h"
#include "models/decoder.h"

namespace tamis {

Error as_file_error(Error error) {
  const bool is_inside = error.site && !error.site->section.empty();
  if (error.code == ErrorCode::not_found && is_inside) error.code = ErrorCode::format;
  return error;
}

std::optional<uint64_t> kv_bytes(const Hyper& hyper, uint32_t n_ctx, const KvTypes& types) {
  const auto n_padded = checked_pad(n_ctx, KvCache::kPageTokens);
  uint64_t total = 0;
  for (const KvLayerShape& shape : kv_shapes(hyper)) {
    const auto row = kv_token_bytes(types, shape);
    const auto layer = row && n_padded ? checked_mul(*row, *n_padded) : std::nullopt;
    const auto sum = layer ? checked_add(total, *layer) : std::nullopt;
    if (!sum) return std::nullopt;
    total = *sum;
  }
  return total;
}

namespace {

// A context whose keys and values could never be held is refused before anything is allocated. (They are allocated page
// by page as tokens come, so a large context alone costs nothing.)
Result<uint64_t> check_kv_memory(const Hyper& hyper, uint32_t n_ctx, const KvTypes& types) {
  for (const KvLayerShape& shape : kv_shapes(hyper)) TAMIS_TRY_STATUS(check_kv_types(types, shape));
  const auto needed = kv_bytes(hyper, n_ctx, types);
  const uint64_t available = usable_memory_bytes();
  if (!needed || (available != 0 && *needed > available)) {
    return fail(ErrorCode::out_of_memory,
                "context of {} tokens: keys and values take {} bytes, this process may use {}", n_ctx,
                needed ? std::to_string(*needed) : "more than 2^64", available);
  }
  return *needed;
}

// Weights in the backend's form and a full context, before anything is loaded.
Status check_budget(const ModelPlan& plan, const Backend& backend, uint64_t kv_bytes_of_context,
                    const EngineOptions& options) {
  const uint64_t budget = options.ram_budget_bytes != 0 ? options.ram_budget_bytes : usable_memory_bytes();
  TAMIS_TRY(const ModelBytes bytes, model_bytes(plan, backend, options.affine));
  const auto weights = checked_add(bytes.weights, bytes.vectors);
  const auto needed = weights ? checked_add(*weights, kv_bytes_of_context) : std::nullopt;
  if (needed && (budget == 0 || *needed <= budget)) return {};
  return fail(ErrorCode::out_of_memory, "weights in memory take {} bytes and a full context {}, the budget is {}",
              weights ? std::to_string(*weights) : "more than 2^64", kv_bytes_of_context, budget);
}

}  // namespace

Result<std::shared_ptr<const Engine>> Engine::load(const std::string& path, std::unique_ptr<Backend> backend,
                                                   const EngineOptions& options) {
  GgufOptions file_options;
  file_options.limits = options.limits;
  TAMIS_TRY(const GgufFile file, GgufFile::open(path, file_options));
  return load(file, std::move(backend), options);
}

Result<std::shared_ptr<const Engine>> Engine::load(const GgufFile& file, std::unique_ptr<Backend> backend,
                                                   const EngineOptions& options) {
  TAMIS_TRY(const ModelPlan plan, plan_model(file, options.limits));
  std::shared_ptr<Engine> engine(new Engine);
  const uint32_t n_train = plan.hyper.n_ctx_train;
  engine->n_ctx_ = options.n_ctx != 0 ? options.n_ctx : std::min(n_train, kDefaultContext);
  engine->kv_types_ = options.kv_types;
  engine->n_batch_ = std::max<uint32_t>(1, options.n_batch);
  if (!options.trace_dir.empty()) {
    TAMIS_TRY(engine->trace_, TensorTrace::create(options.trace_dir));
  }
  TAMIS_TRY(engine->kv_bytes_, check_kv_memory(plan.hyper, engine->n_ctx_, options.kv_types));
  TAMIS_TRY_STATUS(check_budget(plan, *backend, engine->kv_bytes_, options));
  if (options.has_tokenizer) {
    TAMIS_TRY(engine->tokenizer_, Tokenizer::from_gguf(file, options.tokenizer));
  }
  TAMIS_TRY(engine->model_, load_model(file, *backend,
                                       {.n_ctx = engine->n_ctx_,
                                        .limits = options.limits,
                                        .affine = options.affine,
                                        .on_unread = options.on_unread}));
  if (engine->n_ctx_ > n_train) {
    engine->model_.warnings.push_back(
        fmt::format("context of {} tokens is longer than the {} the model was trained for", engine->n_ctx_, n_train));
  }
  engine->backend_ = std::move(backend);
  return engine;
}

Result<const ChatTemplate*> Engine::chat_template() const {
  const std::lock_guard lock(parsing_);
  if (!template_) {
    TAMIS_TRY(const std::string_view source, model_.file.get_string("tokenizer.chat_template"));
    template_ = ChatTemplate::parse(source);
  }
  if (!*template_) return tl::unexpected<Error>(template_->error());
  return &**template_;
}

Result<std::vector<float>> Engine::forward(const Batch& batch, const Probe& probe,
                                           const ExpertProbe& expert_probe) const {
  const std::lock_guard lock(stepping_);
  // Weights are read from the mapped file: beyond its new end they would be a SIGBUS.
  if (model_.file.size_changed()) {
    return fail(ErrorCode::io, "{}: the file changed its size while it was in use",
                escape_for_display(model_.file.path(), 4096));
  }
  return run_step(batch, probe, expert_probe);
}

Result<std::vector<float>> Engine::run_step(const Batch& batch, const Probe& probe,
                                            const ExpertProbe& expert_probe) const {
  if (trace_ == nullptr) return tamis::forward(model_, *backend_, batch, probe, expert_probe);
  const Probe traced = [&](std::string_view name, int32_t layer_idx, TensorView value) {
    trace_->add(name, layer_idx, value, *backend_);
    if (probe) probe(name, layer_idx, value);
  };
  auto logits = tamis::forward(model_, *backend_, batch, traced, expert_probe);
  TAMIS_TRY_STATUS(trace_->finish_step());
  return logits;
}

}  // namespace tamis
