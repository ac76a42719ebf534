// The pages of a KV cache: allocated as a sequence grows, never moved.
#include "compute/kv_cache.h"

#include <new>

namespace tamis {

size_t KvCache::size_bytes() const {
  size_t row = 0;
  for (const KvLayerShape& layer : layers_) row += size_t{layer.k_width} + layer.v_width;
  const size_t n_pages = layers_.empty() ? 0 : pages_.size() / layers_.size();
  return n_pages * kPageTokens * row * sizeof(float);
}

Status KvCache::reserve(uint32_t n) {
  const size_t n_pages = (size_t{n} + kPageTokens - 1) / kPageTokens;
  try {
    while (pages_.size() < n_pages * layers_.size()) {
      const KvLayerShape& layer = layers_[pages_.size() % layers_.size()];
      const size_t n_floats = (size_t{layer.k_width} + layer.v_width) * kPageTokens;
      pages_.push_back(std::make_unique_for_overwrite<float[]>(n_floats));
    }
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "no memory for the keys and values of {} positions", n);
  }
  return {};
}

}  // namespace tamis
