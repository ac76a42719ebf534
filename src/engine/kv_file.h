// Stored pages of keys and values as a file, so that the beginning of a text need not be computed again after a
// restart. Beside the scheduler, whose stored blocks are what such a file holds.
//
// Layout, little-endian: "tamiskv1"; u64 fingerprint, salt, page_bytes, n_blocks, hash of the last block (of the salt,
// where there is none), XXH3 of the 48 bytes before. Then for every block i32 tokens [32]; the page; u64 XXH3 of both,
// seeded with the hash of the block before, the first with the header's salt. So a block stands for all before it, and
// the header for all of them. Who reads trusts nothing, and needs no more memory than a block at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "engine/engine.h"

namespace tamis {

// What stored pages are of. Those of another model, other types of keys and values or another way to compute them are
// of no use, and those of another salt are not for whoever asks.
struct KvFileKind {
  uint64_t fingerprint = 0;  // kv_fingerprint()
  uint64_t salt = 0;         // kv_salt()
  uint64_t page_bytes = 0;
  size_t n_vocab = 0;

  size_t block_bytes() const { return KvCache::kPageTokens * sizeof(TokenId) + page_bytes + sizeof(uint64_t); }
};

// The hash of the keys and values that an engine computes of some tokens of its vocabulary: of its weights, its
// positions, its types, and of how its backend computes; and of those facts of the model which such a short text may
// not show. Takes a step of 32 tokens. Errors: those of Engine::forward.
Result<uint64_t> kv_fingerprint(const Engine& engine);
uint64_t kv_salt(std::string_view salt);

// Makes the file's bytes in order of their offsets, but for the header, which comes last: what is broken off has none.
class KvFileWriter {
 public:
  using Write = std::function<Status(uint64_t offset, std::span<const std::byte> bytes)>;
  KvFileWriter(const KvFileKind& kind, Write write);
  // Requires: 32 tokens, page_bytes.
  Status add(std::span<const TokenId> tokens, std::span<const std::byte> page);
  Status finish();
  size_t n_blocks() const { return n_blocks_; }
  uint64_t size_bytes() const;

 private:
  KvFileKind kind_;
  Write write_;
  size_t n_blocks_ = 0;
  uint64_t hash_;
};

class KvFileReader {
 public:
  // Errors: io; format, saying what is wrong; invalid_argument for a file of another kind.
  static Result<KvFileReader> open(std::shared_ptr<ByteSource> source, const KvFileKind& kind);

  size_t n_blocks() const { return n_blocks_; }
  // The next block, from the first on: 32 tokens and page_bytes. Requires: one is left. Errors: io; format for one that
  // is not what was written.
  Status next(std::span<TokenId> tokens, std::span<std::byte> page);
  void rewind();

 private:
  KvFileReader() = default;

  std::shared_ptr<ByteSource> source_;
  KvFileKind kind_;
  size_t n_blocks_ = 0, block_idx_ = 0;
  uint64_t last_hash_ = 0, hash_ = 0;
};

}  // namespace tamis
