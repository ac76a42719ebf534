// A group's sums for kTileColumns columns at once on a target with instructions that multiply matrices: columns [c][k]
// times codes, which lie in planes as a tile register's second operand does ([k / 4][16 rows][4]). Between the codes
// unpacked into a panel and the scales, which plane_tiles.inl applies as for every other target.

namespace tamis::cpu::TAMIS_TARGET {

// Elements whose products a tile instruction adds up.
template <class W>
TAMIS_INLINE constexpr int elements_of_tile() {
  if constexpr (requires { W::kGroup; })
    return W::kGroup;
  else
    return W::kHasHalves ? 16 : 32;
}

// Tile 0: sums of 16 columns × 16 rows; 1: columns × k; 2: k / 4 × rows of four.
template <class W>
TAMIS_INLINE void begin_tiles() {
  if constexpr (kHasTileRegisters) {
    constexpr int kElements = elements_of_tile<W>();
    TileShapes shapes;
    shapes.rows[0] = shapes.rows[1] = 16;
    shapes.rows[2] = kElements / 4;
    shapes.row_bytes[0] = shapes.row_bytes[2] = 64;
    shapes.row_bytes[1] = kElements;
    tile_config(shapes);
  }
}
TAMIS_INLINE void end_tiles() {
  if constexpr (kHasTileRegisters) tile_release();
}

// sums [kTileColumns] of 16 int32 += columns · codes over elements_of_tile<W>() elements. kIsFirst: sums are 0 before.
//   columns  int8, column c at columns + c · stride        codes  [k / 4][16][4], as codes_store left them
template <class W, bool kIsFirst, class Sum>
TAMIS_INLINE void add_by_tiles(const int8_t* columns, int stride, const uint8_t* codes, Sum* sums) {
  static_assert(!kHasTiles || sizeof(Sum) == 64, "sixteen int32");
  if constexpr (!kHasTileRegisters) {
    add_by_vectors<elements_of_tile<W>(), kIsFirst>(columns, stride, codes, sums);
    return;
  }
  if constexpr (kIsFirst)
    tile_zero<0>();
  else
    tile_load<0>(sums, 64);
  tile_load<1>(columns, static_cast<size_t>(stride));
  tile_load<2>(codes, 64);
  tile_dot<0, 1, 2, !W::kSigned || kSignedBias != 0>();
  tile_store<0>(sums, 64);
}

}  // namespace tamis::cpu::TAMIS_TARGET
