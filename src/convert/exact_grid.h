// Weights that were quantized before and stored as floats again (int4 checkpoints, models trained for Q4_0, MXFP4) lie
// on a grid: scale · code in every block. This finds scale and codes back, so that encoding loses nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace tamis {

// Whether exact_blocks can find blocks of this type at all.
bool has_exact_grid(DType target);

// Writes blocks of `target` that decode to exactly `values`, rounded as `source` rounds (f16, bf16; every other type:
// not at all). False when there are none; `blocks` is then undefined. values: whole blocks. What is written was decoded
// and compared.
bool exact_blocks(DType target, DType source, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace tamis
