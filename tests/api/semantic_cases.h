// Files whose container is fine and whose meaning is not: the cases S000–S097 of security.md §2.5, each with its
// verdict.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/api/gguf_bytes.h"

namespace tamis::testing {

struct NamedFile {
  std::string name;
  std::string bytes;
};

struct SemanticCase {
  std::string id;       // "S010"
  std::string what;     // the change, in words
  std::string subject;  // key or tensor the error must name (or the warning, for accepted cases with one); "" = any
  bool is_accepted = false;      // at load
  bool is_verified = false;      // by verify at level all
  std::vector<NamedFile> files;  // the first is opened
};

// What gtest prints for a case.
inline void PrintTo(const SemanticCase& semantic, std::ostream* out) { *out << semantic.id << ": " << semantic.what; }

// A llama of one layer: n_embd 32, 4 heads, 2 key-value heads, FFN 64, a SentencePiece vocabulary of 300 tokens.
GgufBytes valid_model();
// The same with a byte-level BPE vocabulary.
GgufBytes valid_bpe_model();

std::vector<SemanticCase> semantic_cases();

}  // namespace tamis::testing
