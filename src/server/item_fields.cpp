// Items of OpenAI's responses as messages that templates see. An answer's items (reasoning, text, calls) stand one by
// one there; they become one message again.
#include "server/call_fields.h"
#include "server/tool_fields.h"

namespace tamis::server {

void MessageReader::read_item(const std::string& place, const Json& item) {
  if (!item.is_object()) return fail(place, fmt::format("got {}, expected an object", kind_of(item)));
  const Json* const given = item.find("type");
  const std::string type = given == nullptr || given->is_null() ? "message" : text_member(item, "type");
  Fields inner(item, place + ".");
  (void)inner.any("type");
  inner.inert_text("id");
  inner.inert_choice("status", {"in_progress", "completed", "incomplete"});
  if (type == "message") {
    read_message_item(inner);
  } else if (type == "reasoning") {
    read_reasoning_item(inner);
  } else if (type == "function_call") {
    read_call_item(place, inner);
  } else if (type == "function_call_output") {
    read_result_item(place, inner);
  } else {
    inner.fail("type", R"(expected "message", "reasoning", "function_call" or "function_call_output")");
  }
  fields_.finish_inner(inner);
}

// The message that the items of an answer become, begun anew where `begins`.
Json& MessageReader::answer_message(bool begins) {
  if (begins || !is_answer_open_) messages_.push_back(chat_message("assistant", ""));
  is_answer_open_ = true;
  return messages_.back();
}

void MessageReader::read_message_item(Fields& inner) {
  inner.inert_choice("phase", {"commentary", "final_answer"});
  std::string role;
  inner.text("role", role);
  if (role != "user" && role != "assistant" && role != "system" && role != "developer")
    inner.fail("role", R"(expected "user", "assistant", "system" or "developer")");
  const Json* const content = inner.any("content");
  if (content == nullptr) return inner.fail("content", "is missing");
  auto text = content_text(inner, "content", *content, {"input_text", "output_text"});
  if (!text || inner.has_failed()) return;
  if (role != "assistant") {
    messages_.push_back(chat_message(role, *std::move(text)));
    is_answer_open_ = false;
    return;
  }
  const bool is_reasoning_alone = is_answer_open_ && text_member(messages_.back(), "content").empty() &&
                                  messages_.back().find("tool_calls") == nullptr;
  answer_message(!is_reasoning_alone).set("content", *std::move(text));
}

void MessageReader::read_reasoning_item(Fields& inner) {
  (void)inner.array("summary");
  inner.inert_text("encrypted_content");
  const Json* const content = inner.any("content");
  if (content == nullptr) return;
  if (auto text = content_text(inner, "content", *content, {"reasoning_text"}); text && !text->empty())
    answer_message(true).set("reasoning_content", *std::move(text));
}

void MessageReader::read_call_item(const std::string& place, Fields& inner) {
  std::string id, name;
  inner.text("call_id", id);
  inner.text("name", name);
  auto arguments = read_arguments(place + ".arguments", inner.any("arguments"));
  if (!arguments || inner.has_failed()) return;
  Json call = add_call(place, std::move(id), name, *std::move(arguments));
  if (fields_.has_failed()) return;
  Json& message = answer_message(false);
  for (auto& [key, value] : message.as_object())
    if (key == "tool_calls") return value.push_back(std::move(call));
  message.set("tool_calls", Json(Json::Array{std::move(call)}));
}

void MessageReader::read_result_item(const std::string& place, Fields& inner) {
  std::string id, name;
  inner.text("call_id", id);
  inner.text("name", name);
  const Json* const output = inner.any("output");
  if (output == nullptr) return inner.fail("output", "is missing");
  auto text = content_text(inner, "output", *output, {"input_text"});
  if (!text || inner.has_failed()) return;
  is_answer_open_ = false;
  add_result(place + ".call_id", std::move(id), std::move(name), *std::move(text));
}

}  // namespace tamis::server
