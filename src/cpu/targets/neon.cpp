// 64-bit Arm with NEON, which all of them have.
#define TAMIS_TARGET neon
#define TAMIS_VECTOR_FLOATS 4
#define TAMIS_UNROLL _Pragma("GCC unroll 16")
#define TAMIS_INT_VOCABULARY "cpu/simd/int_neon.h"
#include "cpu/kernels/all.inl"
