// What this process may use of the machine's processors: instruction sets and cores. Read from the kernel's text files,
// so that tests can hand in a made-up tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tamis {

// Instruction-set flags as /proc/cpuinfo spells them ("avx2", "avx512f", "asimddp"): the kernel lists only what it has
// enabled.
class CpuFlags {
 public:
  CpuFlags() = default;
  explicit CpuFlags(std::string line);
  bool has(std::string_view flag) const;
  const std::string& line() const { return line_; }  // all flags, single spaces, one at each end

 private:
  std::string line_ = " ";
};

struct UsableCores {
  uint32_t n_logical = 1;       // CPUs in the affinity mask
  uint32_t n_physical = 1;      // distinct cores among them (hyper-threads counted once)
  std::optional<double> quota;  // CPUs' worth of time the cgroup allows; nothing = no limit
  uint32_t n_usable = 1;        // min(n_physical, quota rounded up), at least 1: the default thread count
};

// `root` is prefixed to every path ("" = the real machine); `affinity` replaces the process's own mask (CPU numbers).
// Reads affinity, the topology files, and the CPU quota of this process's cgroup and all its ancestors (v1 and v2).
UsableCores usable_cores(const std::string& root = "", std::optional<std::vector<uint32_t>> affinity = std::nullopt);

CpuFlags cpu_flags(const std::string& root = "");

// Asks the kernel to let this process use AMX tiles: 8 KiB more of state for each thread that does. False
// where it refuses, knows no tiles, or a thread's signal stack is too small for them.
bool request_tile_registers();

std::string cpu_model_name(const std::string& root = "");  // "" when unknown

}  // namespace tamis
