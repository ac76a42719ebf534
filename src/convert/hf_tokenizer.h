// The vocabulary of a Hugging Face folder as tokenizer.ggml.* keys: tokenizer.model (SentencePiece) or tokenizer.json
// (BPE), with tokenizer_config.json, added_tokens.json, generation_config.json and the chat template beside it.
// Names, types and filling are those of llama.cpp's converter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "convert/hf_sentencepiece.h"
#include "formats/gguf_writer.h"
#include "formats/json.h"
#include "text/tokenizer.h"

namespace tamis {

struct HfVocab {
  std::string model, pre;  // tokenizer.ggml.model and .pre
  std::vector<std::string> tokens;
  std::vector<TokenType> types;  // one a token
  std::vector<float> scores;     // empty, or one a token
  std::vector<std::string> merges;
  std::vector<std::pair<std::string_view, uint32_t>> ids;  // "bos_token_id" → id, in the order they are written
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  bool removes_extra_whitespaces = false;                           // Unigram only
  std::string charsmap;                                             // Unigram only
  std::vector<std::pair<std::string, std::string>> chat_templates;  // name ("" = the default one) → text
  std::vector<std::string> warnings;
};

// What the folder's JSON files say; null for a file that is not there. Errors: format, naming the file.
struct HfTokenizerFiles {
  Json tokenizer, tokenizer_config, added_tokens, config, generation_config, chat_template_json;
  std::optional<std::string> sentencepiece, chat_template;  // whole files

  static Result<HfTokenizerFiles> read(const std::string& folder, const Json& config);
  bool has_vocab() const { return sentencepiece.has_value() || !tokenizer.is_null(); }
};

struct HfVocabOptions {
  uint64_t n_vocab = 0;  // rows of the embedding; 0 = as many as there are tokens
  std::string pre;       // in place of comparing pre-tokenizers; "" = compare
};

// Requires: files.has_vocab(). Errors: format (a token without id, two tokens of one id, merges of unknown tokens, ids
// past n_vocab); unsupported (a kind of tokenizer tamis does not write, an unknown pre-tokenizer).
Result<HfVocab> read_hf_vocab(const HfTokenizerFiles& files, const HfVocabOptions& options);

// Adds tokenizer.ggml.* and the chat templates.
Status add_vocab_keys(const HfVocab& vocab, GgufWriter& writer);

}  // namespace tamis
