// The largest weight of a block is scale · code for one of few codes: each guess gives a scale, and a scale gives all
// codes, which hold or do not. Sources of 16 bits round scale · code, so the scales near the guess are tried too.
#include "convert/exact_grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "quants/iq4_nl.h"
#include "quants/mxfp4.h"
#include "quants/nvfp4.h"
#include "quants/q1_0.h"
#include "quants/q2_0.h"
#include "quants/q4_0.h"
#include "quants/q4_1.h"
#include "quants/q5_0.h"
#include "quants/q5_1.h"
#include "quants/q8_0.h"
#include "quants/registry.h"
#include "quants/tq1_0.h"
#include "quants/tq2_0.h"

namespace tamis {
namespace {

constexpr uint32_t kMaxBlock = 256;
using Codes = std::array<uint8_t, kMaxBlock>;

float round_as(DType source, float value) {
  if (source == DType::f16) return f16_to_f32(f32_to_f16(value));
  if (source == DType::bf16) return bf16_to_f32(f32_to_bf16(value));
  return value;
}

// Scales of f16 next to the guess that a rounded product may come from: bf16 has 3 bits less than f16, half a unit of
// it is 4 steps of f16, and dividing by the code adds at most one more.
int n_near_scales(DType source) { return source == DType::bf16 ? 5 : source == DType::f16 ? 2 : 0; }

// The levels a code can stand for, by code; ascending where the type's codes are whole numbers.
using Levels = std::span<const float>;

template <int lo, int hi>
constexpr auto whole_levels() {
  std::array<float, hi - lo + 1> out{};
  for (int q = lo; q <= hi; ++q) out[static_cast<size_t>(q - lo)] = static_cast<float>(q);
  return out;
}

// The code of the level nearest to x / d; levels ascend.
uint8_t nearest(Levels levels, float ratio) {
  const auto above = std::lower_bound(levels.begin(), levels.end(), ratio);
  if (above == levels.begin()) return 0;
  if (above == levels.end()) return static_cast<uint8_t>(levels.size() - 1);
  const bool is_below = ratio - *(above - 1) < *above - ratio;
  return static_cast<uint8_t>(above - levels.begin() - (is_below ? 1 : 0));
}

struct Scaled {
  Levels levels;
  DType source;

  // All codes for scale d (and offset m), or false at the first value they do not give.
  bool codes_of(std::span<const float> x, float d, float m, Codes& codes) const {
    for (size_t i = 0; i < x.size(); ++i) {
      codes[i] = nearest(levels, d == 0 ? 0.0f : (x[i] - m) / d);
      if (!(round_as(source, d * levels[codes[i]] + m) == x[i])) return false;
    }
    return true;
  }
};

float largest(std::span<const float> x) {
  return *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

// Calls `accept(f16 scale)` for every scale that `value` = scale · level may come from, until it says yes.
template <class Accept>
bool any_scale(float value, Levels levels, DType source, Accept&& accept) {
  if (value == 0) return accept(uint16_t{0});
  for (size_t i = levels.size(); i-- > 0;) {
    if (levels[i] == 0) continue;
    const uint16_t guess = f32_to_f16(value / levels[i]);
    const int magnitude = guess & 0x7fff;
    for (int step = 0; step <= n_near_scales(source); ++step)
      for (const int sign : {1, -1}) {
        const int near = magnitude + sign * step;
        if ((step == 0 && sign < 0) || near <= 0 || near >= 0x7c00) continue;
        if (accept(static_cast<uint16_t>((guess & 0x8000) | near))) return true;
      }
  }
  return false;
}

// ---- one function a type: codes and scale into its bits. Codes count from the lowest level.

template <class Block>
void pack_halves(const Codes& codes, Block& block) {
  for (size_t j = 0; j < sizeof block.qs; ++j)
    block.qs[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + sizeof block.qs] & 15) << 4);
}

void pack_high_bits(const Codes& codes, uint8_t (&high)[4]) {
  for (size_t j = 0; j < 32; ++j)
    if (codes[j] >= 16) high[j / 8] = static_cast<uint8_t>(high[j / 8] | 1u << j % 8);
}

void pack(const Codes& codes, BlockQ4_0& block) { pack_halves(codes, block); }
void pack(const Codes& codes, BlockQ4_1& block) { pack_halves(codes, block); }
void pack(const Codes& codes, BlockIQ4NL& block) { pack_halves(codes, block); }
void pack(const Codes& codes, BlockQ5_0& block) {
  pack_halves(codes, block);
  pack_high_bits(codes, block.qh);
}
void pack(const Codes& codes, BlockQ5_1& block) {
  pack_halves(codes, block);
  pack_high_bits(codes, block.qh);
}
void pack(const Codes& codes, BlockQ8_0& block) {
  for (size_t j = 0; j < 32; ++j) block.qs[j] = static_cast<int8_t>(codes[j] - 127);
}
void pack(const Codes& codes, BlockQ2_0& block) {
  for (size_t j = 0; j < BlockQ2_0::kLen; ++j)
    block.qs[j / 4] = static_cast<uint8_t>(block.qs[j / 4] | codes[j] << 2 * (j % 4));
}
void pack(const Codes& codes, BlockQ1_0& block) {
  for (size_t j = 0; j < BlockQ1_0::kLen; ++j)
    block.qs[j / 8] = static_cast<uint8_t>(block.qs[j / 8] | codes[j] << j % 8);
}
void pack(const Codes& codes, BlockTQ2_0& block) {
  for (size_t j = 0; j < BlockTQ2_0::kLen; ++j) {
    uint8_t& byte = block.qs[32 * (j / 128) + j % 32];
    byte = static_cast<uint8_t>(byte | codes[j] << 2 * (j % 128 / 32));
  }
}

// E2M1 codes by ascending value: −6 … −0.5, 0, 0.5 … 6, in doubled units.
struct Fp4Order {
  std::array<float, 15> levels{};
  std::array<uint8_t, 15> codes{};
};
Fp4Order fp4_order() {
  Fp4Order out;
  for (uint8_t code = 0; code < 16; ++code) {
    if (code == 8) continue;  // −0
    const size_t place = code < 8 ? 7u + code : 15u - code;
    out.levels[place] = static_cast<float>(e2m1_doubled(code));
    out.codes[place] = code;
  }
  return out;
}

// ---- one function a kind of scale

template <class Block, int lo, int hi>
bool symmetric(DType source, std::span<const float> x, Block& block) {
  static constexpr auto kLevels = whole_levels<lo, hi>();
  const Scaled scaled{kLevels, source};
  Codes codes;
  return any_scale(largest(x), kLevels, source, [&](uint16_t d) {
    if (!scaled.codes_of(x, f16_to_f32(d), 0, codes)) return false;
    block = Block{};
    block.d = d;
    pack(codes, block);
    return true;
  });
}

bool signs(DType source, std::span<const float> x, BlockQ1_0& block) {
  static constexpr std::array<float, 2> kLevels = {-1, 1};
  const Scaled scaled{kLevels, source};
  Codes codes;
  block = BlockQ1_0{};
  block.d = f32_to_f16(std::fabs(x[0]));
  if (!scaled.codes_of(x, f16_to_f32(block.d), 0, codes)) return false;
  pack(codes, block);
  return true;
}

bool uneven(DType source, std::span<const float> x, BlockIQ4NL& block) {
  std::array<float, 16> levels{};
  for (uint8_t code = 0; code < 16; ++code) levels[code] = static_cast<float>(iq4_value(code));
  const Scaled scaled{levels, source};
  Codes codes;
  return any_scale(largest(x), levels, source, [&](uint16_t d) {
    if (!scaled.codes_of(x, f16_to_f32(d), 0, codes)) return false;
    block = BlockIQ4NL{};
    block.d = d;
    pack(codes, block);
    return true;
  });
}

// x = d · q + m: m is the least value, d what the greatest lies above it.
template <class Block, int hi>
bool with_offset(DType source, std::span<const float> x, Block& block) {
  static constexpr auto kLevels = whole_levels<0, hi>();
  const Scaled scaled{kLevels, source};
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const uint16_t m = f32_to_f16(*low);
  if (!(round_as(source, f16_to_f32(m)) == *low)) return false;
  Codes codes;
  return any_scale(*high - *low, kLevels, source, [&](uint16_t d) {
    if (!scaled.codes_of(x, f16_to_f32(d), f16_to_f32(m), codes)) return false;
    block = Block{};
    block.d = d;
    block.m = m;
    pack(codes, block);
    return true;
  });
}

// Scales that are one byte each: all of them are tried whose levels can reach the largest value.
template <class Decode>
bool byte_scale(DType source, std::span<const float> x, Decode&& scale_of, uint8_t& scale, uint8_t* packed) {
  static const Fp4Order kOrder = fp4_order();
  const Scaled scaled{kOrder.levels, source};
  const float amax = std::fabs(largest(x));
  Codes codes;
  for (int byte = 0; byte < 256; ++byte) {
    const float d = scale_of(static_cast<uint8_t>(byte));
    if (!std::isfinite(d) || d < 0 || d * 13 < amax || (amax > 0 && d > 1.01f * amax)) continue;
    if (!scaled.codes_of(x, d, 0, codes)) continue;
    scale = static_cast<uint8_t>(byte);
    const size_t half = x.size() / 2;
    for (size_t j = 0; j < half; ++j)
      packed[j] = static_cast<uint8_t>(kOrder.codes[codes[j]] | kOrder.codes[codes[j + half]] << 4);
    return true;
  }
  return false;
}

bool mxfp4(DType source, std::span<const float> x, BlockMXFP4& block) {
  block = BlockMXFP4{};
  return byte_scale(
      source, x, [](uint8_t byte) { return e8m0_half(byte); }, block.e, block.qs);
}

bool nvfp4(DType source, std::span<const float> x, BlockNVFP4& block) {
  block = BlockNVFP4{};
  for (size_t group = 0; group < 4; ++group)
    if (!byte_scale(
            source, x.subspan(16 * group, 16), [](uint8_t byte) { return ue4m3_half(byte); }, block.d[group],
            block.qs + 8 * group))
      return false;
  return true;
}

// The textbook encoder takes the largest magnitude for d: exact where the weights are −d, 0 and d.
bool ternary(DType, std::span<const float> x, BlockTQ1_0& block) {
  encode_block(x.data(), block);
  return true;
}

template <class Block, auto find>
bool find_block(DType source, std::span<const float> x, std::byte* out) {
  Block block;
  if (!find(source, x, block)) return false;
  std::memcpy(out, &block, sizeof block);
  return true;
}

struct Row {
  DType target;
  bool (*find)(DType source, std::span<const float> x, std::byte* out);
};
constexpr Row kRows[] = {
    {DType::q4_0, find_block<BlockQ4_0, symmetric<BlockQ4_0, -8, 7>>},
    {DType::q5_0, find_block<BlockQ5_0, symmetric<BlockQ5_0, -16, 15>>},
    {DType::q8_0, find_block<BlockQ8_0, symmetric<BlockQ8_0, -127, 127>>},
    {DType::q4_1, find_block<BlockQ4_1, with_offset<BlockQ4_1, 15>>},
    {DType::q5_1, find_block<BlockQ5_1, with_offset<BlockQ5_1, 31>>},
    {DType::iq4_nl, find_block<BlockIQ4NL, uneven>},
    {DType::q2_0, find_block<BlockQ2_0, symmetric<BlockQ2_0, -1, 2>>},
    {DType::q1_0, find_block<BlockQ1_0, signs>},
    {DType::tq2_0, find_block<BlockTQ2_0, symmetric<BlockTQ2_0, -1, 1>>},
    {DType::tq1_0, find_block<BlockTQ1_0, ternary>},
    {DType::mxfp4, find_block<BlockMXFP4, mxfp4>},
    {DType::nvfp4, find_block<BlockNVFP4, nvfp4>},
};

const Row* find_row(DType target) {
  for (const Row& row : kRows)
    if (row.target == target) return &row;
  return nullptr;
}

bool decodes_to(DType target, DType source, std::span<const float> x, const std::byte* block) {
  std::array<float, kMaxBlock> decoded;
  quant_type(target).decode(block, decoded.data(), 1);
  for (size_t i = 0; i < x.size(); ++i)
    if (!std::isfinite(x[i]) || !(round_as(source, decoded[i]) == x[i])) return false;
  return true;
}

}  // namespace

bool has_exact_grid(DType target) { return find_row(target) != nullptr; }

bool exact_blocks(DType target, DType source, std::span<const float> values, std::span<std::byte> blocks) {
  const Row* row = find_row(target);
  const DTypeInfo& info = dtype_info(target);
  if (row == nullptr || values.size() % info.block_len != 0) return false;
  for (size_t i = 0; i < values.size() / info.block_len; ++i) {
    const auto x = values.subspan(i * info.block_len, info.block_len);
    std::byte* out = blocks.data() + i * info.block_bytes;
    if (!row->find(source, x, out) || !decodes_to(target, source, x, out)) return false;
  }
  return true;
}

}  // namespace tamis
