// How an answer is generated, and what comes back.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tamis/result.h"

namespace tamis::api {

// How the next token is chosen. Names, defaults and order of steps as in llama.cpp.
struct Sampling {
  std::optional<uint64_t> seed;  // none = drawn from the system; the answer says which
  float temp = 0.8f;             // 0 = always the most probable token
  int32_t top_k = 40;            // ≤ 0 = all
  float top_p = 0.95f;
  float min_p = 0.05f;
  float typical_p = 1.0f;
  float xtc_probability = 0.0f;
  float xtc_threshold = 0.1f;
  int32_t repeat_last_n = 64;  // tokens the three penalties look at; 0 = none, -1 = all
  float repeat_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  float dry_multiplier = 0.0f;
  float dry_base = 1.75f;
  int32_t dry_allowed_length = 2;
  int32_t dry_penalty_last_n = -1;
  int32_t mirostat = 0;
  float mirostat_lr = 0.1f;
  float mirostat_ent = 5.0f;
  struct Bias {
    int32_t id;
    float bias;  // added to the token's logit
  };
  std::vector<Bias> logit_bias;
};

// What the text of an answer may be.
enum class AnswerForm : uint8_t {
  any,
  grammar,      // GBNF, llama.cpp's dialect
  regex,        // the whole answer matches it
  json_schema,  // JSON that the schema accepts (docs/structured-output.md)
  json_object,  // any JSON object
};

struct GenerateOptions {
  Sampling sampling;
  int64_t n_predict = -1;         // tokens at most; below 0 = until the model ends or the context is full
  std::vector<std::string> stop;  // strings that end the answer and are not part of it
  AnswerForm form = AnswerForm::any;
  std::string form_text;                      // the grammar, regex or schema
  bool has_speculation = true;                // tokens guessed from the text so far; they save time, and change nothing
  bool ignore_eos = false;                    // the tokens that end an answer are never chosen
  const std::atomic<bool>* cancel = nullptr;  // looked at before every token and every chunk of the prompt
};

// Text as it becomes certain: whole UTF-8 characters, never part of a stop string. An error ends the generation.
using OnText = std::function<Status(std::string_view text)>;

enum class FinishReason : uint8_t {
  end_of_text,   // the model ended its answer
  stop_string,   // a stop string appeared
  token_limit,   // n_predict tokens were generated
  context_full,  // no token more fits the context; nothing is ever shifted out silently
  cancelled,
};

// "stop" (end_of_text, stop_string), "length" (token_limit, context_full), "cancelled".
std::string_view finish_reason_name(FinishReason reason);

struct Answer {
  std::string text;             // all that on_text was given
  std::vector<int32_t> tokens;  // the tokens that were chosen, the ending one not among them
  FinishReason finish = FinishReason::end_of_text;
  uint64_t seed = 0;
  size_t n_prompt = 0;                   // tokens of the prompt
  size_t n_cached = 0;                   // of these, taken over from the last turn
  size_t n_drafted = 0, n_accepted = 0;  // guessed tokens computed, and those of them that were chosen
  double prompt_seconds = 0, first_token_seconds = 0, generate_seconds = 0;
};

}  // namespace tamis::api
