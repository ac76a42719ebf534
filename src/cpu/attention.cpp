// Rotation of heads by position, storing keys and values, and attention, as the threads share them.
#include <algorithm>
#include <cmath>

#include "cpu/cpu_backend.h"

namespace tamis::cpu {

bool RopeTable::holds(std::span<const uint32_t> positions, const RopeParams& params) const {
  return magnitude_ == params.magnitude && std::ranges::equal(inv_freq_, params.inv_freq) &&
         std::ranges::equal(positions_, positions);
}

void RopeTable::begin(std::span<const uint32_t> positions, const RopeParams& params) {
  positions_.clear();  // nothing is claimed while the table is half made
  inv_freq_.assign(params.inv_freq.begin(), params.inv_freq.end());
  magnitude_ = params.magnitude;
  cosines_.resize(positions.size() * inv_freq_.size());
  sines_.resize(positions.size() * inv_freq_.size());
  positions_.assign(positions.begin(), positions.end());
}

void RopeTable::fill(size_t token) {
  size_t at = token * inv_freq_.size();
  for (const double inv_freq : inv_freq_) {
    const double angle = positions_[token] * inv_freq;
    cosines_[at] = static_cast<float>(std::cos(angle) * magnitude_);
    sines_[at++] = static_cast<float>(std::sin(angle) * magnitude_);
  }
}

const RopeTable& CpuBackend::rope_table(std::span<const uint32_t> positions, const RopeParams& params) {
  if (rope_tables_[rope_turn_].holds(positions, params)) return rope_tables_[rope_turn_];
  rope_turn_ ^= 1;
  RopeTable& table = rope_tables_[rope_turn_];
  if (table.holds(positions, params)) return table;
  table.begin(positions, params);
  for_ranges(positions.size(), 0, 64 * params.inv_freq.size(), [&](size_t begin, size_t end, uint32_t) {
    for (size_t t = begin; t < end; ++t) table.fill(t);
  });
  return table;
}

void CpuBackend::rope(TensorView x, uint32_t head_dim, std::span<const uint32_t> positions, const RopeParams& params) {
  const RopeTable& table = rope_table(positions, params);
  const size_t n_pairs = params.inv_freq.size();
  auto* const rotate = params.pairs == RopePairs::interleaved ? kernels_.rotate_pairs : kernels_.rotate_halves;
  for_ranges(x.n_rows, 0, x.n_cols, [&](size_t begin, size_t end, uint32_t) {
    for (size_t t = begin; t < end; ++t)
      for (float* head = x.row(t); head < x.row(t) + x.n_cols; head += head_dim)
        rotate(head, table.cosines(t), table.sines(t), n_pairs);
  });
}

void CpuBackend::store_kv(std::span<const KvSlot> slots, uint32_t layer_idx, TensorView k, TensorView v) {
  for_ranges(slots.size(), 0, 4 * (k.n_cols + v.n_cols), [&](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i) slots[i].cache->store(layer_idx, slots[i].position, k.row(i), v.row(i));
  });
}

void CpuBackend::attention(TensorView q, std::span<const KvSlot> slots, uint32_t layer_idx,
                           const AttentionParams& params, TensorView out) {
  const AttentionInput input{q, slots, layer_idx, params, out};
  const AttentionCall call(kernels_, input, pool_ != nullptr ? pool_->n_threads() : 1, attention_);
  for_ranges(call.n_items(), 1, call.item_cost(), [&](size_t begin, size_t end, uint32_t thread_idx) {
    for (size_t i = begin; i < end; ++i) call.run(i, scratch_[thread_idx].attention);
  });
}

}  // namespace tamis::cpu
