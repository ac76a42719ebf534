// The instruction set every machine of this architecture has (x86-64: SSE2; 64-bit Arm: NEON).
#define TAMIS_TARGET baseline
#define TAMIS_VECTOR_FLOATS 4
#define TAMIS_UNROLL
#define TAMIS_INT_VOCABULARY "cpu/simd/int_baseline.h"
#include "cpu/kernels/all.inl"
