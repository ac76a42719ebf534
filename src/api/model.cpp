// LanguageModel over engine/: loading, text and tokens, raw completion.
#include "tamis/model.h"

#include "api/backends.h"
#include "api/model_state.h"
#include "api/open_engine.h"
#include "api/seam.h"
#include "engine/session.h"

namespace tamis::api {
namespace {

tamis::Result<std::shared_ptr<LanguageModel::State>> load_state(const std::string& path, const ModelOptions& options) {
  auto state = std::make_shared<LanguageModel::State>();
  state->path = path;
  state->parse_content_special = options.parse_content_special;
  state->pool = ThreadPool::create(options.n_threads);
  TAMIS_TRY(std::unique_ptr<Backend> backend,
            make_backend(options.backend, options.activations, state->pool.get(), options.layout));
  EngineOptions engine_options;
  engine_options.n_ctx = options.n_ctx;
  engine_options.n_batch = options.n_batch;
  engine_options.ram_budget_bytes = options.ram_budget_bytes;
  TAMIS_TRY(engine_options.kv_types, make_kv_types(options.cache_type_k, options.cache_type_v, options.backend));
  engine_options.tokenizer.pre = options.pre;
  engine_options.trace_dir = options.trace_dir;
  TAMIS_TRY(state->engine, open_engine(path, std::move(backend), engine_options, *state->pool));
  return state;
}

tamis::Result<Answer> complete_text(const LanguageModel::State& state, std::string_view prompt,
                                    const GenerateOptions& options, const OnText& on_text) {
  const Tokenizer& tokenizer = *state.engine->tokenizer();
  std::vector<int32_t> tokens = tokenizer.encode(prompt, {.add_special = true, .parse_special = true});
  if (tokens.empty() && tokenizer.special().bos != kNoToken) tokens.push_back(tokenizer.special().bos);
  if (tokens.empty()) {
    return fail(tamis::ErrorCode::invalid_argument,
                "prompt: got an empty text, and the model has no BOS token to begin with");
  }
  Session session(state.engine);
  TAMIS_TRY(const GenerationOptions engine_options, to_engine(options, state));
  TAMIS_TRY(Generation generation, generate(session, tokens, engine_options, to_engine(on_text)));
  return from_engine(std::move(generation));
}

tamis::Result<std::vector<float>> logits_of(const LanguageModel::State& state, std::span<const int32_t> ids) {
  Session session(state.engine);
  std::vector<float> all;
  TAMIS_TRY_STATUS(session.append_all(ids, 0, [&](size_t, std::span<const float> rows) -> tamis::Status {
    all.insert(all.end(), rows.begin(), rows.end());
    return {};
  }));
  return all;
}

}  // namespace

Result<LanguageModel> LanguageModel::load(const std::string& path, const ModelOptions& options) {
  return at_seam([&] { return load_state(path, options); }).map([](std::shared_ptr<State> state) {
    return LanguageModel(std::move(state));
  });
}

ModelInfo LanguageModel::info() const {
  const Engine& engine = *state_->engine;
  const Model& model = engine.model();
  ModelInfo info;
  info.path = state_->path;
  if (const auto name = model.file.get_string("general.name")) info.name = *name;
  info.architecture = model.arch.name;
  info.backend = engine.backend_name();
  info.file_bytes = model.file.size_bytes();
  for (const GgufTensor& tensor : model.file.tensors()) info.n_parameters += tensor.shape.n_elements();
  info.n_layers = model.hyper.n_layers;
  info.n_embd = model.hyper.n_embd;
  info.n_vocab = model.n_vocab();
  info.n_ctx_train = model.n_ctx_train();
  info.n_ctx = engine.n_ctx();
  info.n_threads = state_->pool->n_threads();
  info.kv_bytes = engine.kv_bytes_of_context();
  info.has_chat_template = engine.has_chat_template();
  info.warnings = engine.warnings();
  return info;
}

std::vector<int32_t> LanguageModel::tokenize(std::string_view text, bool add_special, bool parse_special) const {
  return state_->engine->tokenizer()->encode(text, {.add_special = add_special, .parse_special = parse_special});
}

std::string LanguageModel::detokenize(std::span<const int32_t> ids) const {
  return state_->engine->tokenizer()->decode(ids);
}

Result<Answer> LanguageModel::complete(std::string_view prompt, const GenerateOptions& options,
                                       const OnText& on_text) const {
  return at_seam([&] { return complete_text(*state_, prompt, options, on_text); });
}

Result<std::vector<float>> LanguageModel::logits(std::span<const int32_t> ids) const {
  return at_seam([&] { return logits_of(*state_, ids); });
}

}  // namespace tamis::api
