// src/cpu/targets/avx512.cpp on any x86-64: the same kernels and vocabulary, its intrinsics from the immintrin.h beside
// this file.
#define TAMIS_TARGET avx512_emulated
#define TAMIS_VECTOR_FLOATS 16
#define TAMIS_UNROLL
#define TAMIS_INLINE static __attribute__((noinline, unused))  // inlined, emulated vectors take minutes to compile
#define TAMIS_INT_VOCABULARY "cpu/simd/int_avx512.h"
#include "cpu/kernels/all.inl"
