// The vocabulary of a GGUF file as plain data, validated: what every tokenizer model is built from.
// Between the metadata of formats/gguf and the tokenizer models of this room.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "text/token_index.h"
#include "text/tokenizer.h"

namespace tamis {

struct VocabData {
  std::string model;  // tokenizer.ggml.model
  std::string pre;    // tokenizer.ggml.pre, or what the caller put in its place
  bool has_pre = false;
  std::vector<std::string_view> tokens;  // views into `owner`
  std::vector<float> scores;             // empty, or one a token
  std::vector<TokenType> types;          // one a token
  std::vector<std::string_view> merges;  // "LEFT RIGHT", best first
  std::string_view charsmap;             // precompiled_charsmap of Unigram models

  SpecialTokens special;  // ids given by the file or the model's defaults, each below tokens.size()
  std::optional<bool> add_bos, add_eos, add_space_prefix;  // what the file says, if it says
  bool remove_extra_whitespaces = false;
  bool is_lower_case = true;           // bert: tokenizer.ggml.normalizer.lowercase
  std::optional<bool> strips_accents;  // bert; default: as is_lower_case
  TokenIndex by_text;                  // of all tokens but empty ones; made by complete_vocab
  std::shared_ptr<const void> owner;   // keeps the viewed bytes alive
};

// What is wrong with a vocabulary, and at which metadata key; becomes an Error with a byte offset where the file is
// known.
struct VocabFault {
  ErrorCode code = ErrorCode::format;
  std::string key, got, expected, tag;
};
template <class T>
using VocabResult = tl::expected<T, VocabFault>;

// Reads and validates the vocabulary of a file. Errors: format at the key that is wrong (missing, of another type, too
// short, unknown token type, duplicate token, broken byte token, score that is not a number, special id outside the
// vocabulary); unsupported for a tokenizer model or pre-tokenizer name tamis does not have.
Result<VocabData> load_vocab(const GgufFile& file, const TokenizerOptions& options = {});

// What load_vocab ends with, for data from anywhere: model defaults of `special` where the file says nothing,
// well-known tokens found by name and their types set right, end-of-generation set; then every check above.
VocabResult<void> complete_vocab(VocabData& vocab);

// The byte a `<0xNN>` token stands for, or nothing when the text is not one.
std::optional<uint8_t> byte_of_token(std::string_view text);

// Builds the tokenizer of a completed vocabulary. Faults: merges and charsmaps that do not fit the tokens.
VocabResult<std::shared_ptr<const Tokenizer>> build_tokenizer(VocabData vocab);

}  // namespace tamis
