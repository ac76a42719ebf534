// src/cpu/targets/amx.cpp on any x86-64: the same kernels and vocabulary, tiles from amx_model.h and intrinsics beside
// this file.
#define TAMIS_TARGET amx_emulated
#define TAMIS_VECTOR_FLOATS 16
#define TAMIS_UNROLL
#define TAMIS_INLINE static __attribute__((noinline, unused))  // inlined, emulated vectors take minutes to compile
#define TAMIS_INT_VOCABULARY "cpu/simd/int_avx512.h"
#define TAMIS_TILES "tests/cpu/emulated/amx_model.h"
#include "cpu/kernels/all.inl"
