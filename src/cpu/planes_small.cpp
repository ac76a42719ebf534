// Packers of types whose planes are blocks of 32 (kernels/planes.h).
#include "cpu/plane_parts.h"
#include "quants/nvfp4.h"

namespace tamis::cpu {
namespace {

void high_bits_of_32(const uint8_t* p, uint8_t* codes) {
  for (int i = 0; i < 4; ++i) {
    uint64_t eight;
    std::memcpy(&eight, codes + 8 * i, 8);
    store_u64(codes + 8 * i, eight | spread_bits(p[i]) << 4);
  }
}

void take_q4_0(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  nibbles_of_32(b + 2, p.codes);
}
void take_q4_1(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  p.m = load_u16(b + 2);
  nibbles_of_32(b + 4, p.codes);
}
void take_q5_0(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  nibbles_of_32(b + 6, p.codes);
  high_bits_of_32(b + 2, p.codes);
}
void take_q5_1(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  p.m = load_u16(b + 2);
  nibbles_of_32(b + 8, p.codes);
  high_bits_of_32(b + 4, p.codes);
}
void take_q8_0(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  std::memcpy(p.codes, b + 2, 32);
}
// The scale as the bfloat16 of half the power of two, exact.
void take_mxfp4(const uint8_t* b, int, Parts& p) {
  p.d = static_cast<uint16_t>(std::bit_cast<uint32_t>(e8m0_half(b[0])) >> 16);
  nibbles_of_32(b + 1, p.codes);
}
// Two of the block's four groups. The scale byte's sign counts for nothing, its NaN (0x7f) as 0.
void take_nvfp4(const uint8_t* b, int part, Parts& p) {
  for (int g = 0; g < 2; ++g) {
    const uint8_t scale = b[2 * part + g], *qs = b + 4 + 16 * part + 8 * g;
    p.scales[g] = scale == 0x7f ? 0 : scale & 0x7f;
    for (int j = 0; j < 8; ++j) {
      p.codes[16 * g + j] = qs[j] & 15;
      p.codes[16 * g + 8 + j] = qs[j] >> 4;
    }
  }
}
void take_q1_0(const uint8_t* b, int part, Parts& p) {
  p.d = load_u16(b);
  for (int i = 0; i < 4; ++i) store_u64(p.codes + 8 * i, spread_bits(b[2 + 4 * part + i]));
}
void take_q2_0(const uint8_t* b, int part, Parts& p) {
  p.d = load_u16(b);
  for (int i = 0; i < 32; ++i) p.codes[i] = b[2 + 8 * part + i / 4] >> (i % 4 * 2) & 3;
}

void put_d_nibbles(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_vectors<4>(p.codes, 32, row, b + 32);
}
void put_q4_1(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_half(p.m, row, b + 32);
  put_vectors<4>(p.codes, 32, row, b + 64);
}
void put_q5_0(const Parts& p, int row, uint8_t* b) {
  put_d_nibbles(p, row, b);
  put_vectors<1, 4>(p.codes, 32, row, b + 288);
}
void put_q5_1(const Parts& p, int row, uint8_t* b) {
  put_q4_1(p, row, b);
  put_vectors<1, 4>(p.codes, 32, row, b + 320);
}
void put_q8_0(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_vectors<8>(p.codes, 32, row, b + 32);
}
void put_nvfp4(const Parts& p, int row, uint8_t* b) {
  put_group_bytes(p.scales, 2, row, b);
  put_vectors<4>(p.codes, 32, row, b + 32);
}
void put_q1_0(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_vectors<1>(p.codes, 32, row, b + 32);
}
void put_q2_0(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_vectors<2>(p.codes, 32, row, b + 32);
}

}  // namespace

const PlanePacker kPackQ40{take_q4_0, put_d_nibbles}, kPackQ41{take_q4_1, put_q4_1}, kPackQ50{take_q5_0, put_q5_0},
    kPackQ51{take_q5_1, put_q5_1}, kPackQ80{take_q8_0, put_q8_0}, kPackIQ4NL{take_q4_0, put_d_nibbles},
    kPackMXFP4{take_mxfp4, put_d_nibbles}, kPackNVFP4{take_nvfp4, put_nvfp4}, kPackQ10{take_q1_0, put_q1_0},
    kPackQ20{take_q2_0, put_q2_0};

}  // namespace tamis::cpu
