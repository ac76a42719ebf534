// Which tools an answer may call, and how its reasoning is bounded and told.
#include "server/tool_fields.h"

#include <algorithm>
#include <limits>

#include "server/call_fields.h"

namespace tamis::server {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr int64_t kMaxBudget = std::numeric_limits<int32_t>::max();

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

bool is_known(const Json& tools, std::string_view name) {
  return std::any_of(tools.as_array().begin(), tools.as_array().end(),
                     [&](const Json& tool) { return tool.find("function")->find("name")->as_string() == name; });
}

// One tool from its parts; `place` is where they stand, `parameters_name` how the schema is called there.
void add_tool(Fields& inner, std::string_view parameters_name, GenerationCall& call) {
  std::string name, description;
  inner.text("name", name);
  const bool has_description = inner.text("description", description);
  const Json* const given = inner.object(parameters_name);
  if (!is_tool_name(name)) inner.fail("name", fmt::format("expected 1 to {} letters, digits, _ - .", kMaxNameBytes));
  if (is_known(call.tools.offered, name)) inner.fail("name", "another tool has that name");
  Json parameters = given == nullptr ? Json::object() : *given;
  const Json* const type = parameters.find("type");
  if (type != nullptr && *type != Json("object"))
    inner.fail(fmt::format("{}.type", parameters_name), R"(expected "object")");
  if (type == nullptr) parameters.set("type", "object");
  if (parameters.find("properties") == nullptr) parameters.set("properties", Json::object());
  Json function = Json::object(), tool = Json::object();
  function.set("name", name);
  if (has_description) function.set("description", description);
  function.set("parameters", std::move(parameters));
  call.tools.offered.push_back(tool.set("type", "function").set("function", std::move(function)));
}

const Json* read_list(Fields& fields) {
  const Json* const tools = fields.array("tools");
  if (tools == nullptr || tools->as_array().size() <= ToolUse::kMaxTools) return tools;
  fields.fail("tools",
              fmt::format("got {} tools, at most {} are allowed", tools->as_array().size(), ToolUse::kMaxTools));
  return nullptr;
}

// [{"type": "function", "function": {"name", "description", "parameters"}}, …]
void read_function_tools(Fields& fields, GenerationCall& call) {
  const Json* const tools = read_list(fields);
  if (tools == nullptr) return;
  for (size_t i = 0; i < tools->as_array().size() && !fields.has_failed(); ++i) {
    const Json& tool = tools->as_array()[i];
    const std::string place = fmt::format("tools[{}]", i);
    if (!tool.is_object()) return fields.fail(place, fmt::format("got {}, expected an object", kind_of(tool)));
    Fields outer(tool, place + ".");
    outer.only("type", "function", R"(expected "function")");
    const Json* const function = outer.object("function");
    if (function == nullptr) {
      outer.fail("function", "expected an object");
    } else {
      Fields inner(*function, place + ".function.");
      inner.inert_boolean("strict");  // held to its schema where a call is required
      add_tool(inner, "parameters", call);
      outer.finish_inner(inner);
    }
    fields.finish_inner(outer);
  }
}

// The tools that were read, once the choice among them is known.
void finish_tools(Fields& fields, std::string_view choice, GenerationCall& call) {
  ToolUse& tools = call.tools;
  if ((tools.is_required || !tools.only.empty()) && tools.offered.as_array().empty())
    return fields.fail("tool_choice", "is allowed with tools only");
  if (!tools.only.empty() && !is_known(tools.offered, tools.only))
    return fields.fail("tool_choice", fmt::format("no tool has the name \"{}\"", escape_for_display(tools.only)));
  if (choice == "none") tools.offered = Json::array();
}

void set_effort(const std::string& effort, GenerationCall& call) {
  if (effort == "none") return set_thinking(call, false);
  call.variables.set("reasoning_effort", effort);
}

// "tool_choice" and "parallel_tool_calls". A chat names a function in an object of its own, `has_function`.
void read_openai_choice(Fields& fields, bool has_function, GenerationCall& call) {
  fields.boolean("parallel_tool_calls", call.tools.allows_several);
  const Json* const choice = fields.any("tool_choice");
  std::string mode = "auto";
  if (choice != nullptr && choice->is_object()) {
    Fields outer(*choice, "tool_choice.");
    outer.only("type", "function", R"(expected "function")");
    const auto read_name = [&](Fields& from) {
      if (!from.text("name", call.tools.only)) from.fail("name", "expected the name of a tool");
    };
    if (!has_function) {
      read_name(outer);
    } else if (const Json* const function = outer.object("function"); function == nullptr) {
      outer.fail("function", "expected an object");
    } else {
      Fields inner(*function, "tool_choice.function.");
      read_name(inner);
      outer.finish_inner(inner);
    }
    fields.finish_inner(outer);
    mode = "required";
  } else if (choice != nullptr) {
    mode = choice->is_string() ? choice->as_string() : "";
    if (mode != "auto" && mode != "none" && mode != "required")
      return fields.fail("tool_choice", R"(expected "auto", "none", "required" or a function)");
  }
  call.tools.is_required = mode == "required";
  finish_tools(fields, mode, call);
}

}  // namespace

void read_openai_tools(Fields& fields, GenerationCall& call) {
  read_function_tools(fields, call);
  for (const std::string_view name : {"functions", "function_call"}) fields.unsupported(name);
  read_openai_choice(fields, true, call);
}

void read_response_tools(Fields& fields, GenerationCall& call) {
  const Json* const tools = read_list(fields);
  for (size_t i = 0; tools != nullptr && i < tools->as_array().size() && !fields.has_failed(); ++i) {
    const Json& tool = tools->as_array()[i];
    const std::string place = fmt::format("tools[{}]", i), type = text_member(tool, "type");
    if (!tool.is_object()) return fields.fail(place, fmt::format("got {}, expected an object", kind_of(tool)));
    Fields inner(tool, place + ".");
    if (type != "function")
      inner.fail("type", fmt::format(R"(got "{}": only tools of the client's own ("function") are supported)",
                                     escape_for_display(type)));
    (void)inner.any("type");
    inner.inert_boolean("strict");  // held to its schema where a call is required
    add_tool(inner, "parameters", call);
    fields.finish_inner(inner);
  }
  read_openai_choice(fields, false, call);
}

void read_ollama_tools(Fields& fields, GenerationCall& call) { read_function_tools(fields, call); }

void read_anthropic_tools(Fields& fields, GenerationCall& call) {
  const Json* const tools = read_list(fields);
  for (size_t i = 0; tools != nullptr && i < tools->as_array().size() && !fields.has_failed(); ++i) {
    const Json& tool = tools->as_array()[i];
    const std::string place = fmt::format("tools[{}]", i);
    if (!tool.is_object()) return fields.fail(place, fmt::format("got {}, expected an object", kind_of(tool)));
    Fields inner(tool, place + ".");
    inner.only("type", "custom", "only tools of the client's own are supported");
    (void)inner.any("cache_control");
    read_cache_control(fields, place, tool);
    for (const std::string_view name : {"strict", "eager_input_streaming"}) inner.inert_boolean(name);
    add_tool(inner, "input_schema", call);
    fields.finish_inner(inner);
  }
  const Json* const choice = fields.object("tool_choice");
  if (choice == nullptr) return;
  Fields inner(*choice, "tool_choice.");
  std::string type;
  bool is_serial = false;
  inner.text("type", type);
  inner.boolean("disable_parallel_tool_use", is_serial);
  call.tools.allows_several = !is_serial;
  call.tools.is_required = type == "any" || type == "tool";
  if (type != "auto" && type != "any" && type != "tool" && type != "none")
    inner.fail("type", R"(expected "auto", "any", "tool" or "none")");
  if (type == "tool" && !inner.text("name", call.tools.only)) inner.fail("name", "expected the name of a tool");
  fields.finish_inner(inner);
  finish_tools(fields, type, call);
}

void set_thinking(GenerationCall& call, bool is_on) {
  call.variables.set("enable_thinking", is_on).set("thinking", is_on);
}

void read_anthropic_thinking(Fields& fields, GenerationCall& call) {
  const Json* const thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  Fields inner(*thinking, "thinking.");
  std::string type;
  inner.text("type", type);
  const bool is_on = type == "enabled" || type == "adaptive";
  if (!is_on && type != "disabled") inner.fail("type", R"(expected "enabled", "adaptive" or "disabled")");
  inner.integer("budget_tokens", 1, kMaxBudget, call.reasoning_budget);
  if (type == "disabled" && call.reasoning_budget >= 0) inner.fail("budget_tokens", "is allowed with enabled only");
  inner.inert_choice("display", {"summarized", "omitted"});
  fields.finish_inner(inner);
  set_thinking(call, is_on);
}

void read_reasoning(Fields& fields, GenerationCall& call) {
  std::string format = "auto", effort;
  fields.text("reasoning_format", format);
  if (format != "auto" && format != "none" && format != "deepseek")
    fields.fail("reasoning_format", R"(expected "auto", "deepseek" or "none")");
  call.separates_reasoning = format != "none";
  fields.integer("reasoning_budget", -1, kMaxBudget, call.reasoning_budget);
  if (fields.text("reasoning_effort", effort)) set_effort(effort, call);
}

void read_response_reasoning(Fields& fields, GenerationCall& call) {
  fields.integer("reasoning_budget", -1, kMaxBudget, call.reasoning_budget);
  const Json* const reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  Fields inner(*reasoning, "reasoning.");
  std::string effort;
  if (inner.text("effort", effort)) set_effort(effort, call);
  for (const std::string_view name : {"summary", "generate_summary"})  // reasoning comes whole
    inner.inert_choice(name, {"auto", "concise", "detailed"});
  fields.finish_inner(inner);
}

void read_think(Fields& fields, GenerationCall& call) {
  const Json* const think = fields.any("think");
  if (think == nullptr) return;
  if (think->is_bool()) return set_thinking(call, think->as_bool());
  const bool is_level = *think == Json("low") || *think == Json("medium") || *think == Json("high");
  if (!is_level) return fields.fail("think", R"(expected true, false, "low", "medium" or "high")");
  set_thinking(call, true);
  call.variables.set("reasoning_effort", *think);
}

}  // namespace tamis::server
