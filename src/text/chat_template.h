// Messages → prompt text, by the model's own Jinja template under Hugging Face's settings; and prompt text → tokens
// such that no message content can become a control token (reported fault B09).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "formats/json.h"
#include "text/tokenizer.h"

namespace tamis {

struct ChatTemplateInput {
  Json variables = Json::object();  // messages, tools, add_generation_prompt, … : what the template sees
  std::string bos_token, eos_token;
  std::string clock;  // "2031-02-03T04:05:06" fixes strftime_now; "" = local time now
};

// A run of rendered text and where it came from.
struct PromptPart {
  std::string text;
  bool is_content = false;  // from the caller's messages: special tokens in it are plain text
};

class ChatTemplate {
 public:
  // Errors: format, naming line and construct, when the source does not parse or is too large or too deep.
  static Result<ChatTemplate> parse(std::string_view source, const Limits& limits = {});

  // Errors: invalid_argument for raise_exception, undefined use, type errors, budgets (steps, call depth, output).
  Result<std::string> render(const ChatTemplateInput& input) const;
  // The same text cut into scaffolding and content. Joined parts equal render().
  Result<std::vector<PromptPart>> render_parts(const ChatTemplateInput& input) const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

// Tokenizes rendered parts: special tokens are parsed in scaffolding only, or everywhere when `parse_content_special`
// (what Hugging Face does). Adds BOS when the model wants it and the template did not write it: never two.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const std::vector<PromptPart>& parts,
                                   bool parse_content_special);

}  // namespace tamis
