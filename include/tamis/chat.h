// A conversation under the model's own chat template.
//
//   auto chat = tamis::api::Chat::start(*model, "You answer in one word.");
//   auto answer = chat->send("What is the capital of France?", {}, print);
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tamis/generate.h"
#include "tamis/model.h"
#include "tamis/result.h"

namespace tamis::api {

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

class Chat {
 public:
  // Errors: not_found when the model has no chat template; format when it does not parse.
  static Result<Chat> start(const LanguageModel& model, std::string_view system = "");

  // One turn: the user's text in, the model's answer out and into the history. What the model computed in earlier turns
  // is used again; results do not depend on it. Ill-formed UTF-8 in `text` becomes U+FFFD. A cancelled answer stays in
  // the history as far as it came; after an error the history is as before. Errors: as LanguageModel::complete;
  // invalid_argument for what the template refuses.
  Result<Answer> send(std::string_view text, const GenerateOptions& options, const OnText& on_text);

  const std::vector<Message>& messages() const;
  void set_system(std::string_view text);  // from the next turn on; "" = none of our own
  void clear();                            // forgets all but the system message

  // The prompt of the next turn as text. Errors: as send.
  Result<std::string> render() const;

  std::string to_json() const;              // {"messages":[{"role":…,"content":…},…]}
  Status from_json(std::string_view text);  // replaces the history. Errors: format

 private:
  struct State;
  explicit Chat(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace tamis::api
