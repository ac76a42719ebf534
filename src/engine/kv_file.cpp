// Writing and reading files of keys and values.
#include "engine/kv_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "base/checked.h"

namespace tamis {
namespace {

constexpr size_t kPageTokens = KvCache::kPageTokens;
constexpr uint64_t kMagic = 0x31766b73696d6174;  // "tamiskv1"

struct Head {
  uint64_t magic, fingerprint, salt, page_bytes, n_blocks, last_hash, hash;
};
static_assert(sizeof(Head) == 56);

uint64_t hash_of(const Head& head) { return XXH3_64bits(&head, offsetof(Head, hash)); }

uint64_t hash_of(std::span<const TokenId> tokens, std::span<const std::byte> page, uint64_t before) {
  return XXH3_64bits_withSeed(page.data(), page.size(),
                              XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), before));
}

Status read_all(ByteSource& source, uint64_t offset, std::span<std::byte> out) {
  TAMIS_TRY(const size_t n, source.read_at(offset, out));
  if (n < out.size()) return fail(ErrorCode::format, "it ends at byte {}", offset + n);
  return {};
}

// What acts on keys and values of later tokens, or of a few only, and may leave no trace in those of the first 32.
std::vector<uint64_t> later_facts(const Model& model) {
  const Hyper& hyper = model.hyper;
  std::vector<uint64_t> facts = {hyper.n_expert_used, std::bit_cast<uint32_t>(hyper.attn_softcap)};
  for (const LayerHyper& layer : hyper.layers) facts.push_back(layer.is_windowed ? hyper.window : 0);
  // A slow pair has hardly turned by the 32nd token.
  for (const std::vector<double>* table : {&model.rope_inv_freq, &model.rope_inv_freq_windowed})
    for (const double frequency : *table) facts.push_back(std::bit_cast<uint64_t>(frequency));
  return facts;
}

}  // namespace

Result<uint64_t> kv_fingerprint(const Engine& engine) {
  const size_t n_vocab = engine.model().n_vocab();
  KvCache cache = engine.model().make_cache(engine.kv_types());
  TAMIS_TRY_STATUS(cache.reserve(kPageTokens));
  std::vector<TokenId> tokens;
  std::vector<KvSlot> slots;
  for (uint32_t i = 0; i < kPageTokens; ++i) {
    tokens.push_back(static_cast<TokenId>(n_vocab * i / kPageTokens));
    slots.push_back({&cache, i});
  }
  // As many at a time as this engine takes; what is computed does not depend on it.
  for (size_t i = 0; i < kPageTokens; i += engine.n_batch()) {
    const size_t n = std::min<size_t>(engine.n_batch(), kPageTokens - i);
    TAMIS_TRY_STATUS(engine.forward(
        {.tokens = std::span(tokens).subspan(i, n), .slots = std::span(slots).subspan(i, n), .logits_rows = {}}));
  }
  std::vector<uint64_t> facts = later_facts(engine.model());
  facts.insert(facts.end(), {n_vocab, *cache.page_bytes(), static_cast<uint64_t>(engine.kv_types().k),
                             static_cast<uint64_t>(engine.kv_types().v)});
  const uint64_t seed = XXH3_64bits(facts.data(), facts.size() * sizeof(uint64_t));
  return XXH3_64bits_withSeed(cache.pages().front().get(), *cache.page_bytes(), seed);
}

uint64_t kv_salt(std::string_view salt) { return XXH3_64bits(salt.data(), salt.size()); }

KvFileWriter::KvFileWriter(const KvFileKind& kind, Write write)
    : kind_(kind), write_(std::move(write)), hash_(kind.salt) {}

uint64_t KvFileWriter::size_bytes() const { return sizeof(Head) + n_blocks_ * kind_.block_bytes(); }

Status KvFileWriter::add(std::span<const TokenId> tokens, std::span<const std::byte> page) {
  hash_ = hash_of(tokens, page, hash_);
  uint64_t offset = size_bytes();
  for (const std::span<const std::byte> part : {std::as_bytes(tokens), page, std::as_bytes(std::span(&hash_, 1))}) {
    TAMIS_TRY_STATUS(write_(offset, part));
    offset += part.size();
  }
  ++n_blocks_;
  return {};
}

Status KvFileWriter::finish() {
  Head head{kMagic, kind_.fingerprint, kind_.salt, kind_.page_bytes, n_blocks_, hash_, 0};
  head.hash = hash_of(head);
  return write_(0, std::as_bytes(std::span(&head, 1)));
}

Result<KvFileReader> KvFileReader::open(std::shared_ptr<ByteSource> source, const KvFileKind& kind) {
  Head head{};
  const Status has_head = read_all(*source, 0, std::as_writable_bytes(std::span(&head, 1)));
  if (!has_head && has_head.error().code != ErrorCode::format) return tl::unexpected(has_head.error());
  if (!has_head || head.magic != kMagic) return fail(ErrorCode::format, "it is no file of keys and values");
  if (head.hash != hash_of(head)) return fail(ErrorCode::format, "its header is not what was written");
  if (head.fingerprint != kind.fingerprint || head.page_bytes != kind.page_bytes)
    return fail(ErrorCode::invalid_argument, "it is of another model, or of one that computes otherwise");
  if (head.salt != kind.salt) return fail(ErrorCode::invalid_argument, "it is of another cache_salt");
  const auto body = checked_mul(head.n_blocks, kind.block_bytes());
  const auto size = body ? checked_add(*body, sizeof(Head)) : std::nullopt;
  if (!size || *size != source->size_bytes())
    return fail(ErrorCode::format, "{} bytes are not what its {} blocks take", source->size_bytes(), head.n_blocks);
  KvFileReader reader;
  reader.source_ = std::move(source);
  reader.kind_ = kind;
  reader.n_blocks_ = static_cast<size_t>(head.n_blocks);
  reader.last_hash_ = head.last_hash;
  reader.rewind();
  if (reader.n_blocks_ == 0 && reader.last_hash_ != reader.hash_)
    return fail(ErrorCode::format, "its header is not what was written");
  return reader;
}

void KvFileReader::rewind() {
  block_idx_ = 0;
  hash_ = kind_.salt;
}

Status KvFileReader::next(std::span<TokenId> tokens, std::span<std::byte> page) {
  uint64_t offset = sizeof(Head) + block_idx_ * kind_.block_bytes(), hash = 0;
  for (const std::span<std::byte> part :
       {std::as_writable_bytes(tokens), page, std::as_writable_bytes(std::span(&hash, 1))}) {
    TAMIS_TRY_STATUS(read_all(*source_, offset, part));
    offset += part.size();
  }
  hash_ = hash_of(tokens, page, hash_);
  ++block_idx_;
  if (hash_ != hash || (block_idx_ == n_blocks_ && hash_ != last_hash_))
    return fail(ErrorCode::format, "block {} is not what was written", block_idx_ - 1);
  for (const TokenId id : tokens)
    if (id < 0 || static_cast<size_t>(id) >= kind_.n_vocab)
      return fail(ErrorCode::format, "token {} is not in the vocabulary of {}", id, kind_.n_vocab);
  return {};
}

}  // namespace tamis
