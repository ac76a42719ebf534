// The build lists its emulated targets in TAMIS_EMULATED_TARGETS = X(name) …, like src/cpu/dispatch.cpp's.
#include "tests/cpu/targets.h"

#include "cpu/dispatch.h"

#ifndef TAMIS_EMULATED_TARGETS
#define TAMIS_EMULATED_TARGETS
#endif

namespace tamis {

#define X(name)                    \
  namespace cpu::name {            \
  extern const KernelTable kTable; \
  }
TAMIS_EMULATED_TARGETS
#undef X

namespace test {

std::vector<const cpu::KernelTable*> tested_targets() {
  std::vector<const cpu::KernelTable*> targets = cpu::available_targets();
#define X(name) targets.push_back(&cpu::name::kTable);
  TAMIS_EMULATED_TARGETS
#undef X
  return targets;
}

}  // namespace test
}  // namespace tamis
