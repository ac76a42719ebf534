// tokenizer.model: SentencePiece's ModelProto, read and written without the protobuf library. Only the fields a
// vocabulary needs; every length is checked against the bytes there are.
// Format: sentencepiece_model.proto (google/sentencepiece).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tamis {

struct SentencePiece {
  std::string text;
  float score = 0;
  uint32_t type = 1;  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
};

struct SentencePieceModel {
  std::vector<SentencePiece> pieces;
  bool is_unigram = true;  // the format's default
  bool has_byte_fallback = false;
  bool adds_dummy_prefix = true;
  bool removes_extra_whitespaces = true;
  int32_t unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;
  std::string charsmap;  // precompiled normalisation table
};

// Errors: format, naming the byte, for anything that is no ModelProto, holds no pieces or a type out of range;
// unsupported for models of words or characters.
Result<SentencePieceModel> read_sentencepiece(std::string_view bytes);

// The bytes that read_sentencepiece reads back the same.
std::string write_sentencepiece(const SentencePieceModel& model);

}  // namespace tamis
