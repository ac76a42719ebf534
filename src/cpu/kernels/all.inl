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
#include "cpu/kernels/activation.inl"
#include "cpu/kernels/attention.inl"
#include "cpu/kernels/decode.inl"
#include "cpu/kernels/multiply.inl"

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
};

}  // namespace tamis::cpu::TAMIS_TARGET
