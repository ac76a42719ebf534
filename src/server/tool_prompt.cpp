// Tools in words, where a template has none.
#include "server/tool_prompt.h"

namespace tamis::server {
namespace {

std::string text_of(const Json& message, std::string_view name) {
  const Json* const found = message.find(name);
  return found != nullptr && found->is_string() ? found->as_string() : std::string();
}

std::string offer(const Json& offered) {
  std::string out = "You can call these functions:\n";
  for (const Json& tool : offered.as_array()) out += tool.find("function")->dump() + "\n";
  return out +
         "To call one, answer with nothing but\n<tool_call>\n{\"name\": its name, \"arguments\": an object of its "
         "parameters}\n</tool_call>\nThe result is then given to you between <tool_response> and </tool_response>.";
}

std::string called(const Json& message) {
  std::string out = text_of(message, "content");
  for (const Json& call : message.find("tool_calls")->as_array()) {
    const Json& function = *call.find("function");
    Json object = Json::object();
    object.set("name", text_of(function, "name")).set("arguments", *function.find("arguments"));
    out += (out.empty() ? "" : "\n") + ("<tool_call>\n" + object.dump() + "\n</tool_call>");
  }
  return out;
}

Json message_of(std::string_view role, std::string text) {
  Json out = Json::object();
  return out.set("role", role).set("content", std::move(text));
}

}  // namespace

bool has_tool_messages(const Json& messages) {
  for (const Json& message : messages.as_array())
    if (message.find("tool_calls") != nullptr || text_of(message, "role") == "tool") return true;
  return false;
}

Json spell_out_tools(const Json& messages, const Json& offered) {
  Json out = Json::array();
  Json::Array& list = out.as_array();
  bool was_result = false;
  for (const Json& message : messages.as_array()) {
    const std::string role = text_of(message, "role");
    const bool is_result = role == "tool";
    const std::string text = is_result ? "<tool_response>\n" + text_of(message, "content") + "\n</tool_response>"
                             : message.find("tool_calls") != nullptr ? called(message)
                                                                     : text_of(message, "content");
    // Templates without tools often want users and assistants to take turns.
    if (was_result && (is_result || role == "user")) {
      list.back().set("content", text_of(list.back(), "content") + "\n" + text);
    } else {
      list.push_back(message_of(is_result ? "user" : role, text));
    }
    was_result = is_result || (was_result && role == "user");
  }
  if (offered.as_array().empty() || list.empty()) return out;
  Json& first = list.front();
  const bool is_system = text_of(first, "role") == "system";
  const std::string text = text_of(first, "content");
  first.set("content", is_system ? text + "\n\n" + offer(offered) : offer(offered) + "\n\n" + text);
  return out;
}

Json with_text_arguments(Json messages) {
  for (Json& message : messages.as_array()) {
    const Json* const calls = message.find("tool_calls");
    if (calls == nullptr) continue;
    Json texts = Json::array();
    for (const Json& call : calls->as_array()) {
      Json function = *call.find("function"), out = call;
      function.set("arguments", function.find("arguments")->dump());
      texts.push_back(out.set("function", std::move(function)));
    }
    message.set("tool_calls", std::move(texts));
  }
  return messages;
}

}  // namespace tamis::server
