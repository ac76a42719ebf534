// One call of Backend::attention cut into items that any threads may compute in any order; private to src/cpu.
//
// Queries of consecutive tokens of one sequence go together by key head, as the columns of a tile. Many tiles: an item
// is a tile, which walks through its splits of keys. Few (decoding): an item is one split of a tile; who finishes a
// tile's last split merges them all. The merging is the same, in the order of the splits, so both give the same bits.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "compute/backend.h"
#include "cpu/kernels.h"

namespace tamis::cpu {

// Floats on a cache line's border that grow as needed. Contents are lost when they grow.
class FloatRoom {
 public:
  // At least n floats. Errors: std::bad_alloc only.
  float* get(size_t n);

 private:
  std::vector<float> floats_;
};

// Kept from call to call so that no call allocates once the largest has been seen.
struct AttentionMemory {
  struct Tile {
    size_t first_slot = 0;  // of the run of tokens that the tile's columns count from
    uint32_t head_kv = 0;
    uint32_t first_column = 0, n_columns = 0;  // column c of a run is query head c % group of token c / group
    uint32_t first_key = 0, end_key = 0;       // keys that any column sees
    size_t first_item = 0;                     // splits before it, in all tiles
    size_t parts_at = 0;                       // its parts in `parts`
  };
  std::vector<Tile> tiles;
  FloatRoom parts;
  std::unique_ptr<std::atomic<uint32_t>[]> n_left;  // [tiles]: splits not yet computed
  size_t n_left_size = 0;
};

// What is asked for.
struct AttentionInput {
  TensorView q;
  std::span<const KvSlot> slots;
  uint32_t layer_idx = 0;
  const AttentionParams& params;
  TensorView out;
};

class AttentionCall {
 public:
  // Errors: std::bad_alloc only.
  AttentionCall(const KernelTable& kernels, const AttentionInput& input, uint32_t n_threads, AttentionMemory& memory);

  size_t n_items() const { return is_split_ ? n_splits_ : memory_.tiles.size(); }
  size_t item_cost() const;  // float operations, about
  // `room`: the calling thread's own.
  void run(size_t item, FloatRoom& room) const;

 private:
  using Tile = AttentionMemory::Tile;
  struct Columns;

  void cut_run(size_t first_slot, size_t n_tokens, uint32_t n_in_tile);
  uint32_t columns_in_tile(uint32_t n_threads) const;
  uint32_t first_key(uint32_t position) const;
  AttentionTask make_task(const Tile& tile, const Columns& columns, float*& room) const;
  void attend_split(const Tile& tile, uint32_t split, AttentionTask& task) const;
  AttentionPart part_at(float* floats, size_t n_columns) const;
  size_t part_floats(size_t n_columns) const { return (n_columns * (v_stride_ + 17) + 15) / 16 * 16; }
  size_t room_floats(const Tile& tile) const;

  const KernelTable& kernels_;
  const AttentionInput& input_;
  AttentionMemory& memory_;
  uint32_t group_;     // query heads of one key head
  uint32_t v_stride_;  // v_dim in whole vectors
  bool is_split_ = false;
  size_t n_splits_ = 0;  // of all tiles
  float* parts_ = nullptr;
};

}  // namespace tamis::cpu
