// x86-64 with AVX2.
#define TAMIS_TARGET avx2
#define TAMIS_VECTOR_FLOATS 8
#define TAMIS_TILE_ROWS 2
#define TAMIS_TILE_TOKENS 2
#include "cpu/kernels/all.inl"
