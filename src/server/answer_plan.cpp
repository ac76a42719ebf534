// From a call's wishes about tools and reasoning to what parser and scheduler need.
#include "server/answer_plan.h"

#include <algorithm>

namespace tamis::server {
namespace {

bool is_control(const Tokenizer& tokenizer, std::string_view mark) {
  const auto id = tokenizer.find_token(mark);
  return id && tokenizer.token_type(*id) == TokenType::control;
}

// Control tokens that the parser has to see.
std::vector<TokenId> shown_tokens(const Tokenizer& tokenizer, const AnswerSyntax& syntax) {
  std::vector<TokenId> out;
  for (const std::string_view mark : syntax.marks())
    if (is_control(tokenizer, mark)) out.push_back(*tokenizer.find_token(mark));
  return out;
}

struct Marks {
  std::string_view begin, end;
};

Marks reasoning_marks(const AnswerSyntax& syntax) {
  if (syntax.calls->frame == CallSyntax::Frame::channels) return {"<|channel|>analysis<|message|>", "<|end|>"};
  return {syntax.reasoning.begin, syntax.reasoning.end};
}

// Where the prompt stands: before any reasoning, in it, or behind.
bool is_last(std::string_view prompt_end, std::string_view mark, std::string_view other) {
  const size_t at = prompt_end.rfind(mark), at_other = prompt_end.rfind(other);
  return at != std::string_view::npos && (at_other == std::string_view::npos || at > at_other);
}

// References within a schema, once it stands at `place` in another one.
void move_references(Json& schema, const std::string& place) {
  if (schema.is_array())
    for (Json& item : schema.as_array()) move_references(item, place);
  if (!schema.is_object()) return;
  for (auto& [key, value] : schema.as_object()) {
    const bool is_reference = key == "$ref" && value.is_string() && value.as_string().starts_with('#');
    if (is_reference) value = place + value.as_string().substr(1);
    move_references(value, place);
  }
}

// One call as a schema, without marks: {"name": …, "arguments": …}, as every model may write it.
std::string call_schema(const CallSyntax& syntax, const ToolUse& tools) {
  const std::string key(syntax.arguments_key);
  Json any = Json::array();
  for (const Json& tool : tools.offered.as_array()) {
    const Json& function = *tool.find("function");
    if (!tools.only.empty() && *function.find("name") != Json(tools.only)) continue;
    Json name = Json::object(), members = Json::object(), call = Json::object();
    Json arguments = *function.find("parameters");
    move_references(arguments, fmt::format("#/anyOf/{}/properties/{}", any.as_array().size(), key));
    members.set("name", name.set("const", *function.find("name"))).set(key, std::move(arguments));
    call.set("type", "object").set("properties", std::move(members));
    call.set("required", Json(Json::Array{Json("name"), Json(key)})).set("additionalProperties", false);
    any.push_back(std::move(call));
  }
  Json schema = Json::object();
  return schema.set("anyOf", std::move(any)).dump();
}

}  // namespace

GrammarSpec required_calls(const Tokenizer& tokenizer, const CallSyntax& syntax, const ToolUse& tools) {
  GrammarSpec spec{GrammarSpec::Kind::json_schema, call_schema(syntax, tools)};
  const bool is_written = !is_control(tokenizer, syntax.begin) && !is_control(tokenizer, syntax.end);
  if (!tools.allows_several || !tools.only.empty() || !is_written) return spec;
  const std::string begin(syntax.begin), end(syntax.end);
  if (syntax.several == CallSyntax::Several::repeated)
    spec.row = {begin + "\n", "\n" + end + "\n" + begin + "\n", "\n" + end};
  if (syntax.several == CallSyntax::Several::listed) spec.row = {begin + "[", ", ", "]" + end};
  return spec;
}

ApiResult<AnswerPlan> plan_answer(const ServedModel& model, std::string_view prompt_end, GenerationCall& call) {
  AnswerPlan plan;
  if (!call.messages) return plan;
  const Tokenizer& tokenizer = *model.engine->tokenizer();
  const AnswerSyntax& syntax = model.syntax;
  const Marks marks = reasoning_marks(syntax);
  const bool is_open = is_last(prompt_end, marks.begin, marks.end);
  const bool is_behind = is_last(prompt_end, marks.end, marks.begin);

  AnswerParserSetup parsing{.syntax = syntax};
  parsing.separates_reasoning = call.separates_reasoning;
  parsing.begins_in_reasoning = is_open;
  if (!call.form) parsing.tools = call.tools.offered;  // an answer of another form holds no calls
  if (!call.tools.allows_several || !call.tools.only.empty()) parsing.max_calls = 1;
  call.request.shown_tokens = shown_tokens(tokenizer, syntax);

  if (call.tools.is_required) {
    if (call.form)
      return refuse("tool_choice", fmt::format("{} says already what the answer must be", call.form_field));
    call.form = required_calls(tokenizer, *syntax.calls, call.tools);
    call.form_field = "tool_choice";
    if (!call.form->row) parsing.max_calls = 1;
  } else if (!parsing.tools.as_array().empty() && parsing.max_calls == 1 && !syntax.calls->end.empty() &&
             syntax.calls->frame == CallSyntax::Frame::marked) {
    plan.own_stop = syntax.calls->end;  // nothing behind the call is wanted
    call.request.stop.push_back(plan.own_stop);
  }

  if (!is_behind && (call.reasoning_budget >= 0 || (call.form && syntax.names_reasoning))) {
    ReasoningRule rule;
    rule.begin = marks.begin;
    rule.end = marks.end;
    rule.begin_token = tokenizer.find_token(marks.begin).value_or(kNoToken);
    rule.is_open = is_open;
    rule.budget = call.reasoning_budget;
    const bool has_channels = syntax.calls->frame == CallSyntax::Frame::channels;
    const std::string end = has_channels ? std::string(syntax.forced_end()) : fmt::format("\n{}\n\n", marks.end);
    rule.forced_end = tokenizer.encode(end, {.add_special = false, .parse_special = true});
    call.request.reasoning = std::move(rule);
  }
  plan.parsing = std::make_shared<const AnswerParserSetup>(std::move(parsing));
  return plan;
}

}  // namespace tamis::server
