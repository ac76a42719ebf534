// Small vocabularies as GGUF bytes in memory, for tests of everything that starts from a file.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "text/tokenizer.h"

namespace tamis::testing {

// Keys in order; set() replaces.
class VocabFile {
 public:
  VocabFile& set(std::string key, GgufEncoded value);
  VocabFile& remove(std::string_view key);
  VocabFile& tokens(const std::vector<std::string>& tokens, const std::vector<int32_t>& types = {},
                    const std::vector<float>& scores = {});
  std::string bytes() const;
  Result<GgufFile> open() const;
  Result<std::shared_ptr<const Tokenizer>> tokenizer(const TokenizerOptions& options = {}) const;

 private:
  std::vector<std::pair<std::string, GgufEncoded>> keys_;
};

// Byte-level BPE: 256 byte tokens (ids 0–255 by byte), then the merges' results, then <|im_start|>, <|im_end|>
// (control) and <tool> (user-defined).
VocabFile bpe_vocab(std::string_view pre, const std::vector<std::string>& merges);
// The same merges list every test may use: some words, digits, spaces.
std::vector<std::string> common_merges();
// SentencePiece: <unk> <s> </s>, byte tokens, pieces with scores.
VocabFile spm_vocab(const std::vector<std::pair<std::string, float>>& pieces);
VocabFile wordpiece_vocab(const std::vector<std::string>& pieces);
VocabFile unigram_vocab(const std::vector<std::pair<std::string, float>>& pieces);

// Empty when it cannot be read.
std::string read_golden(const std::string& name);

}  // namespace tamis::testing
