// The stored keys and values of one sequence: pages of kPageTokens positions, aligned to absolute position, elements of
// a type chosen for keys and for values. Written by Backend::store_kv, read by Backend::attention; owned by whoever
// owns the conversation. Sequences that begin alike may hold the same pages; one that is written to is copied first.
//
// A page holds, for every layer and key/value head, its keys and then its values in one piece:
//   keys    [tokens/16][row][16]   rows of one element of the head, sixteen tokens a row, so that sixteen scores are
//                                  one vector; after, for block types, the scales [tokens/16][blocks][16]
//   values  [tokens][row]          one token's row after another; after, for block types, the scales [tokens][blocks]
// Block types are GGUF's Q8_0 and Q4_0: 32 elements of one head with one f16 scale. A byte of Q4_0 holds elements j
// (low half) and j+16 (high half) of its block, as in GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "compute/kv_pages.h"

namespace tamis {

// What one layer stores for a token.
struct KvLayerShape {
  uint32_t n_head_kv = 0;
  uint32_t k_dim = 0, v_dim = 0;  // of one head
};

// Element types of stored keys and values: f32, f16, bf16, q8_0 or q4_0.
struct KvTypes {
  DType k = DType::f32, v = DType::f32;
};

// Types by name. Errors: invalid_argument for a name that is none of the five.
Result<KvTypes> kv_types_from_names(std::string_view k, std::string_view v);

// Errors: invalid_argument when a head's rows are no whole blocks of the type.
Status check_kv_types(const KvTypes& types, const KvLayerShape& shape);

// Bytes of one token's keys and values in one layer; nothing when the number does not fit 64 bits. Requires:
// check_kv_types.
std::optional<uint64_t> kv_token_bytes(const KvTypes& types, const KvLayerShape& shape);

// Where one head's keys and values of one page lie. Scales exist for block types only.
struct KvHeadPage {
  const std::byte *k = nullptr, *k_scales = nullptr;
  const std::byte *v = nullptr, *v_scales = nullptr;
};

class KvCache {
 public:
  static constexpr uint32_t kPageTokens = 32;
  // Pages that hold the keys and values of so many tokens.
  static constexpr size_t pages_of(size_t n_tokens) { return (n_tokens + kPageTokens - 1) / kPageTokens; }
  static constexpr uint32_t kLaneTokens = 16;  // tokens whose keys are interleaved

  // Pages come from `pool`, or from the system when it is null. Requires: check_kv_types for every layer; the pool's
  // pages have page_bytes().
  explicit KvCache(std::vector<KvLayerShape> layers, const KvTypes& types = {},
                   std::shared_ptr<KvPagePool> pool = nullptr);

  // Positions 0 … n_tokens()-1 are stored in every layer.
  uint32_t n_tokens() const { return n_tokens_; }
  uint32_t n_layers() const { return static_cast<uint32_t>(layers_.size()); }
  const KvLayerShape& layer(uint32_t layer_idx) const { return layers_[layer_idx]; }
  const KvTypes& types() const { return types_; }
  size_t size_bytes() const { return pages_.size() * page_bytes_.value_or(0); }  // of all pages held

  // Bytes of one page; nothing: more than 64 bits hold.
  std::optional<size_t> page_bytes() const { return page_bytes_; }

  // Makes positions n_tokens() … n-1 writable: takes pages that are missing, and copies one that others hold too.
  // Existing rows keep their values, and in pages nobody else holds their place. Errors: out_of_memory (the cache stays
  // usable).
  Status reserve(uint32_t n);
  // Pages that reserve(n) would take.
  size_t n_pages_to_take(uint32_t n) const;
  // Rows up to n-1 have been written in every layer. Requires: reserved.
  void commit(uint32_t n) { n_tokens_ = n; }
  // Forgets positions n and above; keeps the pages.
  void truncate(uint32_t n) { n_tokens_ = n < n_tokens_ ? n : n_tokens_; }
  // Forgets everything and lets go of the pages.
  void clear();

  // The pages held, the one of positions 0 … kPageTokens-1 first.
  const std::vector<KvPage>& pages() const { return pages_; }
  // Puts a page with the same layout in place of number `page_idx`, or after the last one; commit() then says how many
  // positions are stored. Requires: page_idx ≤ pages().size().
  void put_page(size_t page_idx, KvPage page);

  // Writes the row of a reserved position, rounded to the types.  k [n_head_kv, k_dim]  v [n_head_kv, v_dim]
  // Calls for different positions may run at once.
  void store(uint32_t layer_idx, uint32_t position, const float* k, const float* v);
  // The key [k_dim] or value [v_dim] of one head as stored.
  void read_key(uint32_t layer_idx, uint32_t position, uint32_t head_kv, float* out) const;
  void read_value(uint32_t layer_idx, uint32_t position, uint32_t head_kv, float* out) const;

  // The page that holds `position`.
  KvHeadPage head_page(uint32_t layer_idx, uint32_t position, uint32_t head_kv) const;

 private:
  struct LayerPlace {
    size_t offset = 0;                         // of the layer in a page
    size_t head_bytes = 0;                     // keys and values of one head in one page
    size_t k_scales = 0, v = 0, v_scales = 0;  // offsets in a head's piece; keys are at 0
  };
  Result<KvPage> take_page() const;
  std::byte* head_place(uint32_t layer_idx, uint32_t position, uint32_t head_kv) const {
    const LayerPlace& place = places_[layer_idx];
    return pages_[position / kPageTokens].get() + place.offset + head_kv * place.head_bytes;
  }

  std::vector<KvLayerShape> layers_;
  std::vector<LayerPlace> places_;  // [n_layers]
  KvTypes types_;
  std::optional<size_t> page_bytes_ = 0;  // nothing: more than 64 bits hold
  std::shared_ptr<KvPagePool> pool_;
  std::vector<KvPage> pages_;
  uint32_t n_tokens_ = 0;
};

// Where one token of a batch lives: the cache of its sequence and its position there.
struct KvSlot {
  KvCache* cache = nullptr;
  uint32_t position = 0;
};

}  // namespace tamis
