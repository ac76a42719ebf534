// Stands before the compiler's own immintrin.h for targets that are compiled to run where their instructions are
// missing: AVX-512's intrinsics by SIMDe's portable code. What Debian 12's SIMDe lacks follows Intel's Intrinsics
// Guide.
#pragma once

#define TAMIS_REGISTER "+m"
#define SIMDE_NO_NATIVE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <string.h>

// SIMDe's names are macros of two parameters, which a template argument list's comma would split.
#undef _mm512_and_si512
#undef _mm512_or_si512
#undef _mm512_xor_si512
#undef _mm512_add_epi32
#undef _mm512_sub_epi32
#undef _mm512_mullo_epi32
#define _mm512_and_si512 simde_mm512_and_si512
#define _mm512_or_si512 simde_mm512_or_si512
#define _mm512_xor_si512 simde_mm512_xor_si512
#define _mm512_add_epi32 simde_mm512_add_epi32
#define _mm512_sub_epi32 simde_mm512_sub_epi32
#define _mm512_mullo_epi32 simde_mm512_mullo_epi32

#include "base/float16.h"

// to[i] = from[i] by C++'s conversion, 16 or 32 elements.
template <class From, class To, class In, class Out>
static inline Out emulated_convert(In in) {
  From from[sizeof(In) / sizeof(From)];
  To to[sizeof(Out) / sizeof(To)];
  static_assert(sizeof(from) / sizeof(From) == sizeof(to) / sizeof(To));
  memcpy(from, &in, sizeof(in));
  for (unsigned i = 0; i < sizeof(to) / sizeof(To); ++i) to[i] = static_cast<To>(from[i]);
  Out out;
  memcpy(&out, to, sizeof(out));
  return out;
}
static inline __m512 _mm512_cvtepi32_ps(__m512i v) { return emulated_convert<int32_t, float, __m512i, __m512>(v); }
static inline __m512i _mm512_cvtepu8_epi16(__m256i v) {
  return emulated_convert<uint8_t, int16_t, __m256i, __m512i>(v);
}
static inline __m512i _mm512_cvtepu8_epi32(__m128i v) {
  return emulated_convert<uint8_t, int32_t, __m128i, __m512i>(v);
}

static inline __m512i _mm512_cvtepu16_epi32(__m256i v) {
  return emulated_convert<uint16_t, int32_t, __m256i, __m512i>(v);
}

static inline __m512i _mm512_srai_epi32(__m512i v, unsigned count) {
  int32_t lanes[16];
  memcpy(lanes, &v, sizeof(v));
  for (int32_t& lane : lanes) lane >>= count > 31 ? 31 : count;
  memcpy(&v, lanes, sizeof(v));
  return v;
}

static inline __m512 _mm512_cvtph_ps(__m256i v) {
  uint16_t halves[16];
  float floats[16];
  memcpy(halves, &v, sizeof(v));
  for (int i = 0; i < 16; ++i) floats[i] = tamis::f16_to_f32(halves[i]);
  __m512 out;
  memcpy(&out, floats, sizeof(out));
  return out;
}
