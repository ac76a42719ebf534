// Conversations of every dialect as templates want them, calls of tools and their results checked against each other.
#include <algorithm>

#include "server/call_fields.h"
#include "server/tool_fields.h"

namespace tamis::server {
namespace {

constexpr size_t kMaxCalls = 256;  // of one message

bool is_nothing(const Json& value) { return value.is_null() || (value.is_array() && value.as_array().empty()); }

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

}  // namespace

Json chat_message(std::string_view role, std::string text) {
  Json out = Json::object();
  return out.set("role", role == "developer" ? "system" : role).set("content", std::move(text));
}

void read_messages(Fields& fields, GenerationCall& call) {
  const Json* const messages = fields.array("messages");
  if (messages == nullptr) return fields.fail("messages", "is missing");
  const size_t n = messages->as_array().size();
  if (n == 0 || n > GenerationCall::kMaxMessages)
    return fields.fail("messages", fmt::format("got {} messages, expected 1 to {}", n, GenerationCall::kMaxMessages));
  MessageReader reader(fields);
  for (size_t i = 0; i < n && !fields.has_failed(); ++i)
    reader.read(fmt::format("messages[{}]", i), messages->as_array()[i]);
  call.messages = reader.take();
  if (call.messages->as_array().empty()) fields.fail("messages", "hold nothing that can be answered");
}

void MessageReader::read(const std::string& place, const Json& message) {
  if (!message.is_object()) return fail(place, fmt::format("got {}, expected an object", kind_of(message)));
  const std::string role = text_member(message, "role");
  if (!is_one_of(role, {"system", "developer", "user", "assistant", "tool"}))
    return fail(place + ".role", R"(expected "system", "developer", "user", "assistant" or "tool")");
  if (!check_keys(place, message, role)) return;
  if (role == "tool") return read_tool_result(place, message);
  const Json* const content = message.find("content");
  const Json* const calls = message.find("tool_calls");
  const bool has_calls = calls != nullptr && !is_nothing(*calls);
  if (content != nullptr && has_blocks(*content)) return read_blocks(place + ".content", role, *content);
  if (content == nullptr && !has_calls) return fail(place + ".content", "is missing");
  const bool has_content = content != nullptr && !(content->is_null() && has_calls);
  const auto text = has_content ? content_text(fields_, place + ".content", *content) : std::string();
  if (!text) return;
  Json out = chat_message(role, *text);
  for (const char* const name : {"reasoning_content", "reasoning", "thinking"}) {
    const Json* const reasoning = message.find(name);
    if (reasoning == nullptr || is_nothing(*reasoning)) continue;
    if (!reasoning->is_string())
      return fail(fmt::format("{}.{}", place, name), fmt::format("got {}, expected a string", kind_of(*reasoning)));
    out.set("reasoning_content", reasoning->as_string());
  }
  if (has_calls) read_tool_calls(place + ".tool_calls", *calls, out);
  messages_.push_back(std::move(out));
}

bool MessageReader::check_keys(const std::string& place, const Json& message, const std::string& role) {
  for (const auto& [key, value] : message.as_object()) {
    if (is_nothing(value) || is_one_of(key, {"role", "content"})) continue;
    if (is_one_of(key, {"name", "refusal", "tool_name"}) && !value.is_string()) {
      fail(place + "." + key, fmt::format("got {}, expected a string", kind_of(value)));
      return false;
    }
    if (is_one_of(key, {"name", "refusal"})) continue;
    if (role == "assistant" && is_one_of(key, {"tool_calls", "reasoning_content", "reasoning", "thinking"})) continue;
    if (role == "tool" && is_one_of(key, {"tool_call_id", "tool_name"})) continue;
    const bool is_planned = is_one_of(key, {"images", "audio", "function_call"});
    const bool is_of_another =
        is_one_of(key, {"tool_calls", "tool_call_id", "tool_name", "reasoning_content", "reasoning", "thinking"});
    fail(place + "." + escape_for_display(key), is_planned      ? "not supported yet"
                                                : is_of_another ? "does not belong to this role"
                                                                : "unknown parameter");
    return false;
  }
  return true;
}

void MessageReader::read_tool_result(const std::string& place, const Json& message) {
  const Json* const content = message.find("content");
  if (content == nullptr) return fail(place + ".content", "is missing");
  const auto text = content->is_null() ? std::string() : content_text(fields_, place + ".content", *content);
  if (!text) return;
  const Json* const id = message.find("tool_call_id");
  if (id != nullptr && !id->is_null() && !id->is_string())
    return fail(place + ".tool_call_id", fmt::format("got {}, expected a string", kind_of(*id)));
  std::string name = text_member(message, "tool_name");
  if (name.empty()) name = text_member(message, "name");
  add_result(place + ".tool_call_id", text_member(message, "tool_call_id"), std::move(name), *text);
}

void MessageReader::add_result(const std::string& place, std::string id, std::string name, std::string text) {
  const auto fits = [&](const Call& call) {
    return !call.is_answered && (id.empty() ? name.empty() || call.name == name : call.id == id);
  };
  // The last call of that id: some clients count from 0 in every turn. Without an id, the first that is open.
  Call* found = nullptr;
  if (id.empty()) {
    if (const auto first = std::find_if(calls_.begin(), calls_.end(), fits); first != calls_.end()) found = &*first;
  } else if (const auto last = std::find_if(calls_.rbegin(), calls_.rend(), fits); last != calls_.rend()) {
    found = &*last;
  }
  if (found == nullptr) {
    const bool is_repeated =
        std::any_of(calls_.begin(), calls_.end(), [&](const Call& call) { return !id.empty() && call.id == id; });
    return fail(place, is_repeated  ? "the call has a result already"
                       : id.empty() ? "is missing, and no call before is without a result"
                                    : fmt::format("no call before has the id \"{}\"", escape_for_display(id)));
  }
  found->is_answered = true;
  Json out = chat_message("tool", std::move(text));
  messages_.push_back(out.set("tool_call_id", found->id).set("name", found->name));
}

Json MessageReader::add_call(const std::string& place, std::string id, const std::string& name, Json arguments) {
  if (name.empty()) {
    fail(place + ".name", "expected the name of a tool");
    return {};
  }
  if (calls_.size() == GenerationCall::kMaxMessages) {
    fail(place, fmt::format("expected at most {} calls in all", GenerationCall::kMaxMessages));
    return {};
  }
  if (id.empty()) id = fmt::format("{:09}", calls_.size());
  calls_.push_back({id, name});
  Json function = Json::object(), out = Json::object();
  function.set("name", name).set("arguments", std::move(arguments));
  return out.set("id", std::move(id)).set("type", "function").set("function", std::move(function));
}

void MessageReader::read_tool_calls(const std::string& place, const Json& list, Json& message) {
  if (!list.is_array() || list.as_array().size() > kMaxCalls)
    return fail(place, fmt::format("expected an array of at most {} calls", kMaxCalls));
  Json out = Json::array();
  for (size_t i = 0; i < list.as_array().size() && !fields_.has_failed(); ++i)
    out.push_back(read_tool_call(fmt::format("{}[{}]", place, i), list.as_array()[i]));
  message.set("tool_calls", std::move(out));
}

Json MessageReader::read_tool_call(const std::string& place, const Json& call) {
  const Json* const type = call.find("type");
  const Json* const function = call.find("function");
  const Json* const id = call.find("id");
  if (type != nullptr && !type->is_null() && *type != Json("function")) {
    fail(place + ".type", R"(expected "function")");
  } else if (function == nullptr || !function->is_object()) {
    fail(place + ".function", "expected an object");
  } else if (id != nullptr && !id->is_null() && !id->is_string()) {
    fail(place + ".id", fmt::format("got {}, expected a string", kind_of(*id)));
  } else {
    auto arguments = read_arguments(place + ".function.arguments", function->find("arguments"));
    if (arguments)
      return add_call(place + ".function", text_member(call, "id"), text_member(*function, "name"),
                      *std::move(arguments));
  }
  return {};
}

// An object, or one as JSON in a string; nothing and "" are no arguments.
std::optional<Json> MessageReader::read_arguments(const std::string& place, const Json* arguments) {
  if (arguments == nullptr || arguments->is_null()) return Json::object();
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string()) {
    fail(place, fmt::format("got {}, expected a JSON object in a string", kind_of(*arguments)));
    return std::nullopt;
  }
  if (arguments->as_string().empty()) return Json::object();
  auto parsed = Json::parse(arguments->as_string());
  if (parsed && parsed->is_object()) return *std::move(parsed);
  fail(place, parsed ? fmt::format("got {} in the string, expected a JSON object", kind_of(*parsed))
                     : "the string is not JSON: " + (parsed.error().site ? parsed.error().site->got : std::string()));
  return std::nullopt;
}

bool MessageReader::has_blocks(const Json& content) {
  if (!content.is_array()) return false;
  return std::any_of(content.as_array().begin(), content.as_array().end(), [](const Json& block) {
    return is_one_of(text_member(block, "type"), {"tool_use", "tool_result", "thinking", "redacted_thinking"});
  });
}

void MessageReader::read_blocks(const std::string& place, const std::string& role, const Json& blocks) {
  Json message = chat_message(role, "");
  Json text = Json::array(), calls = Json::array();
  std::string reasoning;
  for (size_t i = 0; i < blocks.as_array().size() && !fields_.has_failed(); ++i) {
    const Json& block = blocks.as_array()[i];
    const std::string type = text_member(block, "type"), at = fmt::format("{}[{}]", place, i);
    const bool is_answer = role == "assistant";
    read_cache_control(fields_, at, block);
    if (type == "tool_result" && role == "user") {
      read_result_block(at, block);
    } else if (type == "tool_use" && is_answer) {
      auto input = read_arguments(at + ".input", block.find("input"));
      if (input) calls.push_back(add_call(at, text_member(block, "id"), text_member(block, "name"), *std::move(input)));
    } else if (type == "thinking" && is_answer) {
      reasoning += text_member(block, "thinking");
    } else if (type != "redacted_thinking" || !is_answer) {
      const Json* const piece = block.find("text");
      if (type != "text" || piece == nullptr || !piece->is_string())
        return fail(at, "expected a block that this role may have");
      text.push_back(block);
    }
  }
  if (fields_.has_failed()) return;
  if (text.as_array().empty() && calls.as_array().empty() && reasoning.empty()) return;
  message.set("content", content_text(fields_, place, text).value_or(""));
  if (!reasoning.empty()) message.set("reasoning_content", reasoning);
  if (!calls.as_array().empty()) message.set("tool_calls", std::move(calls));
  messages_.push_back(std::move(message));
}

void MessageReader::read_result_block(const std::string& place, const Json& block) {
  for (const auto& [key, value] : block.as_object())
    if (!is_one_of(key, {"type", "tool_use_id", "content", "is_error", "cache_control"}))
      return fail(place + "." + escape_for_display(key), "unknown parameter");
  const Json* const content = block.find("content");
  const bool is_empty = content == nullptr || content->is_null();
  const auto text = is_empty ? std::string() : content_text(fields_, place + ".content", *content);
  if (!text) return;
  const Json* const is_error = block.find("is_error");
  if (is_error != nullptr && !is_error->is_null() && !is_error->is_bool())
    return fail(place + ".is_error", fmt::format("got {}, expected true or false", kind_of(*is_error)));
  const bool has_failed = is_error != nullptr && *is_error == Json(true);
  add_result(place + ".tool_use_id", text_member(block, "tool_use_id"), "", has_failed ? "Error: " + *text : *text);
}

}  // namespace tamis::server
