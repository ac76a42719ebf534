// Which instruction sets this process may use. Read from the kernel's text files, so that tests can hand in a made-up
// tree.
#pragma once

#include <string>
#include <string_view>

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

// `root` is prefixed to every path ("" = the real machine).
CpuFlags cpu_flags(const std::string& root = "");

// Asks the kernel to let this process use AMX tiles: 8 KiB more of state for each thread that does. False
// where it refuses, knows no tiles, or a thread's signal stack is too small for them.
bool request_tile_registers();

std::string cpu_model_name(const std::string& root = "");  // "" when unknown

// Lets the other thread of the core run for a moment (x86 `pause`, Arm `yield`): for loops that poll.
void cpu_pause();

}  // namespace tamis
