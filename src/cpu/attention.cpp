// Rotation of heads by position, and causal attention over the pages of a sequence.
//
// Keys are visited in tiles aligned to absolute position (the cache's pages), so what a token computes depends on its
// position alone: not on where a prompt was cut, nor on what was cached before.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/cpu_backend.h"

namespace tamis::cpu {

bool RopeTable::holds(std::span<const uint32_t> positions, const RopeParams& params) const {
  return magnitude_ == params.magnitude && std::ranges::equal(inv_freq_, params.inv_freq) &&
         std::ranges::equal(positions_, positions);
}

void RopeTable::prepare(std::span<const uint32_t> positions, const RopeParams& params) {
  positions_.clear();  // nothing is claimed while the table is half made
  inv_freq_.assign(params.inv_freq.begin(), params.inv_freq.end());
  magnitude_ = params.magnitude;
  cosines_.resize(positions.size() * inv_freq_.size());
  sines_.resize(positions.size() * inv_freq_.size());
  size_t at = 0;
  for (const uint32_t position : positions) {
    for (const double inv_freq : inv_freq_) {
      const double angle = position * inv_freq;
      cosines_[at] = static_cast<float>(std::cos(angle) * magnitude_);
      sines_[at++] = static_cast<float>(std::sin(angle) * magnitude_);
    }
  }
  positions_.assign(positions.begin(), positions.end());
}

void CpuBackend::rope(TensorView x, uint32_t head_dim, std::span<const uint32_t> positions, const RopeParams& params) {
  const size_t n_pairs = params.inv_freq.size();
  const bool is_interleaved = params.pairs == RopePairs::interleaved;
  RopeTable* table = &rope_tables_[rope_turn_];
  if (!table->holds(positions, params)) {
    rope_turn_ ^= 1;
    table = &rope_tables_[rope_turn_];
    if (!table->holds(positions, params)) table->prepare(positions, params);
  }
  for_ranges(x.n_rows, 0, 4 * x.n_cols, [&](size_t begin, size_t end, uint32_t) {
    for (size_t t = begin; t < end; ++t) {
      const float* const cosines = table->cosines(t);
      const float* const sines = table->sines(t);
      for (float* head = x.row(t); head < x.row(t) + x.n_cols; head += head_dim) {
        for (size_t i = 0; i < n_pairs; ++i) {
          float& first = head[is_interleaved ? 2 * i : i];
          float& second = head[is_interleaved ? 2 * i + 1 : i + n_pairs];
          const float a = first, b = second;
          first = a * cosines[i] - b * sines[i];
          second = a * sines[i] + b * cosines[i];
        }
      }
    }
  });
}

void CpuBackend::store_kv(std::span<const KvSlot> slots, uint32_t layer_idx, TensorView k, TensorView v) {
  for (size_t i = 0; i < slots.size(); ++i) {
    std::memcpy(slots[i].cache->key(layer_idx, slots[i].position), k.row(i), k.n_cols * sizeof(float));
    std::memcpy(slots[i].cache->value(layer_idx, slots[i].position), v.row(i), v.n_cols * sizeof(float));
  }
}

void CpuBackend::attend(const HeadGroup& group, const AttentionParams& params, Scratch& scratch) const {
  constexpr uint32_t kPage = KvCache::kPageTokens;
  const KvCache& cache = *group.slot.cache;
  const uint32_t layer_idx = group.layer_idx, n_heads = group.n_heads;
  const uint32_t n_seen = group.slot.position + 1;
  const uint32_t first = params.window != 0 && n_seen > params.window ? n_seen - params.window : 0;
  const KvLayerShape& shape = cache.layer(layer_idx);
  float maximum[kHeadsTogether], total[kHeadsTogether];
  std::fill_n(maximum, n_heads, -std::numeric_limits<float>::infinity());
  std::fill_n(total, n_heads, 0.0f);
  std::fill_n(group.out, size_t{n_heads} * params.v_dim, 0.0f);
  for (uint32_t begin = first; begin < n_seen; begin = begin / kPage * kPage + kPage) {
    const uint32_t n_keys = std::min(n_seen, begin / kPage * kPage + kPage) - begin;
    MultiplyTask task{};
    task.w_stride = shape.k_width;
    task.n_rows = n_keys;
    task.x_stride = params.k_dim;
    task.n_tokens = n_heads;
    task.out = scratch.scores;
    task.out_stride = kPage;
    for (size_t k = 0; k < params.k_dim; k += kChunk) {
      task.w = cache.key(layer_idx, begin) + size_t{group.head_kv} * params.k_dim + k;
      task.x = group.q + k;
      task.k = std::min<size_t>(kChunk, params.k_dim - k);
      task.is_added = k != 0;
      kernels_.multiply(task);
    }
    const float* const values = cache.value(layer_idx, begin) + size_t{group.head_kv} * params.v_dim;
    for (uint32_t h = 0; h < n_heads; ++h) {
      float* const scores = scratch.scores + size_t{h} * kPage;
      float* const sums = group.out + size_t{h} * params.v_dim;
      for (uint32_t i = 0; i < n_keys; ++i) scores[i] *= params.scale;
      if (params.softcap > 0.0f) softcap_range(scores, n_keys, params.softcap);
      kernels_.softmax_step(scores, n_keys, &maximum[h], &total[h], sums, params.v_dim);
      kernels_.add_values(scores, n_keys, values, shape.v_width, sums, params.v_dim);
    }
  }
  for (uint32_t h = 0; h < n_heads; ++h)
    for (uint32_t d = 0; d < params.v_dim; ++d) group.out[size_t{h} * params.v_dim + d] /= total[h];
}

void CpuBackend::attention(TensorView q, std::span<const KvSlot> slots, uint32_t layer_idx,
                           const AttentionParams& params, TensorView out) {
  const uint32_t group = params.n_head / params.n_head_kv;
  const uint32_t n_parts = (group + kHeadsTogether - 1) / kHeadsTogether;  // of one group of query heads
  const size_t n_items = size_t{params.n_head_kv} * n_parts;               // of one token
  const size_t cost = size_t{slots.empty() ? 0 : slots.back().position + 1} * (params.k_dim + params.v_dim) * group;
  for_ranges(slots.size() * n_items, 1, cost, [&](size_t begin, size_t end, uint32_t thread_idx) {
    for (size_t i = begin; i < end; ++i) {
      const size_t token = i / n_items;
      const auto part = static_cast<uint32_t>(i % n_items);
      const uint32_t in_group = part % n_parts * kHeadsTogether;
      const uint32_t head = part / n_parts * group + in_group;
      attend({.q = q.row(token) + size_t{head} * params.k_dim,
              .out = out.row(token) + size_t{head} * params.v_dim,
              .slot = slots[token],
              .layer_idx = layer_idx,
              .head_kv = part / n_parts,
              .n_heads = std::min<uint32_t>(kHeadsTogether, group - in_group)},
             params, scratch_[thread_idx]);
    }
  });
}

}  // namespace tamis::cpu
