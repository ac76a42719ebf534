// The build lists the targets it compiled in TAMIS_CPU_TARGETS = X(best) … X(baseline); see targets/targets.cmake.
#include "cpu/dispatch.h"

#include <initializer_list>

#include "base/cpu_features.h"

namespace tamis::cpu {

#define X(name)                    \
  namespace name {                 \
  extern const KernelTable kTable; \
  }
TAMIS_CPU_TARGETS
#undef X

namespace {

// The CPU flags a target's code relies on: those its compiler flags allow.
struct TargetRow {
  std::string_view name;
  std::initializer_list<std::string_view> flags;
};
const TargetRow kNeeds[] = {
    {"amx", {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "amx_tile", "amx_int8"}},
    {"avx512", {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}},
    {"avx2", {"avx2", "fma", "f16c"}},
    {"neon_i8mm", {"asimd", "asimddp", "i8mm"}},
    {"neon_dotprod", {"asimd", "asimddp"}},
    {"neon", {"asimd"}},
    {"baseline", {}},
};

bool is_runnable(std::string_view name, const CpuFlags& flags) {
  for (const TargetRow& row : kNeeds) {
    if (row.name != name) continue;
    for (const std::string_view flag : row.flags)
      if (!flags.has(flag)) return false;
    return name != "amx" || request_tile_registers();
  }
  return false;
}

}  // namespace

std::vector<const KernelTable*> available_targets() {
#define X(name) &name::kTable,
  const KernelTable* const built[] = {TAMIS_CPU_TARGETS};
#undef X
  const CpuFlags flags = cpu_flags();
  std::vector<const KernelTable*> out;
  for (const KernelTable* table : built)
    if (is_runnable(table->name, flags)) out.push_back(table);
  return out;
}

Result<const KernelTable*> find_target(std::string_view name) {
  const std::vector<const KernelTable*> targets = available_targets();
  if (name.empty()) return targets.front();
  if (name == "scalar") name = "baseline";
  std::string names;
  for (const KernelTable* table : targets) {
    if (table->name == name) return table;
    names += (names.empty() ? "" : ", ") + std::string(table->name);
  }
  return fail(ErrorCode::invalid_argument, "CPU target: got \"{}\", expected one of {}", escape_for_display(name),
              names);
}

}  // namespace tamis::cpu
