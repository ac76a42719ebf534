// Requests of the scenarios, in the words of OpenAI's API.
#include "cli/load_run.h"

#include <algorithm>

namespace tamis::cli {

Json chat_message(std::string_view role, std::string content) {
  Json out = Json::object();
  return out.set("role", role).set("content", std::move(content));
}

namespace {

Json string_property(std::string_view name) {
  Json type = Json::object();
  type.set("type", "string");
  Json out = Json::object();
  return out.set(std::string(name), std::move(type));
}

Json object_schema(Json properties) {
  Json required = Json::array();
  for (const auto& [name, type] : properties.as_object()) required.push_back(name);
  Json out = Json::object();
  return out.set("type", "object")
      .set("properties", std::move(properties))
      .set("required", std::move(required))
      .set("additionalProperties", false);
}

Json tool(std::string_view name, std::string_view what, std::string_view argument) {
  Json function = Json::object();
  function.set("name", name).set("description", what).set("parameters", object_schema(string_property(argument)));
  Json out = Json::object();
  return out.set("type", "function").set("function", std::move(function));
}

}  // namespace

Json agent_tools() {
  Json out = Json::array();
  out.push_back(tool("read_file", "Reads a file of the project", "path"));
  out.push_back(tool("run_command", "Runs a command and returns what it prints", "command"));
  return out;
}

void append_tool_turn(Json& messages, uint32_t turn, std::string answer, std::string tool_result) {
  const std::string id = fmt::format("call_{:09}", turn);
  Json function = Json::object();
  function.set("name", "read_file").set("arguments", fmt::format("{{\"path\": \"src/part{}.txt\"}}", turn));
  Json call = Json::object();
  call.set("id", id).set("type", "function").set("function", std::move(function));
  messages.push_back(
      chat_message("assistant", std::move(answer)).set("tool_calls", Json(Json::Array{std::move(call)})));
  messages.push_back(chat_message("tool", std::move(tool_result)).set("tool_call_id", id));
}

Json array_schema() {
  Json out = Json::object();
  return out.set("type", "array").set("items", object_schema(string_property("name"))).set("minItems", 200);
}

LoadSizes LoadRun::sizes(const LoadSizes& defaults) const {
  LoadSizes out = defaults;
  out.n_clients = options_.n_clients.value_or(defaults.n_clients);
  out.n_requests = options_.n_requests.value_or(defaults.n_requests);
  out.prompt = options_.prompt.value_or(defaults.prompt);
  out.output = options_.output.value_or(defaults.output);
  return out;
}

// ignore_eos is not OpenAI's, but the servers that run models have it: lengths are then what was asked for.
Json LoadRun::body(uint64_t n_output) const {
  Json out = Json::object();
  Json usage = Json::object();
  usage.set("include_usage", true);
  out.set("model", options_.model).set("max_tokens", n_output).set("temperature", 0).set("ignore_eos", true);
  out.set("stream", true).set("stream_options", std::move(usage));
  if (schema_.is_null()) return out;
  Json named = Json::object();
  named.set("name", "list").set("strict", true).set("schema", schema_);
  Json form = Json::object();
  return out.set("response_format", form.set("type", "json_schema").set("json_schema", std::move(named)));
}

std::string LoadRun::key_of(uint32_t client) const {
  return options_.keys.empty() ? std::string() : options_.keys[client % options_.keys.size()];
}

size_t LoadRun::send_body(uint32_t client, const Json& body, OnTrace on_piece, OnTrace on_end) {
  return client_.send({.client = client,
                       .path = options_.is_chat ? "/v1/chat/completions" : "/v1/completions",
                       .body = body.dump(),
                       .key = key_of(client),
                       .on_piece = std::move(on_piece),
                       .on_end = std::move(on_end)});
}

size_t LoadRun::send(uint32_t client, const LoadMessage& message, OnTrace on_piece, OnTrace on_end) {
  Json out = body(message.n_output);
  if (options_.is_chat) {
    Json messages = Json::array();
    if (!message.system.empty()) messages.push_back(chat_message("system", message.system));
    messages.push_back(chat_message("user", message.user));
    out.set("messages", std::move(messages));
  } else {
    out.set("prompt", message.system + (message.system.empty() ? "" : " ") + message.user);
  }
  return send_body(client, out, std::move(on_piece), std::move(on_end));
}

size_t LoadRun::send_messages(uint32_t client, const Json& messages, const Json& tools, uint64_t n_output) {
  Json out = body(n_output);
  out.set("messages", messages).set("tools", tools);
  return send_body(client, out, {}, {});
}

Status LoadRun::learn_word_cost() {
  constexpr size_t kFewWords = 16, kManyWords = 64;
  uint64_t n_tokens[2] = {};
  for (const bool is_many : {false, true}) {
    const size_t idx = send(0, {.user = random_words(rng_, is_many ? kManyWords : kFewWords), .n_output = 1});
    TAMIS_TRY_STATUS(client_.run(stop_));
    const LoadTrace trace = client_.trace(idx);
    client_.take_traces();
    if (!trace.is_answered()) return fail(ErrorCode::network, "{}", trace.error);
    if (trace.n_prompt == 0)
      return fail(ErrorCode::unsupported, "the server's streams have no usage (stream_options.include_usage)");
    n_tokens[is_many ? 1 : 0] = trace.n_prompt;
  }
  cost_ = WordCost::from_usage(kFewWords, n_tokens[0], kManyWords, n_tokens[1]);
  return {};
}

Status LoadRun::closed_phase(std::string name, const LoadSizes& sizes) {
  uint32_t n_sent = 0;
  std::function<void(uint32_t)> next = [&](uint32_t client) {
    if (n_sent == sizes.n_requests) return;
    ++n_sent;
    send(client, {.user = words(sizes.prompt.draw(rng_)), .n_output = sizes.output.draw(rng_)}, {},
         [&next, client](const LoadTrace& trace) {
           if (!trace.is_cancelled) next(client);
         });
  };
  for (uint32_t client = 0; client < sizes.n_clients; ++client) next(client);
  TAMIS_TRY_STATUS(client_.run(stop_));
  end_phase(std::move(name));
  return {};
}

void LoadRun::end_phase(std::string name) {
  LoadPhase phase{.name = std::move(name), .traces = client_.take_traces()};
  phase.summary = summarize(phase.traces, options_.slo);
  report_.phases.push_back(std::move(phase));
}

double LoadRun::median_prompt_tokens() const {
  std::vector<double> n;
  for (const LoadTrace& trace : report_.phases.back().traces)
    if (trace.is_answered()) n.push_back(static_cast<double>(trace.n_prompt));
  return percentile(std::move(n), 0.5);
}

std::string LoadRun::first_error() const {
  if (report_.phases.empty() || report_.phases.back().summary.errors.empty()) return "no answer";
  return report_.phases.back().summary.errors.begin()->first;
}

}  // namespace tamis::cli
