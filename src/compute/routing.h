// The choice of experts, shared by the backends of the host.
#pragma once

#include "compute/backend.h"

namespace tamis {

// logits [n_tokens, n_expert] in host memory. Scores in double; equal scores choose the lower index; the weights are
// added best first. NaN scores never win against numbers, and the chosen experts are always distinct and in range.
Routing choose_experts(TensorView logits, const RouterParams& params);

}  // namespace tamis
