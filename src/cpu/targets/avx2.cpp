// x86-64 with AVX2.
#define TAMIS_TARGET avx2
#define TAMIS_VECTOR_FLOATS 8
#define TAMIS_UNROLL _Pragma("GCC unroll 16")
#define TAMIS_INT_VOCABULARY "cpu/simd/int_avx2.h"
#include "cpu/kernels/all.inl"
