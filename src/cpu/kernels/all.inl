// Every kernel of one target, and its table. Included once by each target file.
#include "base/dtype.h"
#include "cpu/kernels.h"
#include "quants/plain.h"
#include "quants/q2_k.h"
#include "quants/q3_k.h"
#include "quants/q4_0.h"
#include "quants/q4_1.h"
#include "quants/q4_k.h"
#include "quants/q5_0.h"
#include "quants/q5_1.h"
#include "quants/q5_k.h"
#include "quants/q6_k.h"
#include "quants/q8_0.h"
//
#include "cpu/simd/simd.h"
//
#include TAMIS_INT_VOCABULARY
//
#ifndef TAMIS_PAIRS_GROUPS
#include "cpu/simd/no_scale_pairs.h"
#endif
//
#ifdef TAMIS_TILES
#include TAMIS_TILES
#else
#include "cpu/simd/no_tiles.h"
#endif
//
#include "cpu/kernels/activation.inl"
#include "cpu/kernels/attention.inl"
#include "cpu/kernels/decode.inl"
#include "cpu/kernels/dot.inl"
#include "cpu/kernels/plane_types.inl"
#include "cpu/kernels/rope.inl"
//
#include "cpu/kernels/plane_matrix.inl"
//
#include "cpu/kernels/plane_tiles.inl"
//
#include "cpu/kernels/plane_multiply.inl"
//
#include "cpu/kernels/affine.inl"
#include "cpu/kernels/floats.inl"
#include "cpu/kernels/speed.inl"

namespace tamis::cpu::TAMIS_TARGET {

extern const KernelTable kTable;
#define TAMIS_TEXT_(x) #x
#define TAMIS_TEXT(x) TAMIS_TEXT_(x)
const KernelTable kTable = {
    TAMIS_TEXT(TAMIS_TARGET),
    dot,
    pack_queries,
    attend,
    merge_attention,
    finish_attention,
    rotate_halves,
    rotate_pairs,
    silu,
    gelu_tanh,
    kDecoders,
    sizeof(kDecoders) / sizeof(kDecoders[0]),
    pack_columns,
    {multiply_panel<Q40>,   multiply_panel<Q41>,   multiply_panel<Q50>,    multiply_panel<Q51>,    multiply_panel<Q80>,
     multiply_panel<IQ4NL>, multiply_panel<MXFP4>, multiply_panel<NVFP4>,  multiply_panel<Q10>,    multiply_panel<Q20>,
     multiply_panel<Q2K>,   multiply_panel<Q3K>,   multiply_panel<Q4K>,    multiply_panel<Q5K>,    multiply_panel<Q6K>,
     multiply_panel<IQ4XS>, multiply_panel<IQ3S>,  multiply_panel<IQ3XXS>, multiply_panel<IQ2XXS>, multiply_panel<IQ2S>,
     multiply_panel<IQ1S>,  multiply_panel<IQ1M>,  multiply_panel<Ternary>},
    multiply_affine,
    multiply_floats,
    read_loop,
    int8_loop,
};

}  // namespace tamis::cpu::TAMIS_TARGET
