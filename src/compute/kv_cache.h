// The stored keys and values of one sequence: f32, in pages of kPageTokens positions aligned to absolute position.
// Written by Backend::store_kv, read by Backend::attention; owned by whoever owns the conversation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace tamis {

// Row lengths of one layer, in floats.
struct KvLayerShape {
  uint32_t k_width = 0;  // n_head_kv · k_dim
  uint32_t v_width = 0;  // n_head_kv · v_dim
};

class KvCache {
 public:
  static constexpr uint32_t kPageTokens = 64;

  explicit KvCache(std::vector<KvLayerShape> layers) : layers_(std::move(layers)) {}

  // Positions 0 … n_tokens()-1 are stored in every layer.
  uint32_t n_tokens() const { return n_tokens_; }
  uint32_t n_layers() const { return static_cast<uint32_t>(layers_.size()); }
  const KvLayerShape& layer(uint32_t layer_idx) const { return layers_[layer_idx]; }
  size_t size_bytes() const;  // of all pages held

  // Makes room for positions below n; existing rows keep their place. Errors: out_of_memory (the cache stays usable).
  Status reserve(uint32_t n);
  // Rows up to n-1 have been written in every layer. Requires: reserved.
  void commit(uint32_t n) { n_tokens_ = n; }
  // Forgets positions n and above; keeps the pages.
  void truncate(uint32_t n) { n_tokens_ = n < n_tokens_ ? n : n_tokens_; }

  // The key [k_width] and value [v_width] of a reserved position. Rows of one page lie one after another.
  float* key(uint32_t layer_idx, uint32_t position) {
    return page(layer_idx, position) + k_offset(layer_idx, position);
  }
  float* value(uint32_t layer_idx, uint32_t position) {
    return page(layer_idx, position) + v_offset(layer_idx, position);
  }
  const float* key(uint32_t layer_idx, uint32_t position) const {
    return page(layer_idx, position) + k_offset(layer_idx, position);
  }
  const float* value(uint32_t layer_idx, uint32_t position) const {
    return page(layer_idx, position) + v_offset(layer_idx, position);
  }

 private:
  float* page(uint32_t layer_idx, uint32_t position) const {
    return pages_[static_cast<size_t>(position / kPageTokens) * layers_.size() + layer_idx].get();
  }
  size_t k_offset(uint32_t layer_idx, uint32_t position) const {
    return static_cast<size_t>(position % kPageTokens) * layers_[layer_idx].k_width;
  }
  size_t v_offset(uint32_t layer_idx, uint32_t position) const {
    return static_cast<size_t>(kPageTokens) * layers_[layer_idx].k_width +
           static_cast<size_t>(position % kPageTokens) * layers_[layer_idx].v_width;
  }

  std::vector<KvLayerShape> layers_;
  std::vector<std::unique_ptr<float[]>> pages_;  // [page][layer]: kPageTokens keys, then kPageTokens values
  uint32_t n_tokens_ = 0;
};

// Where one token of a batch lives: the cache of its sequence and its position there.
struct KvSlot {
  KvCache* cache = nullptr;
  uint32_t position = 0;
};

}  // namespace tamis
