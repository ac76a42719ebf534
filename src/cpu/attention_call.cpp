// Cutting one call of attention into tiles and splits, and computing them.
#include "cpu/attention_call.h"

#include <algorithm>
#include <array>

namespace tamis::cpu {
namespace {

static_assert(kPageKeys == KvCache::kPageTokens && KvCache::kLaneTokens == kLanes);
static_assert(kSplitKeys % kTileKeys == 0 && kTileKeys % kPageKeys == 0);

// What a tile's queries and sums may take: half of the smallest second-level caches in use.
constexpr size_t kColumnBytes = size_t{256} << 10;
constexpr uint32_t kFewColumns = 24;                 // below, reading the keys costs as much as using them
constexpr size_t kTilesPerThread = 4;                // fewer leave threads idle at the end
constexpr size_t kMaxPartFloats = size_t{16} << 20;  // of all splits kept at once

constexpr std::pair<DType, KvFormat> kFormats[] = {
    {DType::f32, kKvF32}, {DType::f16, kKvF16}, {DType::bf16, kKvBf16}, {DType::q8_0, kKvQ80}, {DType::q4_0, kKvQ40}};

KvFormat format_of(DType dtype) {
  const auto* const row = std::ranges::find(kFormats, dtype, &std::pair<DType, KvFormat>::first);
  TAMIS_CHECK(row != std::end(kFormats));
  return row->second;
}

const uint8_t* bytes(const std::byte* from) { return reinterpret_cast<const uint8_t*>(from); }

uint32_t n_splits_of(uint32_t first_key, uint32_t end_key) {
  return (end_key - 1) / kSplitKeys - first_key / kSplitKeys + 1;
}

}  // namespace

float* FloatRoom::get(size_t n) {
  constexpr size_t kLineFloats = 16;
  if (floats_.size() < n + kLineFloats) {
    floats_.clear();  // nothing to copy
    floats_.resize(n + kLineFloats);
  }
  const size_t beyond = reinterpret_cast<uintptr_t>(floats_.data()) / sizeof(float) % kLineFloats;
  return floats_.data() + (beyond == 0 ? 0 : kLineFloats - beyond);
}

// A tile's columns, as kernels are given them.
struct AttentionCall::Columns {
  const float* q[kMaxColumns];
  float* out[kMaxColumns];
  uint32_t first[kMaxColumns], n_seen[kMaxColumns];
};

uint32_t AttentionCall::first_key(uint32_t position) const {
  const uint32_t window = input_.params.window;
  return window != 0 && position >= window ? position - window + 1 : 0;
}

uint32_t AttentionCall::columns_in_tile(uint32_t n_threads) const {
  const size_t column_bytes = (input_.params.k_dim + 2 * size_t{v_stride_} + kTileKeys) * sizeof(float);
  const auto most = static_cast<uint32_t>(std::clamp<size_t>(kColumnBytes / column_bytes, kFewColumns, kMaxColumns));
  const size_t n_columns = input_.slots.size() * input_.params.n_head;
  // Smaller tiles where there would be too few for all threads.
  const size_t share = n_columns / (kTilesPerThread * n_threads);
  const auto n = std::min<uint32_t>(most, static_cast<uint32_t>(std::clamp<size_t>(share, kFewColumns, kMaxColumns)));
  return group_ >= n ? n : n / group_ * group_;
}

void AttentionCall::cut_run(size_t first_slot, size_t n_tokens, uint32_t n_in_tile) {
  const auto n_columns = static_cast<uint32_t>(n_tokens * group_);
  const uint32_t position = input_.slots[first_slot].position;
  for (uint32_t column = 0; column < n_columns; column += n_in_tile) {
    Tile tile{.first_slot = first_slot, .first_column = column, .n_columns = std::min(n_in_tile, n_columns - column)};
    tile.first_key = first_key(position + column / group_);
    tile.end_key = position + (column + tile.n_columns - 1) / group_ + 1;
    for (tile.head_kv = 0; tile.head_kv < input_.params.n_head_kv; ++tile.head_kv) {
      tile.first_item = n_splits_;
      n_splits_ += n_splits_of(tile.first_key, tile.end_key);
      memory_.tiles.push_back(tile);
    }
  }
}

AttentionCall::AttentionCall(const KernelTable& kernels, const AttentionInput& input, uint32_t n_threads,
                             AttentionMemory& memory)
    : kernels_(kernels),
      input_(input),
      memory_(memory),
      group_(input.params.n_head / input.params.n_head_kv),
      v_stride_((input.params.v_dim + 15) / 16 * 16) {
  memory_.tiles.clear();
  const std::span<const KvSlot> slots = input.slots;
  const uint32_t n_in_tile = columns_in_tile(n_threads);
  for (size_t begin = 0, end; begin < slots.size(); begin = end) {
    for (end = begin + 1; end < slots.size(); ++end)
      if (slots[end].cache != slots[begin].cache || slots[end].position != slots[end - 1].position + 1) break;
    cut_run(begin, end - begin, n_in_tile);
  }
  size_t n_floats = 0;
  for (Tile& tile : memory_.tiles) {
    tile.parts_at = n_floats;
    n_floats += part_floats(tile.n_columns) * n_splits_of(tile.first_key, tile.end_key);
  }
  const size_t n_tiles = memory_.tiles.size();
  is_split_ =
      n_threads > 1 && n_tiles < kTilesPerThread * n_threads && n_splits_ > n_tiles && n_floats <= kMaxPartFloats;
  if (!is_split_) return;
  parts_ = memory_.parts.get(n_floats);
  if (memory_.n_left_size < n_tiles) {
    memory_.n_left = std::make_unique<std::atomic<uint32_t>[]>(n_tiles);
    memory_.n_left_size = n_tiles;
  }
  for (size_t i = 0; i < n_tiles; ++i) {
    const Tile& tile = memory_.tiles[i];
    memory_.n_left[i].store(n_splits_of(tile.first_key, tile.end_key), std::memory_order_relaxed);
  }
}

size_t AttentionCall::item_cost() const {
  size_t n_pairs = 0;
  for (const Tile& tile : memory_.tiles) n_pairs += size_t{tile.n_columns} * (tile.end_key - tile.first_key);
  return n_pairs * (input_.params.k_dim + input_.params.v_dim) / std::max<size_t>(n_items(), 1) + 1;
}

AttentionPart AttentionCall::part_at(float* floats, size_t n_columns) const {
  return {.maximum = floats + n_columns * (v_stride_ + 16), .sums = floats + n_columns * v_stride_, .acc = floats};
}

size_t AttentionCall::room_floats(const Tile& tile) const {
  const size_t k_dim = input_.params.k_dim, n = tile.n_columns;
  return (n + 15) * k_dim + kTileKeys * (k_dim + v_stride_) + n * kTileKeys + 2 * part_floats(n) + 64;
}

AttentionTask AttentionCall::make_task(const Tile& tile, const Columns& columns, float*& room) const {
  const AttentionParams& params = input_.params;
  auto take = [&](size_t n) { return std::exchange(room, room + (n + 15) / 16 * 16); };
  AttentionTask task{};
  task.n_columns = tile.n_columns;
  task.k_dim = params.k_dim;
  task.v_dim = params.v_dim;
  task.v_stride = v_stride_;
  task.first = columns.first;
  task.n_seen = columns.n_seen;
  task.softcap = params.softcap;
  const KvTypes& types = input_.slots[tile.first_slot].cache->types();
  task.k_format = format_of(types.k);
  task.v_format = format_of(types.v);
  task.keys = take(size_t{kTileKeys} * params.k_dim);
  task.values = take(size_t{kTileKeys} * v_stride_);
  task.scores = take(size_t{tile.n_columns} * kTileKeys);
  float* const q = take(size_t{tile.n_columns + 15} * params.k_dim);
  kernels_.pack_queries({columns.q, tile.n_columns, params.k_dim, params.scale, q});
  task.q = q;
  return task;
}

void AttentionCall::attend_split(const Tile& tile, uint32_t split, AttentionTask& task) const {
  const KvCache& cache = *input_.slots[tile.first_slot].cache;
  task.split = split;
  task.end = std::min(tile.end_key, split + kSplitKeys);
  for (uint32_t key = split; key < task.end; key += kPageKeys) {
    const KvHeadPage page = cache.head_page(input_.layer_idx, key, tile.head_kv);
    task.pages[(key - split) / kPageKeys] = {bytes(page.k), bytes(page.k_scales), bytes(page.v), bytes(page.v_scales)};
  }
  kernels_.attend(task);
}

void AttentionCall::run(size_t item, FloatRoom& room) const {
  // The last tiles of a prompt see the most keys: first, so that no thread ends long after the others.
  item = n_items() - 1 - item;
  const std::vector<Tile>& tiles = memory_.tiles;
  const auto past = is_split_ ? std::ranges::upper_bound(tiles, item, {}, &Tile::first_item) : tiles.begin() + 1 + item;
  const Tile& tile = *(past - 1);
  const auto tile_idx = static_cast<size_t>(&tile - tiles.data());

  Columns columns;
  for (uint32_t i = 0; i < tile.n_columns; ++i) {
    const size_t slot = tile.first_slot + (tile.first_column + i) / group_;
    const size_t head = size_t{tile.head_kv} * group_ + (tile.first_column + i) % group_;
    const uint32_t position = input_.slots[slot].position;
    columns.q[i] = input_.q.row(slot) + head * input_.params.k_dim;
    columns.out[i] = input_.out.row(slot) + head * input_.params.v_dim;
    columns.first[i] = first_key(position);
    columns.n_seen[i] = position + 1;
  }
  float* floats = room.get(room_floats(tile));
  AttentionTask task = make_task(tile, columns, floats);
  const AttentionPart total = part_at(floats, tile.n_columns);
  const uint32_t first_split = tile.first_key / kSplitKeys * kSplitKeys;
  if (!is_split_) {
    task.part = part_at(floats + part_floats(tile.n_columns), tile.n_columns);
    for (uint32_t split = first_split; split < tile.end_key; split += kSplitKeys) {
      attend_split(tile, split, task);
      kernels_.merge_attention(task, total);
    }
    kernels_.finish_attention(task, total, columns.out);
    return;
  }
  const auto part_of = [&](size_t i) {
    return part_at(parts_ + tile.parts_at + i * part_floats(tile.n_columns), tile.n_columns);
  };
  const size_t split_idx = item - tile.first_item;
  task.part = part_of(split_idx);
  attend_split(tile, first_split + static_cast<uint32_t>(split_idx) * kSplitKeys, task);
  if (memory_.n_left[tile_idx].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  size_t i = 0;
  for (uint32_t split = first_split; split < tile.end_key; split += kSplitKeys) {
    task.split = split;
    task.end = std::min(tile.end_key, split + kSplitKeys);
    task.part = part_of(i++);
    kernels_.merge_attention(task, total);
  }
  kernels_.finish_attention(task, total, columns.out);
}

}  // namespace tamis::cpu
