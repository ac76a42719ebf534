// Tools and reasoning in requests of every dialect; private to the parsers of generation_call.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/fields.h"
#include "server/generation_call.h"

namespace tamis::server {

// "tools", "tool_choice", "parallel_tool_calls" in OpenAI's words, of chats and of responses; ollama has the first one.
void read_openai_tools(Fields& fields, GenerationCall& call);
void read_response_tools(Fields& fields, GenerationCall& call);
void read_ollama_tools(Fields& fields, GenerationCall& call);
// "tools", "tool_choice", "thinking" in Anthropic's.
void read_anthropic_tools(Fields& fields, GenerationCall& call);
void read_anthropic_thinking(Fields& fields, GenerationCall& call);

// "reasoning_format", "reasoning_budget", "reasoning_effort".
void read_reasoning(Fields& fields, GenerationCall& call);
// "reasoning" and "reasoning_budget", of OpenAI's responses.
void read_response_reasoning(Fields& fields, GenerationCall& call);
// ollama's "think": true, false, "low", "medium", "high".
void read_think(Fields& fields, GenerationCall& call);

// What switches that templates offer are called.
void set_thinking(GenerationCall& call, bool is_on);

// Messages of any dialect, one after the other, into those that a template sees. A fault names its place:
// "messages[3].tool_calls[0].function.arguments". What is unambiguous is put right: arguments as an object or as JSON
// in a string, results that name no call when one is open.
class MessageReader {
 public:
  explicit MessageReader(Fields& fields) : fields_(fields) {}
  void read(const std::string& place, const Json& message);
  void read_item(const std::string& place, const Json& item);  // of OpenAI's responses
  Json take() { return Json(std::move(messages_)); }

 private:
  struct Call {
    std::string id, name;
    bool is_answered = false;
  };

  void fail(const std::string& place, std::string_view why) { fields_.fail(place, why); }
  bool check_keys(const std::string& place, const Json& message, const std::string& role);
  void read_tool_result(const std::string& place, const Json& message);
  void read_tool_calls(const std::string& place, const Json& list, Json& message);
  Json read_tool_call(const std::string& place, const Json& call);
  std::optional<Json> read_arguments(const std::string& place, const Json* arguments);
  // Blocks of Anthropic's.
  static bool has_blocks(const Json& content);
  void read_blocks(const std::string& place, const std::string& role, const Json& blocks);
  void read_result_block(const std::string& place, const Json& block);
  void add_result(const std::string& place, std::string id, std::string name, std::string text);
  Json add_call(const std::string& place, std::string id, const std::string& name, Json arguments);
  // Items of responses; `inner` reads one.
  void read_message_item(Fields& inner);
  void read_reasoning_item(Fields& inner);
  void read_call_item(const std::string& place, Fields& inner);
  void read_result_item(const std::string& place, Fields& inner);
  Json& answer_message(bool begins);

  Fields& fields_;
  Json::Array messages_;
  std::vector<Call> calls_;      // of all messages so far
  bool is_answer_open_ = false;  // the last message is made of an answer's items, and more may follow
};

}  // namespace tamis::server
