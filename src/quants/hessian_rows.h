// Rows rounded with error feedback under the full input Hessian: the codes of a type, and the scales of its blocks,
// that keep the layer's outputs, not its weights. The type's own search (encode_fast) proposes scales; what it needs to
// know of a type beyond that is where codes lie (CodeGrid).
//
//   1. tile by tile (256 columns), the search chooses scales for targets that hold the feedback of all columns before;
//      the codes are then rounded one by one, each error fed to those that follow (hessian.h);
//   2. coordinate descent: each code moves to where its own quadratic is least, given all others, as long as that pays;
//   3. rounds of: each tile encoded anew, as in 1, at the optimum that the rest of the row leaves for it; d and dmin
//      refitted to their codes; each group's integers moved by up to two, its codes rounded anew; all kept where the
//      row's error falls; and coordinate descent again.
//
// Sources: LDLQ (Chee et al., QuIP, 2023), GPTQ (Frantar et al., 2022), coordinate descent as in QuantEase (Behdin et
// al., 2023); docs/decisions/0017-error-feedback.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/result.h"
#include "quants/hessian.h"

namespace tamis {

struct FeedbackOptions {
  uint32_t n_sweeps = 6;  // of coordinate descent, at most, each time
  uint32_t n_rounds = 3;  // of step 3
};

// Whether the type's codes can be moved one by one.
bool has_feedback_encoder(DType dtype);

// Encodes rows of hessian.n_cols() values, laid end to end. Bits depend on each row alone, not on what is encoded with
// it. Errors: unsupported without has_feedback_encoder(); shape as encode_rows().
Status encode_rows_with_feedback(DType dtype, std::span<const float> values, const InputHessian& hessian,
                                 const FeedbackOptions& options, std::span<std::byte> blocks);

}  // namespace tamis
