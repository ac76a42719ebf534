// x86-64 with AVX-512 F, BW, DQ and VL.
#define TAMIS_TARGET avx512
#define TAMIS_VECTOR_FLOATS 16
#define TAMIS_UNROLL _Pragma("GCC unroll 16")
#define TAMIS_INT_VOCABULARY "cpu/simd/int_avx512.h"
#include "cpu/kernels/all.inl"
