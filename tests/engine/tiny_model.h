// A tiny random llama with a byte vocabulary and a chat template, written as a GGUF file: small enough for any test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace tamis::test {

struct TinyModel {
  uint32_t n_expert = 0;         // a mixture with one expert a token
  bool has_dead_expert = false;  // routers never choose the last one
  uint32_t n_ctx_train = 96;
  uint32_t n_ff = 48;
  uint32_t window = 0;  // 0 = none; otherwise a phi3, every layer of which sees so many positions
  bool has_bos = true;
  bool is_sentencepiece = false;  // the same tokens, but a space before the first word of a text is not shown
  bool has_template = true;
  std::string chat_template =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
};

// Bytes, <|bos|> <|end|> <|system|> <|user|> <|assistant|>, and the one merge, of bytes 0 and 1.
constexpr uint32_t kTinyVocab = 256 + 5 + 1;
constexpr int32_t kTinyBos = 256, kTinyEnd = 257;

// Writes the model under the test's temporary directory; returns the path.
std::string write_tiny_model(const TinyModel& model = {});

// Loads it. Aborts the test program when that fails.
std::shared_ptr<const Engine> load_tiny(const std::string& path, std::unique_ptr<Backend> backend,
                                        const EngineOptions& options = {});

// Logits [prompt, n_vocab] of all tokens in one forward, without a scheduler.
std::vector<float> plain_logits(const Engine& engine, const std::vector<TokenId>& prompt);

// GBNF of answers "aaa…" that can be read in so many ways that a matcher gives up after a few tokens.
std::string too_ambiguous_grammar();

// n tokens of bytes, the same every time.
std::vector<TokenId> some_tokens(size_t n);

// A text of n bytes, the same every time.
std::string tiny_text(size_t n);

}  // namespace tamis::test
