// Reading tests/golden/quants_*: the generator and the hash that make_quants.py uses, in C++.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "quants/registry.h"

namespace tamis::golden {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;

inline uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
inline uint64_t word(uint64_t seed, uint64_t i) { return mix(seed + (i + 1) * kStep); }

inline uint64_t hash_of(std::span<const float> values) {
  uint64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += mix(std::bit_cast<uint32_t>(values[i]) + (i + 1) * kStep);
  return sum;
}
inline uint64_t hash_of(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += mix(std::to_integer<uint64_t>(bytes[i]) + (i + 1) * kStep);
  return sum;
}

// Rows of a tab-separated golden file.
inline std::vector<std::vector<std::string>> rows(const std::string& name) {
  std::ifstream file(std::string(TAMIS_SOURCE_DIR "/tests/golden/") + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<std::vector<std::string>> out;
  for (std::string line; std::getline(file, line);) {
    out.emplace_back();
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, '\t');) out.back().push_back(field);
  }
  return out;
}

// n blocks of random bytes, the bytes at `scale_bytes` ("1,3" or "-") of each without their exponent's top bit.
inline std::vector<std::byte> random_blocks(const DTypeInfo& info, size_t n_blocks, const std::string& scale_bytes) {
  const size_t n_bytes = n_blocks * info.block_bytes;
  std::vector<std::byte> raw((n_bytes + 7) / 8 * 8);
  for (size_t i = 0; i < raw.size() / 8; ++i) {
    const uint64_t value = word(static_cast<uint64_t>(info.dtype) + 1, i);
    std::memcpy(raw.data() + 8 * i, &value, 8);
  }
  raw.resize(n_bytes);
  std::istringstream places(scale_bytes == "-" ? "" : scale_bytes);
  for (std::string place; std::getline(places, place, ',');) {
    const auto at = static_cast<size_t>(std::strtoull(place.c_str(), nullptr, 10));
    for (size_t block = 0; block < n_blocks; ++block) raw[block * info.block_bytes + at] &= std::byte{0xbf};
  }
  return raw;
}

// 4096 blocks of floats, as random_values() of make_quants.py.
inline std::vector<float> random_values(size_t block_len) {
  constexpr size_t kBlocks = 4096;
  std::vector<float> out(kBlocks * block_len);
  for (size_t block = 0; block < kBlocks; ++block) {
    const uint64_t draw = word(2000 + block_len, block);
    const float scale = std::exp2(static_cast<float>((draw >> 8) & 15) - 12.0f);
    float* values = out.data() + block * block_len;
    for (size_t j = 0; j < block_len; ++j) {
      const uint64_t w = word(1000 + block_len, block * block_len + j);
      const float x = static_cast<float>(static_cast<int64_t>(w >> 40) - (1 << 23)) * 0x1p-23f;
      const float coarse = static_cast<float>(static_cast<int64_t>(w >> 59) - 16) * 0x1p-4f;
      const uint64_t first = word(1000 + block_len, block * block_len);
      const float constant = static_cast<float>(static_cast<int64_t>(first >> 40) - (1 << 23)) * 0x1p-23f;
      const float choices[] = {0.0f, constant, std::fabs(x), -std::fabs(x), coarse, x, x, x};
      values[j] = choices[draw & 7] * scale;
    }
  }
  return out;
}

}  // namespace tamis::golden
