// Tools in words, where a template has none.
#include "server/tool_prompt.h"

#include "server/fields.h"

namespace tamis::server {
namespace {

std::string offer(const Json& offered) {
  std::string out = "You can call these functions:\n";
  for (const Json& tool : offered.as_array()) out += tool.find("function")->dump() + "\n";
  return out +
         "To call one, answer with nothing but\n<tool_call>\n{\"name\": its name, \"arguments\": an object of its "
         "parameters}\n</tool_call>\nThe result is then given to you between <tool_response> and </tool_response>.";
}

std::string called(const Json& message) {
  std::string out = text_member(message, "content");
  for (const Json& call : message.find("tool_calls")->as_array()) {
    const Json& function = *call.find("function");
    Json object = Json::object();
    object.set("name", text_member(function, "name")).set("arguments", *function.find("arguments"));
    out += (out.empty() ? "" : "\n") + ("<tool_call>\n" + object.dump() + "\n</tool_call>");
  }
  return out;
}

}  // namespace

bool has_tool_messages(const Json& messages) {
  for (const Json& message : messages.as_array())
    if (message.find("tool_calls") != nullptr || text_member(message, "role") == "tool") return true;
  return false;
}

Json spell_out_tools(const Json& messages, const Json& offered) {
  Json out = Json::array();
  Json::Array& list = out.as_array();
  bool was_result = false;
  for (const Json& message : messages.as_array()) {
    const std::string role = text_member(message, "role");
    const bool is_result = role == "tool";
    const std::string text = is_result ? "<tool_response>\n" + text_member(message, "content") + "\n</tool_response>"
                             : message.find("tool_calls") != nullptr ? called(message)
                                                                     : text_member(message, "content");
    // Templates without tools often want users and assistants to take turns.
    if (was_result && (is_result || role == "user")) {
      list.back().set("content", text_member(list.back(), "content") + "\n" + text);
    } else {
      list.push_back(chat_message(is_result ? "user" : role, text));
    }
    was_result = is_result || (was_result && role == "user");
  }
  if (offered.as_array().empty() || list.empty()) return out;
  Json& first = list.front();
  const bool is_system = text_member(first, "role") == "system";
  const std::string text = text_member(first, "content");
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
