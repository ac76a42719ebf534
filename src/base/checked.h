// Checked arithmetic on sizes that come from files. Plain operators on file-derived numbers are a review failure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

namespace tamis {

// a * b, or nothing when it does not fit 64 bits.
constexpr std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// a + b, or nothing when it does not fit 64 bits.
constexpr std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// a rounded up to a multiple of `alignment`, or nothing when it does not fit. Requires: alignment > 0.
constexpr std::optional<uint64_t> checked_pad(uint64_t a, uint64_t alignment) {
  const uint64_t rest = a % alignment;
  return rest == 0 ? std::optional<uint64_t>(a) : checked_add(a, alignment - rest);
}

// The value as type To, or nothing when To cannot hold it.
template <class To, class From>
constexpr std::optional<To> checked_cast(From value) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  const To out = static_cast<To>(value);
  if (static_cast<From>(out) != value || ((out < To{}) != (value < From{}))) return std::nullopt;
  return out;
}

}  // namespace tamis
