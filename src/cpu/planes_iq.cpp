// Packers of the i-quants of 256: grid points and signs become plain codes of 2, 3 or 4 bits a weight, without loss
// (kernels/plane_types.inl says what a code stands for). That is 1 to 1.9 times the file's size, and instead of a table
// look-up for each point a shift and a mask for 64 weights.
#include "cpu/plane_parts.h"
#include "quants/iq_grids.h"

namespace tamis::cpu {
namespace {

// Magnitudes {8, 25, 43} as 0 … 2, the signs above them.
void put_codes_iq2(uint64_t point, uint32_t signs, uint8_t* codes) {
  store_u64(codes, (point >> 4 & uint64_t{0x0303030303030303}) | spread_bits(static_cast<uint8_t>(signs)) << 2);
}
// Magnitudes {4, 12, … 52, 62} as 0 … 7, the signs above them.
void put_codes_iq3_xxs(uint32_t point, uint32_t signs, uint8_t* codes) {
  const auto spread = static_cast<uint32_t>(spread_bits(static_cast<uint8_t>(signs & 15)));
  store_u32(codes, (point >> 3 & 0x07070707u) | spread << 3);
}
// Magnitude 2m + 1 with its sign is 2c − 15: c = 8 + m, or 7 − m, its complement.
void put_codes_iq3_s(uint32_t point, uint32_t signs, uint8_t* codes) {
  const auto spread = static_cast<uint32_t>(spread_bits(static_cast<uint8_t>(signs & 15)));
  store_u32(codes, ((point >> 1 & 0x07070707u) | 0x08080808u) ^ spread * 15);
}
// Values −1, 0, 1 as 0 … 2.
uint64_t codes_iq1(uint64_t point) {
  return ((point & uint64_t{0x0303030303030303}) + uint64_t{0x0101010101010101}) & uint64_t{0x0303030303030303};
}

void take_iq4_xs(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  const uint16_t high = load_u16(b + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = b[4 + g / 2] >> (g % 2 * 4) & 15;
    p.scales[g] = static_cast<uint8_t>((low | (high >> (2 * g) & 3) << 4) - 32);
    nibbles_of_32(b + 8 + 16 * g, p.codes + 32 * g);
  }
}
void take_iq3_s(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  const uint8_t *qs = b + 2, *qh = b + 66, *signs = b + 74, *scales = b + 106;
  for (int g = 0; g < 8; ++g) p.scales[g] = static_cast<uint8_t>(1 + 2 * (scales[g / 2] >> (g % 2 * 4) & 15));
  for (int k = 0; k < 64; ++k) {
    const uint32_t index = qs[k] | (qh[k / 8] >> (k % 8) & 1u) << 8;
    put_codes_iq3_s(kGridIQ3S[index], signs[k / 2] >> (k % 2 * 4), p.codes + 4 * k);
  }
}
void take_iq3_xxs(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  const uint8_t* qs = b + 2;
  for (int g = 0; g < 8; ++g) {
    const uint32_t packed = load_u32(b + 66 + 4 * g);
    p.scales[g] = static_cast<uint8_t>(1 + 2 * (packed >> 28));
    for (int k = 0; k < 4; ++k) {
      const uint32_t signs = signs_from_seven((packed >> (7 * k)) & 127u);
      put_codes_iq3_xxs(kGridIQ3XXS[qs[8 * g + 2 * k]], signs, p.codes + 32 * g + 8 * k);
      put_codes_iq3_xxs(kGridIQ3XXS[qs[8 * g + 2 * k + 1]], signs >> 4, p.codes + 32 * g + 8 * k + 4);
    }
  }
}
void take_iq2_xxs(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* index = b + 2 + 8 * g;
    const uint32_t packed = load_u32(index + 4);
    p.scales[g] = static_cast<uint8_t>(1 + 2 * (packed >> 28));
    for (int k = 0; k < 4; ++k)
      put_codes_iq2(kGridIQ2XXS[index[k]], signs_from_seven((packed >> (7 * k)) & 127u), p.codes + 32 * g + 8 * k);
  }
}
void take_scales_iq2(const uint8_t* scales, Parts& p) {
  for (int g = 0; g < 16; ++g) p.scales[g] = static_cast<uint8_t>(1 + 2 * (scales[g / 2] >> (g % 2 * 4) & 15));
}
void take_iq2_xs(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  take_scales_iq2(b + 66, p);
  for (int i = 0; i < 32; ++i) {
    const uint32_t packed = load_u16(b + 2 + 2 * i);
    put_codes_iq2(kGridIQ2XS[packed & 511u], signs_from_seven(packed >> 9), p.codes + 8 * i);
  }
}
void take_iq2_s(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  const uint8_t *qs = b + 2, *signs = b + 34, *qh = b + 66;
  take_scales_iq2(b + 74, p);
  for (int i = 0; i < 32; ++i) {
    const uint32_t index = qs[i] | (qh[i / 4] >> (i % 4 * 2) & 3u) << 8;
    put_codes_iq2(kGridIQ2S[index], signs[i], p.codes + 8 * i);
  }
}
void take_iq1_s(const uint8_t* b, int, Parts& p) {
  p.d = load_u16(b);
  for (int g = 0; g < 8; ++g) {
    const uint32_t packed = load_u16(b + 34 + 2 * g);
    const uint32_t scale = 1 + 2 * (packed >> 12 & 7u);
    p.scales[g] = static_cast<uint8_t>(scale);
    p.mins[g] = static_cast<uint8_t>(scale * ((packed & 0x8000u) != 0 ? 9 : 7));
    for (int k = 0; k < 4; ++k) {
      const uint32_t index = b[2 + 4 * g + k] | (packed >> (3 * k) & 7u) << 8;
      store_u64(p.codes + 32 * g + 8 * k, codes_iq1(kGridIQ1[index]));
    }
  }
}
void take_iq1_m(const uint8_t* b, int, Parts& p) {
  const uint8_t *qs = b, *qh = b + 32, *scales = b + 48;
  p.d = 0;
  for (int i = 0; i < 4; ++i) p.d = static_cast<uint16_t>(p.d | (load_u16(scales + 2 * i) >> 12) << (4 * i));
  for (int g = 0; g < 16; ++g)
    p.scales[g] = static_cast<uint8_t>(1 + 2 * (load_u16(scales + g / 4 * 2) >> (g % 4 * 3) & 7));
  for (int i = 0; i < 32; ++i) {
    const uint32_t high = qh[i / 2] >> (i % 2 * 4) & 15u;
    const uint64_t is_lower = (high >> 3) * uint64_t{0x0404040404040404};
    store_u64(p.codes + 8 * i, codes_iq1(kGridIQ1[qs[i] | (high & 7u) << 8]) | is_lower);
  }
}

void put_nibbles(const Parts& p, int row, uint8_t* b) {
  put_header(kLayoutNibbles, p, row, b);
  put_vectors<4>(p.codes, 256, row, b + kLayoutNibbles.units);
}
template <const SuperLayout& kLayout>
void put_three_bits(const Parts& p, int row, uint8_t* b) {
  put_header(kLayout, p, row, b);
  put_split_units<1, 2, 32>(p.codes, row, b + kLayout.units);
}
void put_iq1_s(const Parts& p, int row, uint8_t* b) {
  put_header(kLayoutIQ1S, p, row, b);
  put_vectors<2>(p.codes, 256, row, b + kLayoutIQ1S.units);
}
// Bit i of a unit's first vector: the shift of its weights 8i … 8i + 7.
void put_iq1_m(const Parts& p, int row, uint8_t* b) {
  put_header(kLayoutIQ1M, p, row, b);
  for (int u = 0; u < 4; ++u) {
    uint8_t* unit = b + kLayoutIQ1M.units + u * kLayoutIQ1M.unit_bytes;
    const uint8_t* codes = p.codes + 64 * u;
    uint32_t shifts = 0;
    for (int i = 0; i < 8; ++i) shifts |= (load_u32(codes + 8 * i) >> 2 & 0x01010101u) << i;
    store_u32(unit + 4 * row, shifts);
    put_vectors<2>(codes, 64, row, unit + 64);
  }
}

}  // namespace

const PlanePacker kPackIQ4XS{take_iq4_xs, put_nibbles}, kPackIQ3S{take_iq3_s, put_nibbles},
    kPackIQ3XXS{take_iq3_xxs, put_nibbles}, kPackIQ2XXS{take_iq2_xxs, put_three_bits<kLayoutIQ2XXS>},
    kPackIQ2XS{take_iq2_xs, put_three_bits<kLayoutIQ2S>}, kPackIQ2S{take_iq2_s, put_three_bits<kLayoutIQ2S>},
    kPackIQ1S{take_iq1_s, put_iq1_s}, kPackIQ1M{take_iq1_m, put_iq1_m};

}  // namespace tamis::cpu
