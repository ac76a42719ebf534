// The block decoders of quants/, compiled for this target: the same source, so the same bits. `flatten` inlines every
// call, so that no copy of those inline functions with this target's instructions is left for the linker to pick.

namespace tamis::cpu::TAMIS_TARGET {

// `blocks` are aligned for Block (linear.cpp sees to it).
#define TAMIS_DECODER(name, Block)                                                                            \
  static __attribute__((flatten)) void decode_##name(const uint8_t* __restrict blocks, float* __restrict out, \
                                                     size_t n_blocks) {                                       \
    const Block* const typed = reinterpret_cast<const Block*>(blocks);                                        \
    for (size_t i = 0; i < n_blocks; ++i) decode_block(typed[i], out + i * Block::kLen);                      \
  }

TAMIS_DECODER(q4_0, BlockQ4_0)
TAMIS_DECODER(q4_1, BlockQ4_1)
TAMIS_DECODER(q5_0, BlockQ5_0)
TAMIS_DECODER(q5_1, BlockQ5_1)
TAMIS_DECODER(q8_0, BlockQ8_0)
TAMIS_DECODER(q2_k, BlockQ2K)
TAMIS_DECODER(q3_k, BlockQ3K)
TAMIS_DECODER(q4_k, BlockQ4K)
TAMIS_DECODER(q5_k, BlockQ5K)
TAMIS_DECODER(q6_k, BlockQ6K)
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
