// Which CPU target runs: the best this machine has, or the one TAMIS_CPU_TARGET names.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "cpu/kernels.h"

namespace tamis::cpu {

// Compiled in and runnable here, best first. Never empty.
std::vector<const KernelTable*> available_targets();

// The best available target, or the named one; "" = best, "scalar" = the baseline, whose integer code is plain loops.
// Errors: invalid_argument, listing the available names.
Result<const KernelTable*> find_target(std::string_view name);

}  // namespace tamis::cpu
