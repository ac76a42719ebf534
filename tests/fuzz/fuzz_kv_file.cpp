// fuzz: rooms=engine,models,text,compute,formats,quants,base
// Any bytes as a file of stored keys and values: refused, or blocks of tokens of the vocabulary, to the last. Hashes
// are put right, so that what is behind them is reached, unless the input ends in 0xff.
#include <cstdlib>
#include <cstring>

#include "engine/kv_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

constexpr tamis::KvFileKind kKind{.fingerprint = 0x7766554433221100, .salt = 1, .page_bytes = 16, .n_vocab = 300};
constexpr size_t kHeadBytes = 56, kTokenBytes = 128;

void put_hashes_right(std::vector<uint8_t>& bytes) {
  if (bytes.size() < kHeadBytes) return;
  uint64_t hash = kKind.salt;
  for (size_t at = kHeadBytes; at + kKind.block_bytes() <= bytes.size(); at += kKind.block_bytes()) {
    hash = XXH3_64bits_withSeed(bytes.data() + at, kTokenBytes, hash);
    hash = XXH3_64bits_withSeed(bytes.data() + at + kTokenBytes, kKind.page_bytes, hash);
    std::memcpy(bytes.data() + at + kTokenBytes + kKind.page_bytes, &hash, sizeof hash);
  }
  std::memcpy(bytes.data() + 40, &hash, sizeof hash);
  hash = XXH3_64bits(bytes.data(), 48);
  std::memcpy(bytes.data() + 48, &hash, sizeof hash);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  const bool is_kept = size > 0 && bytes.back() == 0xff;
  if (!is_kept) put_hashes_right(bytes);
  const auto source = std::make_shared<tamis::MemorySource>(std::as_bytes(std::span(bytes)));
  auto file = tamis::KvFileReader::open(source, kKind);
  if (!file) return 0;
  if (file->n_blocks() * kKind.block_bytes() + kHeadBytes != size) std::abort();
  tamis::TokenId tokens[kTokenBytes / sizeof(tamis::TokenId)];
  std::byte page[kKind.page_bytes];
  for (size_t i = 0; i < file->n_blocks(); ++i) {
    const tamis::Status read = file->next(tokens, page);
    if (!read) return 0;
    for (const tamis::TokenId id : tokens)
      if (id < 0 || id >= 300) std::abort();
  }
  return 0;
}
