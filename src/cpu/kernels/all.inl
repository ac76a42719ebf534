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
#include "cpu/kernels/activation.inl"
#include "cpu/kernels/attention.inl"
#include "cpu/kernels/decode.inl"
#include "cpu/kernels/multiply.inl"
#include "cpu/kernels/plane_tiles.inl"
//
#include "cpu/kernels/plane_multiply.inl"
#include "cpu/kernels/speed.inl"

namespace tamis::cpu::TAMIS_TARGET {

extern const KernelTable kTable;
#define TAMIS_TEXT_(x) #x
#define TAMIS_TEXT(x) TAMIS_TEXT_(x)
const KernelTable kTable = {
    TAMIS_TEXT(TAMIS_TARGET),
    multiply,
    softmax_step,
    add_values,
    silu,
    gelu_tanh,
    kDecoders,
    sizeof(kDecoders) / sizeof(kDecoders[0]),
    pack_columns,
    {multiply_panel<Q40>, multiply_panel<Q41>, multiply_panel<Q50>, multiply_panel<Q51>, multiply_panel<Q80>,
     multiply_panel<Q4K>, multiply_panel<Q5K>, multiply_panel<Q6K>},
    read_loop,
    int8_loop,
};

}  // namespace tamis::cpu::TAMIS_TARGET
