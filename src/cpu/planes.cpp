// Repacking a matrix from the file's blocks into planes (kernels/planes.h): exact, type by type, panel by panel.
#include "cpu/planes.h"

#include <algorithm>
#include <cstring>

namespace tamis::cpu {
namespace {

// One row's block taken apart: codes as bytes (unsigned, or signed two's complement), and what the planes keep of its
// scales.
struct Parts {
  uint8_t codes[256];
  uint8_t scales[16], mins[16];
  uint16_t d, m;
};

uint16_t load_u16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}

void nibbles_of_32(const uint8_t* q, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = q[j] & 15;
    codes[j + 16] = q[j] >> 4;
  }
}

void high_bits_of_32(const uint8_t* p, uint8_t* codes) {
  for (int i = 0; i < 4; ++i) {
    // Bit j of a byte to byte j of a word, as 0 or 16.
    uint64_t spread = (p[i] * uint64_t{0x0101010101010101}) & uint64_t{0x8040201008040201};
    spread = ((spread + uint64_t{0x7f7f7f7f7f7f7f7f}) >> 3) & uint64_t{0x1010101010101010};
    uint64_t eight;
    std::memcpy(&eight, codes + 8 * i, 8);
    eight |= spread;
    std::memcpy(codes + 8 * i, &eight, 8);
  }
}

void take_q4_0(const uint8_t* b, Parts& p) {
  p.d = load_u16(b);
  nibbles_of_32(b + 2, p.codes);
}
void take_q4_1(const uint8_t* b, Parts& p) {
  p.d = load_u16(b);
  p.m = load_u16(b + 2);
  nibbles_of_32(b + 4, p.codes);
}
void take_q5_0(const uint8_t* b, Parts& p) {
  p.d = load_u16(b);
  nibbles_of_32(b + 6, p.codes);
  high_bits_of_32(b + 2, p.codes);
}
void take_q5_1(const uint8_t* b, Parts& p) {
  p.d = load_u16(b);
  p.m = load_u16(b + 2);
  nibbles_of_32(b + 8, p.codes);
  high_bits_of_32(b + 4, p.codes);
}
void take_q8_0(const uint8_t* b, Parts& p) {
  p.d = load_u16(b);
  std::memcpy(p.codes, b + 2, 32);
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
void take_q4_k(const uint8_t* b, Parts& p) {
  p.d = load_u16(b);
  p.m = load_u16(b + 2);
  take_scales_of_k(b + 4, p);
  take_nibbles_of_k(b + 16, p.codes);
}
void take_q5_k(const uint8_t* b, Parts& p) {
  p.d = load_u16(b);
  p.m = load_u16(b + 2);
  take_scales_of_k(b + 4, p);
  take_nibbles_of_k(b + 48, p.codes);
  for (int g = 0; g < 8; ++g)
    for (int l = 0; l < 32; ++l)
      p.codes[32 * g + l] = static_cast<uint8_t>(p.codes[32 * g + l] | ((b[16 + l] >> g) & 1) << 4);
}
void take_q6_k(const uint8_t* b, Parts& p) {
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

uint32_t load_quad(const uint8_t* codes) {
  uint32_t v;
  std::memcpy(&v, codes, 4);
  return v;
}
void store_quad(uint8_t* p, uint32_t v) { std::memcpy(p, &v, 4); }

// Two quads a vector: low nibbles quad 2i, high nibbles quad 2i+1.
void put_nibbles(const uint8_t* codes, int n_codes, int row, uint8_t* plane) {
  for (int i = 0; i < n_codes / 8; ++i) {
    const uint32_t low = load_quad(codes + 8 * i) & 0x0f0f0f0fu, high = load_quad(codes + 8 * i + 4) & 0x0f0f0f0fu;
    store_quad(plane + 64 * i + 4 * row, low | high << 4);
  }
}
// Bit 4 of eight quads a vector.
void put_bits(const uint8_t* codes, int n_codes, int row, uint8_t* plane) {
  for (int g = 0; g < n_codes / 32; ++g) {
    uint32_t v = 0;
    for (int q = 0; q < 8; ++q) v |= (load_quad(codes + 32 * g + 4 * q) >> 4 & 0x01010101u) << q;
    store_quad(plane + 64 * g + 4 * row, v);
  }
}
// Bits 4 and 5 of four quads a vector.
void put_bit_pairs(const uint8_t* codes, int n_codes, int row, uint8_t* plane) {
  for (int g = 0; g < n_codes / 16; ++g) {
    uint32_t v = 0;
    for (int q = 0; q < 4; ++q) v |= (load_quad(codes + 16 * g + 4 * q) >> 4 & 0x03030303u) << (2 * q);
    store_quad(plane + 64 * g + 4 * row, v);
  }
}
void put_bytes(const uint8_t* codes, int n_codes, int row, uint8_t* plane) {
  for (int q = 0; q < n_codes / 4; ++q) store_quad(plane + 64 * q + 4 * row, load_quad(codes + 4 * q));
}
void put_half(uint16_t value, int row, uint8_t* p) { std::memcpy(p + 2 * row, &value, 2); }
// Two neighbouring groups a row.
void put_group_bytes(const uint8_t* values, int n_groups, int row, uint8_t* p) {
  for (int g = 0; g < n_groups; ++g) p[g / 2 * 32 + 2 * row + g % 2] = values[g];
}

void put_q4_0(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_nibbles(p.codes, 32, row, b + 32);
}
void put_q4_1(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_half(p.m, row, b + 32);
  put_nibbles(p.codes, 32, row, b + 64);
}
void put_q5_0(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_nibbles(p.codes, 32, row, b + 32);
  put_bits(p.codes, 32, row, b + 288);
}
void put_q5_1(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_half(p.m, row, b + 32);
  put_nibbles(p.codes, 32, row, b + 64);
  put_bits(p.codes, 32, row, b + 320);
}
void put_q8_0(const Parts& p, int row, uint8_t* b) {
  put_half(p.d, row, b);
  put_bytes(p.codes, 32, row, b + 32);
}
void put_q4_k(const Parts& p, int row, uint8_t* b) {
  put_nibbles(p.codes, 256, row, b);
  put_group_bytes(p.scales, 8, row, b + 2048);
  put_group_bytes(p.mins, 8, row, b + 2176);
  put_half(p.d, row, b + 2304);
  put_half(p.m, row, b + 2336);
}
void put_q5_k(const Parts& p, int row, uint8_t* b) {
  put_nibbles(p.codes, 256, row, b);
  put_bits(p.codes, 256, row, b + 2048);
  put_group_bytes(p.scales, 8, row, b + 2560);
  put_group_bytes(p.mins, 8, row, b + 2688);
  put_half(p.d, row, b + 2816);
  put_half(p.m, row, b + 2848);
}
void put_q6_k(const Parts& p, int row, uint8_t* b) {
  put_nibbles(p.codes, 256, row, b);
  put_bit_pairs(p.codes, 256, row, b + 2048);
  put_group_bytes(p.scales, 16, row, b + 3072);
  put_half(p.d, row, b + 3328);
}

struct Row {
  PlaneType type;
  void (*take)(const uint8_t* block, Parts& parts);
  void (*put)(const Parts& parts, int row, uint8_t* block);
};

constexpr Row kRows[] = {
    {{DType::q4_0, 32, 18, 288, kPlaneQ40}, take_q4_0, put_q4_0},
    {{DType::q4_1, 32, 20, 320, kPlaneQ41}, take_q4_1, put_q4_1},
    {{DType::q5_0, 32, 22, 352, kPlaneQ50}, take_q5_0, put_q5_0},
    {{DType::q5_1, 32, 24, 384, kPlaneQ51}, take_q5_1, put_q5_1},
    {{DType::q8_0, 32, 34, 544, kPlaneQ80}, take_q8_0, put_q8_0},
    {{DType::q4_k, 256, 144, 2368, kPlaneQ4K}, take_q4_k, put_q4_k},
    {{DType::q5_k, 256, 176, 2880, kPlaneQ5K}, take_q5_k, put_q5_k},
    {{DType::q6_k, 256, 210, 3360, kPlaneQ6K}, take_q6_k, put_q6_k},
};

const Row* find_row(DType dtype) {
  for (const Row& row : kRows)
    if (row.type.dtype == dtype) return &row;
  return nullptr;
}

}  // namespace

const PlaneType* plane_type(DType dtype) {
  const Row* row = find_row(dtype);
  return row == nullptr ? nullptr : &row->type;
}

void pack_panel(const PlaneType& type, const uint8_t* first_row, size_t row_bytes, size_t n_rows, uint8_t* panel) {
  const Row& row = *find_row(type.dtype);
  const size_t n_blocks = row_bytes / type.file_block_bytes;
  std::memset(panel, 0, n_blocks * type.plane_block_bytes);
  Parts parts;
  for (size_t b = 0; b < n_blocks; ++b)
    for (size_t r = 0; r < n_rows; ++r) {
      row.take(first_row + r * row_bytes + b * type.file_block_bytes, parts);
      row.put(parts, static_cast<int>(r), panel + b * type.plane_block_bytes);
    }
}

}  // namespace tamis::cpu
