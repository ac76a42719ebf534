// Block decoders for this target, the bits of quants/: for most types that source itself, compiled here; for the common
// ones the same operations written on vectors, since compilers do not find them. `flatten` inlines every call, so that
// no copy of quants' inline functions with this target's instructions is left for the linker to pick.

namespace tamis::cpu::TAMIS_TARGET {

TAMIS_INLINE void decode_here(const BlockQ4_0& block, float* out) {
  const float d = f16_to_f32_branchless(block.d);
  const Bytes qs = load_bytes(block.qs);
  store_centred(out, qs & 15, d, 8.0f);
  store_centred(out + 16, qs >> 4, d, 8.0f);
}

TAMIS_INLINE void decode_here(const BlockQ4_1& block, float* out) {
  const float d = f16_to_f32_branchless(block.d), m = f16_to_f32_branchless(block.m);
  const Bytes qs = load_bytes(block.qs);
  store_affine(out, qs & 15, d, m);
  store_affine(out + 16, qs >> 4, d, m);
}

TAMIS_INLINE void decode_here(const BlockQ5_0& block, float* out) {
  const float d = f16_to_f32_branchless(block.d);
  const Bytes qs = load_bytes(block.qs);
  uint16_t high[2];
  memcpy(high, block.qh, 4);
  store_centred(out, (qs & 15) | bits_as_16(high[0]), d, 16.0f);
  store_centred(out + 16, (qs >> 4) | bits_as_16(high[1]), d, 16.0f);
}

TAMIS_INLINE void decode_here(const BlockQ5_1& block, float* out) {
  const float d = f16_to_f32_branchless(block.d), m = f16_to_f32_branchless(block.m);
  const Bytes qs = load_bytes(block.qs);
  uint16_t high[2];
  memcpy(high, block.qh, 4);
  store_affine(out, (qs & 15) | bits_as_16(high[0]), d, m);
  store_affine(out + 16, (qs >> 4) | bits_as_16(high[1]), d, m);
}

TAMIS_INLINE void decode_here(const BlockQ4K& block, float* out) {
  const float d = f16_to_f32_branchless(block.d), dmin = f16_to_f32_branchless(block.dmin);
  for (int pair = 0; pair < 4; ++pair, out += 64) {
    const ScaleMin first = k_scale_min(block.scales, 2 * pair), second = k_scale_min(block.scales, 2 * pair + 1);
    const float first_scale = d * (float)first.scale, first_offset = -(dmin * (float)first.min);
    const float second_scale = d * (float)second.scale, second_offset = -(dmin * (float)second.min);
    for (int half = 0; half < 2; ++half) {
      const Bytes qs = load_bytes(block.qs + 32 * pair + 16 * half);
      store_affine(out + 16 * half, qs & 15, first_scale, first_offset);
      store_affine(out + 32 + 16 * half, qs >> 4, second_scale, second_offset);
    }
  }
}

TAMIS_INLINE void decode_here(const BlockQ5K& block, float* out) {
  const float d = f16_to_f32_branchless(block.d), dmin = f16_to_f32_branchless(block.dmin);
  for (int pair = 0; pair < 4; ++pair, out += 64) {
    const ScaleMin first = k_scale_min(block.scales, 2 * pair), second = k_scale_min(block.scales, 2 * pair + 1);
    const float first_scale = d * (float)first.scale, first_offset = -(dmin * (float)first.min);
    const float second_scale = d * (float)second.scale, second_offset = -(dmin * (float)second.min);
    for (int half = 0; half < 2; ++half) {
      const Bytes qs = load_bytes(block.qs + 32 * pair + 16 * half);
      const Bytes high = load_bytes(block.qh + 16 * half) >> (uint8_t)(2 * pair);
      store_affine(out + 16 * half, (qs & 15) | ((high & 1) << 4), first_scale, first_offset);
      store_affine(out + 32 + 16 * half, (qs >> 4) | ((high & 2) << 3), second_scale, second_offset);
    }
  }
}

TAMIS_INLINE void decode_here(const BlockQ6K& block, float* out) {
  const float d = f16_to_f32_branchless(block.d);
  for (int half = 0; half < 2; ++half, out += 128) {
    for (int part = 0; part < 2; ++part) {  // 16 of each run of 32 weights
      const Bytes high = load_bytes(block.qh + 32 * half + 16 * part);
      const Bytes low0 = load_bytes(block.ql + 64 * half + 16 * part),
                  low1 = load_bytes(block.ql + 64 * half + 32 + 16 * part);
      const int8_t* const scales = block.scales + 8 * half + part;
      store_centred(out + 16 * part, (low0 & 15) | ((high & 3) << 4), d * (float)scales[0], 32.0f);
      store_centred(out + 32 + 16 * part, (low1 & 15) | ((high & 12) << 2), d * (float)scales[2], 32.0f);
      store_centred(out + 64 + 16 * part, (low0 >> 4) | (high & 48), d * (float)scales[4], 32.0f);
      store_centred(out + 96 + 16 * part, (low1 >> 4) | ((high & 192) >> 2), d * (float)scales[6], 32.0f);
    }
  }
}

// `blocks` are aligned for Block: linear.cpp sees to it.
#define TAMIS_DECODER(name, Block, one)                                                                       \
  static __attribute__((flatten)) void decode_##name(const uint8_t* __restrict blocks, float* __restrict out, \
                                                     size_t n_blocks) {                                       \
    const Block* const typed = reinterpret_cast<const Block*>(blocks);                                        \
    for (size_t i = 0; i < n_blocks; ++i) one(typed[i], out + i * Block::kLen);                               \
  }

TAMIS_DECODER(q4_0, BlockQ4_0, decode_here)
TAMIS_DECODER(q4_1, BlockQ4_1, decode_here)
TAMIS_DECODER(q5_0, BlockQ5_0, decode_here)
TAMIS_DECODER(q5_1, BlockQ5_1, decode_here)
TAMIS_DECODER(q8_0, BlockQ8_0, decode_block)
TAMIS_DECODER(q2_k, BlockQ2K, decode_block)
TAMIS_DECODER(q3_k, BlockQ3K, decode_block)
TAMIS_DECODER(q4_k, BlockQ4K, decode_here)
TAMIS_DECODER(q5_k, BlockQ5K, decode_here)
TAMIS_DECODER(q6_k, BlockQ6K, decode_here)
#undef TAMIS_DECODER

static __attribute__((flatten)) void decode_half(const uint8_t* blocks, float* out, size_t n) {
  decode_f16(reinterpret_cast<const std::byte*>(blocks), out, n);
}
static __attribute__((flatten)) void decode_brain(const uint8_t* blocks, float* out, size_t n) {
  decode_bf16(reinterpret_cast<const std::byte*>(blocks), out, n);
}

#define TAMIS_ROW(dtype, function) \
  { static_cast<uint32_t>(DType::dtype), function }
static const DecodeKernel kDecoders[] = {
    TAMIS_ROW(q4_0, decode_q4_0), TAMIS_ROW(q4_1, decode_q4_1), TAMIS_ROW(q5_0, decode_q5_0),
    TAMIS_ROW(q5_1, decode_q5_1), TAMIS_ROW(q8_0, decode_q8_0), TAMIS_ROW(q2_k, decode_q2_k),
    TAMIS_ROW(q3_k, decode_q3_k), TAMIS_ROW(q4_k, decode_q4_k), TAMIS_ROW(q5_k, decode_q5_k),
    TAMIS_ROW(q6_k, decode_q6_k), TAMIS_ROW(f16, decode_half),  TAMIS_ROW(bf16, decode_brain),
};
#undef TAMIS_ROW

}  // namespace tamis::cpu::TAMIS_TARGET
