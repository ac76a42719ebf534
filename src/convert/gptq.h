// GPTQ and AWQ matrices: integer codes packed into 32-bit words, a scale and a zero point for each group of inputs and
// each output, w = scale · (code − zero). Layouts: AutoGPTQ's qweight/qzeros/scales/g_idx and AutoAWQ's GEMM packing.
#pragma once

#include "convert/hf_rows.h"

namespace tamis {

// A module's tensors; null when the checkpoint has none of that name.
struct PackedTensors {
  const SafeTensor* codes = nullptr;   // GPTQ i32 [n_in·bits/32, n_out]; AWQ i32 [n_in, n_out/8]
  const SafeTensor* zeros = nullptr;   // i32 [n_groups, n_out·bits/32]
  const SafeTensor* scales = nullptr;  // float [n_groups, n_out]
  const SafeTensor* groups = nullptr;  // GPTQ's g_idx: i32 [n_in], the group of each input; absent: in order
};

// Whether the codes' width is one that is read: 2, 3, 4 or 8 for GPTQ, 4 for AWQ.
bool check_packed_bits(const HfQuantization& quantization);

// The matrix [n_out, n_in] they hold. Its native type: with every zero point in the middle and groups that are runs of
// 32, Q4_0 (up to 4 bits) or Q8_0 (8 bits), the same numbers; with other zero points and up to 4 bits Q4_1, whose
// minimum −scale·zero is rounded to half precision. Errors: format (shapes, group numbers), not_found, unsupported.
Result<Rows> packed_rows(const SafetensorsSet& set, const HfQuantization& quantization, const PackedTensors& packed);

}  // namespace tamis
