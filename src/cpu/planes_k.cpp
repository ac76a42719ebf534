// Packers of the K-quants and the ternary types (kernels/planes.h).
#include "cpu/plane_parts.h"
#include "quants/q3_k.h"
#include "quants/tq1_0.h"

namespace tamis::cpu {
namespace {

// Two-bit codes of 256 weights in 64 bytes: Q2_K, Q3_K's low bits, TQ2_0.
void take_two_bits(const uint8_t* q, uint8_t* codes) {
  for (int h = 0; h < 2; ++h)
    for (int k = 0; k < 4; ++k)
      for (int l = 0; l < 32; ++l) codes[128 * h + 32 * k + l] = q[32 * h + l] >> (2 * k) & 3;
}

void take_q2_k(const uint8_t* b, int, Parts& p) {
  std::memcpy(p.scales, b, 16);
  take_two_bits(b + 16, p.codes);
  p.d = load_u16(b + 80);
  p.m = load_u16(b + 82);
}

void take_q3_k(const uint8_t* b, int, Parts& p) {
  BlockQ3K block;
  std::memcpy(&block, b, sizeof(block));
  take_two_bits(block.qs, p.codes);
  for (int g = 0; g < 8; ++g)
    for (int l = 0; l < 32; ++l)
      p.codes[32 * g + l] = static_cast<uint8_t>(p.codes[32 * g + l] | ((block.hmask[l] >> g) & 1) << 2);
  for (int g = 0; g < 16; ++g) p.scales[g] = static_cast<uint8_t>(q3_k_scale(block, g));
  p.d = block.d;
}

// The sixteen 6-bit numbers in the twelve bytes of Q4_K and Q5_K.
void take_scales_of_k(const uint8_t* s, Parts& p) {
  for (int g = 0; g < 4; ++g) {
    p.scales[g] = s[g] & 63;
    p.mins[g] = s[g + 4] & 63;
    p.scales[g + 4] = static_cast<uint8_t>((s[g + 8] & 15) | (s[g] >> 6) << 4);
    p.mins[g + 4] = static_cast<uint8_t>((s[g + 8] >> 4) | (s[g + 4] >> 6) << 4);
  }
}
void take_nibbles_of_k(const uint8_t* q, uint8_t* codes) {
  for (int i = 0; i < 4; ++i)
    for (int l = 0; l < 32; ++l) {
      codes[64 * i + l] = q[32 * i + l] & 15;
      codes[64 * i + 32 + l] = q[32 * i + l] >> 4;
    }
}
void take_q4_k(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  p.m = load_u16(b + 2);
  take_scales_of_k(b + 4, p);
  take_nibbles_of_k(b + 16, p.codes);
}
void take_q5_k(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  p.m = load_u16(b + 2);
  take_scales_of_k(b + 4, p);
  take_nibbles_of_k(b + 48, p.codes);
  for (int g = 0; g < 8; ++g)
    for (int l = 0; l < 32; ++l)
      p.codes[32 * g + l] = static_cast<uint8_t>(p.codes[32 * g + l] | ((b[16 + l] >> g) & 1) << 4);
}
void take_q6_k(const uint8_t* b, int, Parts& p) {
  for (int h = 0; h < 2; ++h) {
    const uint8_t *low = b + 64 * h, *high = b + 128 + 32 * h;
    uint8_t* out = p.codes + 128 * h;
    for (int l = 0; l < 32; ++l) {
      out[l] = static_cast<uint8_t>((low[l] & 15) | (high[l] & 3) << 4);
      out[l + 32] = static_cast<uint8_t>((low[l + 32] & 15) | ((high[l] >> 2) & 3) << 4);
      out[l + 64] = static_cast<uint8_t>((low[l] >> 4) | ((high[l] >> 4) & 3) << 4);
      out[l + 96] = static_cast<uint8_t>((low[l + 32] >> 4) | (high[l] >> 6) << 4);
    }
  }
  std::memcpy(p.scales, b + 192, 16);
  p.d = load_u16(b + 208);
}

void take_tq1_0(const uint8_t* b, int, Parts& p) {
  uint32_t power = 1;
  auto digits = [&](const uint8_t* from, int n, uint8_t* out) {
    for (int m = 0; m < n; ++m) out[m] = static_cast<uint8_t>(ternary_digit(from[m], power) + 1);
  };
  for (int n = 0; n < 5; ++n, power *= 3) {
    digits(b, 32, p.codes + 32 * n);
    digits(b + 32, 16, p.codes + 160 + 16 * n);
    if (n < 4) digits(b + 48, 4, p.codes + 240 + 4 * n);
  }
  p.d = load_u16(b + 52);
}
void take_tq2_0(const uint8_t* b, int, Parts& p) {
  take_two_bits(b, p.codes);
  p.d = load_u16(b + 64);
}

void put_q2_k(const Parts& p, int row, uint8_t* b) {
  put_header(kLayoutQ2K, p, row, b);
  put_half(p.m, row, b + kLayoutQ2K.dmin);
  put_vectors<2>(p.codes, 256, row, b + kLayoutQ2K.units);
}
void put_q3_k(const Parts& p, int row, uint8_t* b) {
  put_header(kLayoutQ3K, p, row, b);
  put_split_units<1, 2, 32>(p.codes, row, b + kLayoutQ3K.units);
}
void put_q4_k(const Parts& p, int row, uint8_t* b) {
  put_header(kLayoutQ4K, p, row, b);
  put_half(p.m, row, b + kLayoutQ4K.dmin);
  put_vectors<4>(p.codes, 256, row, b + kLayoutQ4K.units);
}
void put_q5_k(const Parts& p, int row, uint8_t* b) {
  put_header(kLayoutQ5K, p, row, b);
  put_half(p.m, row, b + kLayoutQ5K.dmin);
  put_split_units<1, 4, 32>(p.codes, row, b + kLayoutQ5K.units);
}
void put_q6_k(const Parts& p, int row, uint8_t* b) {
  put_header(kLayoutQ6K, p, row, b);
  put_split_units<2, 4, 16>(p.codes, row, b + kLayoutQ6K.units);
}
void put_ternary(const Parts& p, int row, uint8_t* b) {
  put_header(kLayoutTernary, p, row, b);
  put_vectors<2>(p.codes, 256, row, b + kLayoutTernary.units);
}

}  // namespace

const PlanePacker kPackQ2K{take_q2_k, put_q2_k}, kPackQ3K{take_q3_k, put_q3_k}, kPackQ4K{take_q4_k, put_q4_k},
    kPackQ5K{take_q5_k, put_q5_k}, kPackQ6K{take_q6_k, put_q6_k}, kPackTQ10{take_tq1_0, put_ternary},
    kPackTQ20{take_tq2_0, put_ternary};

}  // namespace tamis::cpu
