// 64-bit Arm with the dot-product extension (Armv8.2 and later).
#define TAMIS_TARGET neon_dotprod
#define TAMIS_VECTOR_FLOATS 4
#define TAMIS_UNROLL _Pragma("GCC unroll 16")
#define TAMIS_INT_VOCABULARY "cpu/simd/int_neon.h"
#include "cpu/kernels/all.inl"
