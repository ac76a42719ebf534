// x86-64 with AMX's int8 tiles for prompts, AVX-512 with VNNI for the rest.
#define TAMIS_TARGET amx
#define TAMIS_VECTOR_FLOATS 16
#define TAMIS_UNROLL _Pragma("GCC unroll 16")
#define TAMIS_INT_VOCABULARY "cpu/simd/int_avx512.h"
#define TAMIS_TILES "cpu/simd/amx.h"
#include "cpu/kernels/all.inl"
