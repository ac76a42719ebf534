// A small seedable generator whose sequence is fixed for all time and platforms (std's distributions are not).
// Source: Vigna, xoshiro256** 1.0 seeded by splitmix64 (public domain algorithms).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tamis {

class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15u;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  uint64_t below(uint64_t n) {
    return n == 0 ? 0 : static_cast<uint64_t>(uniform() * static_cast<double>(n));
  }                  // [0, n)
  double normal() {  // mean 0, variance 1 (Box–Muller)
    const double u = 1.0 - uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * uniform());
  }

 private:
  uint64_t state_[4];
};

}  // namespace tamis
