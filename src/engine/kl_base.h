// Base files of llama-perplexity: the log-probabilities of a base model over the scored tokens of a text, so that other
// models can be compared with it later without running it again. Lossy: 16 bits a value, everything more than 16 nats
// below the most likely token clipped.
//
// Layout, little-endian: "_logits_"; i32 n_ctx, n_vocab, n_chunks; i32 tokens [n_chunks · n_ctx], without BOS put in;
// then for every chunk a record for each of its n_ctx − 1 − n_ctx/2 scored tokens: f32 scale, f32 least
// log-probability, u16 codes [n_vocab, padded to even]; log p = scale · code + least.
// Source: llama.cpp, tools/perplexity (documented behaviour of --kl-divergence-base).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "engine/divergence.h"

namespace tamis {

// Of one scored token.
struct KlBaseRecord {
  float scale = 0, least = 0;
  std::vector<uint16_t> codes;  // [n_vocab]

  double log_p(size_t i) const { return static_cast<double>(scale) * codes[i] + static_cast<double>(least); }
};

class KlBaseFile {
 public:
  // Errors: io; format, with the byte, for another magic, numbers out of range, tokens outside the vocabulary, or a
  // size that is not exactly what the header says.
  static Result<KlBaseFile> open(const std::string& path);
  static Result<KlBaseFile> open(std::shared_ptr<ByteSource> source);

  uint32_t n_ctx() const { return n_ctx_; }
  uint32_t n_vocab() const { return n_vocab_; }
  uint32_t n_chunks() const { return n_chunks_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  uint32_t n_scored() const { return n_ctx_ - 1 - n_ctx_ / 2; }  // of a chunk

  // Record `row` of a chunk. Requires: both in range. Errors: io; format when the file shrank, or for a scale or least
  // log-probability that no distribution has.
  Result<KlBaseRecord> read(uint32_t chunk, uint32_t row) const;

 private:
  KlBaseFile() = default;
  uint64_t record_bytes() const;

  std::shared_ptr<ByteSource> source_;
  uint32_t n_ctx_ = 0, n_vocab_ = 0, n_chunks_ = 0;
  std::vector<TokenId> tokens_;
  uint64_t records_offset_ = 0;
};

class KlBaseWriter {
 public:
  // `tokens`: n_chunks · n_ctx of them. Errors: io; invalid_argument when `path` exists and !overwrite, or a number
  // does not fit the format.
  static Result<KlBaseWriter> create(const std::string& path, uint32_t n_ctx, uint32_t n_vocab,
                                     std::span<const TokenId> tokens, bool overwrite);
  // Rows of logits [n, n_vocab] of scored tokens, in order.
  Status write_rows(std::span<const float> rows);
  // Errors: io; internal when rows are missing.
  Status commit();

 private:
  KlBaseWriter(AtomicFile file, uint32_t n_vocab, uint64_t n_rows)
      : file_(std::move(file)), n_vocab_(n_vocab), n_rows_left_(n_rows) {}
  AtomicFile file_;
  uint32_t n_vocab_;
  uint64_t n_rows_left_;
  std::vector<uint16_t> record_;
};

// A row of logits against a record, as llama-perplexity does: only tokens with base log-probability above −16 count.
// Requires: equal vocabularies.
TokenDivergence compare_with_record(const KlBaseRecord& base, std::span<const float> other, size_t token);

// Runs chunk `chunk` of the file; `window` are its tokens, the first replaced by BOS where the vocabulary adds one.
// Errors: those of append_all and read.
Result<std::vector<TokenDivergence>> compare_window_with(const KlBaseFile& base, uint32_t chunk, Session& session,
                                                         std::span<const TokenId> window, ThreadPool* pool);

}  // namespace tamis
