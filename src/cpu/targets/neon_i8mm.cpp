// 64-bit Arm with the int8 matrix extension (optional from Armv8.2 on, in all of Armv8.6).
#define TAMIS_TARGET neon_i8mm
#define TAMIS_VECTOR_FLOATS 4
#define TAMIS_UNROLL _Pragma("GCC unroll 16")
#define TAMIS_INT_VOCABULARY "cpu/simd/int_neon.h"
#define TAMIS_TILES "cpu/simd/neon_i8mm.h"
#include "cpu/kernels/all.inl"
