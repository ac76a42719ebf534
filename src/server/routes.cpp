// The table of routes, and what the short ones answer.
#include <algorithm>

#include "base/log_thread.h"
#include "server/embeddings.h"
#include "server/fields.h"
#include "server/page.h"
#include "server/route.h"
#include "server/sessions.h"

namespace tamis::server {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/", kSlotPrefix = "/slots/";
constexpr size_t kMaxPieces =
    size_t{1} << 20;  // of one answer of /tokenize: each takes some 200 bytes until it is sent

Response json_response(const Json& json, int status = 200) {
  Response response;
  response.status = status;
  response.body = json.dump() + "\n";
  return response;
}

Response unavailable(std::string_view message) { return error_response(plain_error(503, message)); }

std::string count_label(uint64_t n) {
  return n >= 1000000000 ? fmt::format("{:.1f}B", static_cast<double>(n) / 1e9)
                         : fmt::format("{:.2f}M", static_cast<double>(n) / 1e6);
}

// `is_one_of_several`: whether it is in memory is told, too.
Json model_json(const ModelStatus& status, bool is_one_of_several) {
  const ModelCard& card = status.card;
  Json meta = Json::object();
  if (status.lease) {
    const ServedModel& model = *status.lease->model;
    meta.set("n_ctx", model.scheduler->n_ctx()).set("n_ctx_train", model.engine->model().n_ctx_train());
    meta.set("n_vocab", model.engine->model().n_vocab());
  }
  meta.set("n_params", card.n_parameters).set("size", card.size_bytes).set("type", card.type_label);
  Json out = Json::object();
  out.set("id", card.alias).set("object", "model").set("created", card.loaded_at).set("owned_by", "tamis");
  out.set("meta", std::move(meta));
  if (!is_one_of_several) return out;
  Json state = Json::object();
  state.set("value", state_name(status.state)).set("failed", status.has_failed);
  return out.set("status", std::move(state));
}

Json ollama_details(const ModelCard& model) {
  Json out = Json::object();
  out.set("parent_model", "").set("format", "gguf").set("family", model.architecture);
  out.set("families", Json(Json::Array{Json(model.architecture)}));
  return out.set("parameter_size", count_label(model.n_parameters)).set("quantization_level", model.type_label);
}

Json ollama_model(const ModelCard& model) {
  Json out = Json::object();
  out.set("name", model.alias).set("model", model.alias).set("modified_at", rfc3339(model.loaded_at));
  return out.set("size", model.size_bytes).set("digest", "").set("details", ollama_details(model));
}

std::string token_text(const Tokenizer& tokenizer, TokenId id) {
  return id == kNoToken ? std::string() : std::string(tokenizer.token_text(id));
}

// The name of the model that /api/show is asked for.
ApiResult<std::string> parse_show(const Json& body) {
  Fields fields(body);
  std::string name;
  fields.text("model", name);
  fields.text("name", name);
  fields.inert_boolean("verbose");
  TAMIS_API_TRY_STATUS(fields.finish());
  return name;
}

void read_show(const Json& body, const CallLimits&) { (void)parse_show(body); }

}  // namespace

const std::vector<Server::Route>& Server::routes() {
  static const std::vector<Route> rows = [] {
    std::vector<Route> all = quick_routes();
    for (const auto& more : {reading_routes(), generating_routes()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rows;
}

std::vector<Server::Route> Server::quick_routes() {
  using S = Server;
  return {
      {.method = "GET",
       .path = "/health",
       .is_public = true,
       .quick = &S::health,
       .about = "Whether the server works."},
      {.method = "GET", .path = "/v1/health", .is_public = true, .quick = &S::health, .about = "As /health."},
      {.method = "GET", .path = "/ready", .is_public = true, .quick = &S::ready, .about = "Whether it takes requests."},
      {.method = "GET", .path = "/metrics", .quick = &S::metrics_page, .about = "Counters for Prometheus."},
      {.method = "GET", .path = "/openapi.json", .quick = &S::api_description, .about = "This description."},
      {.method = "GET", .path = "/v1/models", .quick = &S::list_models, .about = "The models that are served."},
      {.method = "GET", .path = "/models", .quick = &S::list_models, .about = "As /v1/models."},
      {.method = "GET", .path = "/props", .quick = &S::props, .about = "llama-server: the model and its settings."},
      {.method = "GET",
       .path = "/slots",
       .quick = &S::slots,
       .about = "llama-server: the sequences there are; with sessions, `id` is their slot."},
      {.method = "GET", .path = "/api/version", .quick = &S::version, .about = "ollama: the version."},
      {.method = "GET", .path = "/api/tags", .quick = &S::tags, .about = "ollama: the models that are served."},
      {.method = "GET", .path = "/api/ps", .quick = &S::loaded_tags, .about = "ollama: those in memory."},
  };
}

std::vector<Server::Route> Server::reading_routes() {
  using S = Server;
  return {
      {.method = "POST", .path = "/api/show", .work = &S::show, .read = read_show, .about = "ollama: the model."},
      {.method = "POST",
       .path = "/tokenize",
       .work = &S::tokenize,
       .read = [](const Json& body, const CallLimits&) { (void)parse_tokenize(body); },
       .about = "llama-server: a text's tokens."},
      {.method = "POST",
       .path = "/detokenize",
       .work = &S::detokenize,
       .read = [](const Json& body, const CallLimits& limits) { (void)parse_detokenize(body, limits); },
       .about = "llama-server: tokens' text."},
      {.method = "POST",
       .path = "/apply-template",
       .work = &S::apply_template,
       .read = [](const Json& body, const CallLimits& limits) { (void)parse_apply_template(body, limits); },
       .about = "llama-server: what the chat template makes of messages."},
      {.method = "POST",
       .path = "/v1/messages/count_tokens",
       .work = &S::count_tokens,
       .read = [](const Json& body, const CallLimits& limits) { (void)parse_anthropic_count(body, limits); },
       .about = "Anthropic: the number of a prompt's tokens."},
      {.method = "POST",
       .path = "/v1/responses/input_tokens",
       .work = &S::count_input_tokens,
       .read = [](const Json& body, const CallLimits& limits) { (void)parse_response(body, limits); },
       .about = "OpenAI: the number of an input's tokens."},
      {.method = "POST",
       .path = "/v1/embeddings",
       .begin = &S::embeddings,
       .read = [](const Json& body, const CallLimits& limits) { (void)parse_embeddings(body, limits); },
       .about = "OpenAI: texts as vectors."},
  };
}

std::vector<Server::Route> Server::generating_routes() {
  return {
      {.method = "POST",
       .path = "/v1/chat/completions",
       .parse = parse_chat_completion,
       .about = "OpenAI: the next message of a chat."},
      {.method = "POST",
       .path = "/chat/completions",
       .parse = parse_chat_completion,
       .about = "As /v1/chat/completions."},
      {.method = "POST",
       .path = "/v1/completions",
       .parse = parse_text_completion,
       .about = "OpenAI: a text goes on.",
       .dialect = Dialect::openai_text},
      {.method = "POST",
       .path = "/v1/responses",
       .parse = parse_response,
       .about = "OpenAI: an answer to an input.",
       .dialect = Dialect::openai_responses},
      {.method = "POST",
       .path = "/completion",
       .parse = parse_native_completion,
       .about = "llama-server: a text goes on.",
       .dialect = Dialect::native},
      {.method = "POST",
       .path = "/completions",
       .parse = parse_native_completion,
       .about = "As /completion.",
       .dialect = Dialect::native},
      {.method = "POST",
       .path = "/v1/messages",
       .parse = parse_anthropic,
       .about = "Anthropic: the next message of a chat.",
       .dialect = Dialect::anthropic},
      {.method = "POST",
       .path = "/api/chat",
       .parse = parse_ollama_chat,
       .about = "ollama: the next message of a chat.",
       .dialect = Dialect::ollama_chat},
      {.method = "POST",
       .path = "/api/generate",
       .parse = parse_ollama_generate,
       .about = "ollama: an answer to a prompt.",
       .dialect = Dialect::ollama_generate},
  };
}

const Server::Route& Server::model_route() {
  static const Route row{.method = "GET",
                         .path = "/v1/models/{model}",
                         .quick = &Server::one_model,
                         .about = "The model of that name.",
                         .parameters = R"([{"name":"model","in":"path","required":true,"schema":{"type":"string"}}])"};
  return row;
}

const Server::Route& Server::slot_route() {
  static const Route row{
      .method = "POST",
      .path = "/slots/{id_slot}",
      .begin = &Server::session,
      .read = [](const Json& body, const CallLimits&) { (void)parse_session(body); },
      .about = "llama-server: a conversation into a file, and back.",
      .parameters = R"([{"name":"id_slot","in":"path","required":true,"schema":{"type":"integer","minimum":0}},
        {"name":"action","in":"query","required":true,"schema":{"enum":["save","restore","erase"]}}])"};
  return row;
}

const Server::Route* Server::find_route(std::string_view method, std::string_view path) {
  for (const Route& route : routes())
    if (route.path == path && route.method == method) return &route;
  static const Route page{.method = "GET", .path = "/", .is_public = true, .quick = &Server::page};
  if (method == page.method && find_page_file(path) != nullptr) return &page;
  const auto is_one_of = [&](std::string_view prefix) {
    return path.starts_with(prefix) && path.size() > prefix.size();
  };
  if (method == model_route().method && is_one_of(kModelPrefix)) return &model_route();
  return method == slot_route().method && is_one_of(kSlotPrefix) ? &slot_route() : nullptr;
}

ApiOperation Server::operation_of(const Route& route) {
  ApiOperation out{.method = route.method,
                   .path = route.path,
                   .about = route.about,
                   .is_public = route.is_public,
                   .parameters = route.parameters};
  out.answer_type = route.path == "/metrics" ? "text/plain" : "application/json";
  if (route.read != nullptr) out.read = route.read;
  if (route.parse == nullptr) return out;
  out.read = [parse = route.parse](const Json& body, const CallLimits& limits) { (void)parse(body, limits); };
  const bool is_ollama = route.dialect == Dialect::ollama_chat || route.dialect == Dialect::ollama_generate;
  out.stream_type = is_ollama ? "application/x-ndjson" : "text/event-stream";
  return out;
}

std::string Server::allowed_methods(std::string_view path) {
  std::string out;
  for (const std::string_view method : {"GET", "POST"}) {
    if (find_route(method, path) == nullptr) continue;
    if (!out.empty()) out += ", ";
    out += method == "GET" ? "GET, HEAD" : method;
  }
  return out.empty() ? out : out + ", OPTIONS";
}

Response Server::health(const Request&) {
  if (!has_models()) return unavailable("the model is being loaded");
  for (const ModelStatus& status : model_list())
    if (status.lease && status.lease->model->scheduler->stats().stalled_seconds > options_.stuck_after_seconds)
      return unavailable("the engine makes no step");
  Json out = Json::object();
  return json_response(out.set("status", "ok"));
}

Response Server::ready(const Request&) {
  if (!has_models()) return unavailable("the model is being loaded");
  if (is_draining_) return unavailable("the server is shutting down");
  const std::vector<ModelStatus> list = model_list();
  // With several models, one that takes requests is enough, and one that is not in memory takes them.
  const bool is_full = std::all_of(list.begin(), list.end(), [](const ModelStatus& status) {
    return status.lease && status.lease->model->scheduler->stats().n_queued >= status.lease->model->max_queue;
  });
  if (is_full) return unavailable("the queue is full");
  Json out = Json::object();
  return json_response(out.set("status", "ready"));
}

Response Server::metrics_page(const Request&) {
  const bool has_several = models_shelf() != nullptr;
  const std::vector<ModelStatus> list = model_list();
  std::vector<ModelFigures> figures;
  for (const ModelStatus& status : list) {
    ModelFigures& model = figures.emplace_back();
    model.name = status.card.alias;
    model.counts = status.counts.get();
    if (status.lease) model.scheduler = status.lease->model->scheduler->stats();
    if (has_several) model.shelf = status.figures;
  }
  if (figures.empty()) figures.emplace_back().counts = counts_.get();
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  ServerFigures server{.http = http_->stats(),
                       .is_draining = is_draining_,
                       .n_access_lines_dropped = log_ != nullptr ? log_->n_dropped() : 0,
                       .n_log_lines_dropped = n_log_lines_dropped()};
  if (traces_ != nullptr) server.traces = traces_->figures();
  response.body = metrics_.page(figures, server);
  return response;
}

Response Server::list_models(const Request&) {
  const bool has_several = models_shelf() != nullptr;
  Json list = Json::array();
  for (const ModelStatus& status : model_list()) list.push_back(model_json(status, has_several));
  Json out = Json::object();
  return json_response(out.set("object", "list").set("data", std::move(list)));
}

Response Server::one_model(const Request& request) {
  const std::string_view path = request.head.path();
  const std::string name = percent_decoded(path.substr(kModelPrefix.size())).value_or("");
  const bool has_several = models_shelf() != nullptr;
  for (const ModelStatus& status : model_list())
    if (status.card.alias == name) return json_response(model_json(status, has_several));
  ApiError error = plain_error(404, "there is no such model");
  error.code = "model_not_found";
  return error_response(error);
}

Response Server::props(const Request& request) {
  const auto lease = shown_model(request);
  if (!lease) return error_response(lease.error());
  const ServedModel* const served = lease->model.get();
  const Tokenizer& tokenizer = *served->engine->tokenizer();
  Json settings = Json::object();
  settings.set("n_ctx", served->scheduler->n_ctx());
  Json modalities = Json::object();
  modalities.set("vision", false).set("audio", false);
  Json out = Json::object();
  out.set("default_generation_settings", std::move(settings)).set("total_slots", served->max_seqs);
  out.set("model_alias", served->alias).set("model_path", served->alias);
  out.set("chat_template", served->chat_template).set("bos_token", token_text(tokenizer, tokenizer.special().bos));
  out.set("eos_token", token_text(tokenizer, tokenizer.special().eos)).set("modalities", std::move(modalities));
  return json_response(out.set("build_info", "tamis " + options_.version));
}

Response Server::page(const Request& request) {
  return page_response(*find_page_file(request.head.path()), request.head);  // there is one: its route was found by it
}

Response Server::api_description(const Request& request) {
  const auto lease = shown_model(request);
  if (!lease) return error_response(lease.error());
  const std::shared_ptr<const ServedModel>& served = lease->model;
  const bool is_other = described_.owner_before(served) || served.owner_before(described_);
  if (description_.empty() || is_other) {
    std::vector<ApiOperation> operations;
    for (const Route& route : routes())
      if (!route.about.empty()) operations.push_back(operation_of(route));
    for (const Route* const route : {&model_route(), &slot_route()}) operations.push_back(operation_of(*route));
    description_ = describe_api(operations, limits_of(*served), options_.version, !keys()->empty()).dump() + "\n";
    described_ = served;
  }
  Response response;
  response.body = description_;
  return response;
}

Response Server::slots(const Request& request) {
  const auto lease = shown_model(request);
  if (!lease) return error_response(lease.error());
  const ServedModel* const served = lease->model.get();
  constexpr std::string_view kStates[] = {"waiting", "running", "paused"};
  Json list = Json::array();
  for (const SequenceInfo& sequence : served->scheduler->sequences()) {
    Json next = Json::object(), item = Json::object();
    next.set("n_decoded", uint64_t{sequence.n_generated});
    item.set("id", uint64_t{sequence.slot.value_or(list.as_array().size())}).set("id_task", sequence.request_id);
    item.set("choice", sequence.choice_idx).set("n_ctx", served->scheduler->n_ctx());
    item.set("state", kStates[static_cast<size_t>(sequence.state)]);
    item.set("is_processing", sequence.state == SequenceInfo::State::running);
    item.set("n_prompt_tokens", uint64_t{sequence.n_prompt});
    item.set("n_prompt_tokens_processed", uint64_t{std::min(sequence.n_computed, sequence.n_prompt)});
    list.push_back(item.set("next_token", Json(Json::Array{std::move(next)})));
  }
  return json_response(list);
}

Response Server::version(const Request&) {
  Json out = Json::object();
  return json_response(out.set("version", options_.version));
}

Response Server::tags(const Request&) {
  Json list = Json::array();
  for (const ModelStatus& status : model_list()) list.push_back(ollama_model(status.card));
  Json out = Json::object();
  return json_response(out.set("models", std::move(list)));
}

Response Server::loaded_tags(const Request&) {
  Json list = Json::array();
  for (const ModelStatus& status : model_list())
    if (status.lease) list.push_back(ollama_model(*status.lease->model));
  Json out = Json::object();
  return json_response(out.set("models", std::move(list)));
}

ApiResult<Json> Server::show(const ServedModel& served, const Json& body) {
  TAMIS_API_TRY(const std::string name, parse_show(body));
  TAMIS_API_TRY_STATUS(check_model_name(name, served));
  Json info = Json::object();
  info.set("general.architecture", served.architecture).set("general.parameter_count", served.n_parameters);
  info.set(served.architecture + ".context_length", served.engine->model().n_ctx_train());
  Json out = Json::object();
  out.set("modelfile", "").set("parameters", "").set("template", served.chat_template);
  out.set("details", ollama_details(served)).set("model_info", std::move(info));
  Json::Array abilities{Json("completion")};
  if (served.syntax.offers_tools) abilities.emplace_back("tools");
  if (served.syntax.names_reasoning) abilities.emplace_back("thinking");
  return out.set("capabilities", Json(std::move(abilities))).set("modified_at", rfc3339(served.loaded_at));
}

ApiResult<Json> Server::tokenize(const ServedModel& served, const Json& body) {
  TAMIS_API_TRY(const TokenizeCall call, parse_tokenize(body));
  const Tokenizer& tokenizer = *served.engine->tokenizer();
  const std::vector<TokenId> ids = tokenizer.encode(call.content, {call.add_special, call.parse_special});
  if (call.with_pieces && ids.size() > kMaxPieces)
    return refuse("with_pieces",
                  fmt::format("got {} tokens, at most {} come with their pieces", ids.size(), kMaxPieces));
  Json list = Json::array();
  for (const TokenId id : ids) {
    Json item = Json::object();
    list.push_back(call.with_pieces ? item.set("id", int64_t{id}).set("piece", tokenizer.token_bytes(id, true))
                                    : Json(int64_t{id}));
  }
  Json out = Json::object();
  return out.set("tokens", std::move(list));
}

ApiResult<Json> Server::detokenize(const ServedModel& served, const Json& body) {
  TAMIS_API_TRY(const std::vector<TokenId> ids, parse_detokenize(body, limits_of(served)));
  Json out = Json::object();
  return out.set("content", served.engine->tokenizer()->decode(ids, true));
}

ApiResult<Json> Server::apply_template(const ServedModel& served, const Json& body) {
  TAMIS_API_TRY(const GenerationCall call, parse_apply_template(body, limits_of(served)));
  TAMIS_API_TRY(std::string text, render_prompt(served, call));
  Json out = Json::object();
  return out.set("prompt", std::move(text));
}

ApiResult<Json> Server::count_tokens(const ServedModel& served, const Json& body) {
  TAMIS_API_TRY(const GenerationCall call, parse_anthropic_count(body, limits_of(served)));
  TAMIS_API_TRY_STATUS(check_model_name(call.model, served));
  TAMIS_API_TRY(const auto prompts, build_prompts(served, call));
  Json out = Json::object();
  return out.set("input_tokens", uint64_t{prompts.front().size()});
}

ApiResult<Json> Server::count_input_tokens(const ServedModel& served, const Json& body) {
  TAMIS_API_TRY(const GenerationCall call, parse_response(body, limits_of(served)));
  TAMIS_API_TRY_STATUS(check_model_name(call.model, served));
  TAMIS_API_TRY(const auto prompts, build_prompts(served, call));
  Json out = Json::object();
  return out.set("object", "response.input_tokens").set("input_tokens", uint64_t{prompts.front().size()});
}

ApiResult<void> Server::embeddings(const ModelLease& lease, const Request& request, const Json& body,
                                   const std::shared_ptr<Reply>& reply) {
  const std::shared_ptr<const ServedModel>& served = lease.model;
  TAMIS_API_TRY(EmbeddingsCall call, parse_embeddings(body, limits_of(*served)));
  TAMIS_API_TRY_STATUS(check_model_name(call.model, *served));
  EmbeddingJob::Setup setup;
  setup.max_bytes = most_bytes(call, limits_of(*served));
  if (setup.max_bytes > kMaxHeldBytes) return refuse("input", "the answer to so many inputs would be too large");
  setup.held = hold_bytes(answer_bytes_, setup.max_bytes);
  if (setup.held == nullptr) return refused(503, "too many large answers are being made");
  TAMIS_API_TRY(setup.pooling, pooling_of(*served));
  for (EmbeddingsCall::Input& input : call.inputs) {
    TAMIS_API_TRY(std::vector<TokenId> prompt, build_embedding_prompt(*served, input));
    setup.prompts.push_back(std::move(prompt));
  }
  setup.reply = reply;
  setup.model = served;
  setup.hold = lease.hold;
  setup.alias = served->alias;
  setup.tenant = request.facts->tenant;
  setup.is_base64 = call.is_base64;
  TAMIS_API_TRY(const double seconds, time_left(request));
  setup.deadline = deadline_in(seconds);
  setup.n_at_once = std::clamp<size_t>(served->max_queue / 4, 1, served->max_seqs);
  std::make_shared<EmbeddingJob>(std::move(setup))->start();
  return {};
}

}  // namespace tamis::server
