// The CPU targets that tests run: those of this machine, and emulated ones (tests/cpu/emulated).
#pragma once

#include <vector>

#include "cpu/kernels.h"

namespace tamis::test {

// available_targets(), then the emulated targets of the build.
std::vector<const cpu::KernelTable*> tested_targets();

}  // namespace tamis::test
