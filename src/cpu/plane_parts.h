// Private to planes*.cpp: a row's block taken apart, and its parts put into planes.
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/kernels/planes.h"

namespace tamis::cpu {

// Codes as the kernels' policies (kernels/plane_types.inl) read them, one a byte, and what the planes keep of the
// block's scales.
struct Parts {
  alignas(8) uint8_t codes[256];
  uint8_t scales[16], mins[16];
  uint16_t d, m;
};

inline uint16_t load_u16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}
inline uint32_t load_u32(const uint8_t* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
inline void store_u32(uint8_t* p, uint32_t v) { std::memcpy(p, &v, 4); }
inline void store_u64(uint8_t* p, uint64_t v) { std::memcpy(p, &v, 8); }

// Bit j of `bits` as byte j, 0 or 1.
inline uint64_t spread_bits(uint8_t bits) {
  const uint64_t spread = (bits * uint64_t{0x0101010101010101}) & uint64_t{0x8040201008040201};
  return ((spread + uint64_t{0x7f7f7f7f7f7f7f7f}) >> 7) & uint64_t{0x0101010101010101};
}

inline void nibbles_of_32(const uint8_t* q, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = q[j] & 15;
    codes[j + 16] = q[j] >> 4;
  }
}

// Bits kFirst … kFirst + kBits − 1 of the codes of 8 / kBits quads, as one vector's four bytes of a row.
template <int kBits, int kFirst = 0>
void put_vector(const uint8_t* codes, int row, uint8_t* vector) {
  constexpr uint32_t kMask = ((1u << kBits) - 1) * 0x01010101u;
  uint32_t v = 0;
  for (int q = 0; q < 8 / kBits; ++q) v |= (load_u32(codes + 4 * q) >> kFirst & kMask) << (kBits * q);
  store_u32(vector + 4 * row, v);
}
template <int kBits, int kFirst = 0>
void put_vectors(const uint8_t* codes, int n_codes, int row, uint8_t* vectors) {
  for (int i = 0; i < n_codes * kBits / 32; ++i)
    put_vector<kBits, kFirst>(codes + i * 32 / kBits, row, vectors + 64 * i);
}
// Units of kCodes codes, one after another: a vector of the bits from kLow on, then vectors of the kLow bits below.
template <int kHigh, int kLow, int kCodes>
void put_split_units(const uint8_t* codes, int row, uint8_t* units) {
  constexpr int kUnitBytes = 64 + kCodes * kLow / 32 * 64;
  for (int i = 0; i < 256 / kCodes; ++i, codes += kCodes, units += kUnitBytes) {
    put_vector<kHigh, kLow>(codes, row, units);
    put_vectors<kLow>(codes, kCodes, row, units + 64);
  }
}
inline void put_half(uint16_t value, int row, uint8_t* p) { std::memcpy(p + 2 * row, &value, 2); }
// Two neighbouring groups a row.
inline void put_group_bytes(const uint8_t* values, int n_groups, int row, uint8_t* p) {
  for (int g = 0; g < n_groups; ++g) p[g / 2 * 32 + 2 * row + g % 2] = values[g];
}

// Header of a block of 256: as many scales and mins as the layout has room for.
inline void put_header(const SuperLayout& layout, const Parts& p, int row, uint8_t* block) {
  put_group_bytes(p.scales, layout.mins / 16, row, block);
  put_group_bytes(p.mins, (layout.d - layout.mins) / 16, row, block + layout.mins);
  put_half(p.d, row, block + layout.d);
}

// How a type comes apart and together. `take` reads part `part` of a file block: planes of 32 elements may come from
// blocks of 64 or 128.
struct PlanePacker {
  void (*take)(const uint8_t* block, int part, Parts& parts);
  void (*put)(const Parts& parts, int row, uint8_t* block);
};

extern const PlanePacker kPackQ40, kPackQ41, kPackQ50, kPackQ51, kPackQ80, kPackIQ4NL, kPackMXFP4, kPackNVFP4, kPackQ10,
    kPackQ20;                                                                                     // planes_small.cpp
extern const PlanePacker kPackQ2K, kPackQ3K, kPackQ4K, kPackQ5K, kPackQ6K, kPackTQ10, kPackTQ20;  // planes_k.cpp
extern const PlanePacker kPackIQ4XS, kPackIQ3S, kPackIQ3XXS, kPackIQ2XXS, kPackIQ2XS, kPackIQ2S, kPackIQ1S,
    kPackIQ1M;  // planes_iq.cpp

}  // namespace tamis::cpu
