// The tile functions of src/cpu/simd/amx.h as a scalar model of the instructions' pseudo-code, with their faults: what
// the processor would answer with #GP or #UD is counted in tile_counts().
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: LDTILECFG, TILEZERO, TILELOADD,
// TILESTORED, TDPBSSD, TDPBSUD, TILERELEASE; palette 1: 8 tiles, 16 rows, 64 bytes a row.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu/simd/tile_shapes.h"
#include "tests/cpu/emulated/tile_counts.h"

namespace tamis::cpu::TAMIS_TARGET {

constexpr bool kHasTiles = true, kHasTileRegisters = true;
template <int kElements, bool kIsFirst, class Sum>
static void add_by_vectors(const int8_t*, int, const uint8_t*, Sum*) {}  // never called
constexpr int kMaxTiles = 8, kMaxRows = 16, kMaxRowBytes = 64;

struct ModelTile {
  int rows = 0, row_bytes = 0;
  uint8_t data[kMaxRows][kMaxRowBytes] = {};
};
struct ModelState {
  bool is_configured = false;
  ModelTile tiles[kMaxTiles];
};
static thread_local ModelState t_model;

static bool tile_requires(bool is_met) {
  if (!is_met) ++test::tile_counts().n_faults;
  return is_met;
}

static void tile_release() { t_model = ModelState{}; }

static void tile_config(const TileShapes& shapes) {
  if (!tile_requires(shapes.palette <= 1)) return;
  if (shapes.palette == 0) return tile_release();
  bool is_valid = true;
  for (const uint8_t byte : shapes.reserved) is_valid = is_valid && byte == 0;
  for (int i = 0; i < 16; ++i) {
    if (i < kMaxTiles) {
      is_valid = is_valid && shapes.row_bytes[i] <= kMaxRowBytes && shapes.rows[i] <= kMaxRows;
      is_valid = is_valid && (shapes.row_bytes[i] == 0) == (shapes.rows[i] == 0);
    } else {
      is_valid = is_valid && shapes.row_bytes[i] == 0 && shapes.rows[i] == 0;
    }
  }
  if (!tile_requires(is_valid)) return;
  t_model = ModelState{};
  t_model.is_configured = true;
  for (int i = 0; i < kMaxTiles; ++i) {
    t_model.tiles[i].rows = shapes.rows[i];
    t_model.tiles[i].row_bytes = shapes.row_bytes[i];
  }
}

template <int kTile>
static ModelTile* tile_of_model() {
  static_assert(kTile >= 0 && kTile < kMaxTiles);
  ModelTile& tile = t_model.tiles[kTile];
  return tile_requires(t_model.is_configured && tile.rows != 0) ? &tile : nullptr;
}

template <int kTile>
static void tile_zero() {
  if (ModelTile* const tile = tile_of_model<kTile>()) memset(tile->data, 0, sizeof(tile->data));
}
template <int kTile>
static void tile_load(const void* from, size_t stride) {
  ModelTile* const tile = tile_of_model<kTile>();
  if (tile == nullptr) return;
  memset(tile->data, 0, sizeof(tile->data));
  for (int r = 0; r < tile->rows; ++r)
    memcpy(tile->data[r], static_cast<const uint8_t*>(from) + static_cast<size_t>(r) * stride,
           static_cast<size_t>(tile->row_bytes));
}
template <int kTile>
static void tile_store(void* to, size_t stride) {
  const ModelTile* const tile = tile_of_model<kTile>();
  if (tile == nullptr) return;
  for (int r = 0; r < tile->rows; ++r)
    memcpy(static_cast<uint8_t*>(to) + static_cast<size_t>(r) * stride, tile->data[r],
           static_cast<size_t>(tile->row_bytes));
}

template <int kC, int kA, int kB, bool kIsUnsigned>
static void tile_dot() {
  static_assert(kC != kA && kC != kB && kA != kB, "#UD: the three tiles differ");
  ModelTile *const c = tile_of_model<kC>(), *const a = tile_of_model<kA>(), *const b = tile_of_model<kB>();
  if (c == nullptr || a == nullptr || b == nullptr) return;
  if (!tile_requires(c->row_bytes % 4 == 0 && a->row_bytes % 4 == 0 && b->row_bytes % 4 == 0 && c->rows == a->rows &&
                     c->row_bytes == b->row_bytes && a->row_bytes / 4 == b->rows))
    return;
  ++test::tile_counts().n_products;
  for (int m = 0; m < c->rows; ++m)
    for (int k = 0; k < a->row_bytes / 4; ++k)
      for (int n = 0; n < c->row_bytes / 4; ++n) {
        uint32_t sum;  // wraps
        memcpy(&sum, c->data[m] + 4 * n, 4);
        for (int i = 0; i < 4; ++i) {
          const uint8_t byte = b->data[k][4 * n + i];
          const int32_t weight = kIsUnsigned ? byte : static_cast<int8_t>(byte);
          sum += static_cast<uint32_t>(static_cast<int8_t>(a->data[m][4 * k + i]) * weight);
        }
        memcpy(c->data[m] + 4 * n, &sum, 4);
      }
  // The destination's rows past `rows` and bytes past `row_bytes` are zeroed, as they are here already.
}

}  // namespace tamis::cpu::TAMIS_TARGET
