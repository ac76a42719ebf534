// `tamis compare DIR_A DIR_B`: where two traces (engine/tensor_trace.h) begin to differ.
#pragma once

#include "cli/verb.h"

namespace tamis::cli {

// Errors: io; shape when a tensor has another shape in B; check_failed when one is past --max-abs or --max-rms, or is
// in one directory only.
Result<int> compare_traces(const Args& args);

}  // namespace tamis::cli
