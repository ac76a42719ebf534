// Flags from /proc/cpuinfo and the auxiliary vector. Missing or odd files mean "no flags", never an error.
#include "base/cpu_features.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "base/ascii.h"
#include "base/kernel_text.h"

namespace tamis {
namespace {

using kernel_text::take_until;

// The value of the first line "KEY<tabs>: VALUE" of /proc/cpuinfo.
std::string cpuinfo_value(const std::string& root, std::string_view key) {
  const std::string text = kernel_text::read(root + "/proc/cpuinfo");
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = take_until(rest, '\n');
    if (trimmed(take_until(line, ':')) == key) return std::string(trimmed(line));
  }
  return {};
}

// The kernel's own answer to this process, in /proc/cpuinfo's words; "" on x86-64, where the instruction that tells is
// not the kernel's. An emulator answers for the CPU it plays, while /proc/cpuinfo stays the host's.
std::string flags_of_auxiliary_vector() {
  std::string line;
#if defined(__aarch64__)
  struct Bit {
    const char* name;
    unsigned long type;
    int bit;
  };
  // Linux, arch/arm64/include/uapi/asm/hwcap.h.
  constexpr Bit kBits[] = {{"fp", AT_HWCAP, 0},       {"asimd", AT_HWCAP, 1}, {"asimdhp", AT_HWCAP, 10},
                           {"asimddp", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},  {"sve2", AT_HWCAP2, 1},
                           {"i8mm", AT_HWCAP2, 13},   {"bf16", AT_HWCAP2, 14}};
  for (const Bit& bit : kBits)
    if ((::getauxval(bit.type) >> bit.bit & 1) != 0) line += (line.empty() ? "" : " ") + std::string(bit.name);
#endif
  return line;
}

}  // namespace

CpuFlags::CpuFlags(std::string line) : line_(" " + std::move(line) + " ") {}

bool CpuFlags::has(std::string_view flag) const {
  return line_.find(" " + std::string(flag) + " ") != std::string::npos;
}

CpuFlags cpu_flags(const std::string& root) {
  std::string flags = root.empty() ? flags_of_auxiliary_vector() : "";
  if (flags.empty()) flags = cpuinfo_value(root, "flags");     // x86
  if (flags.empty()) flags = cpuinfo_value(root, "Features");  // Arm
  return CpuFlags(std::move(flags));
}

bool request_tile_registers() {
#if defined(__x86_64__)
  // Linux, Documentation/arch/x86/xstate.rst: ARCH_REQ_XCOMP_PERM for the 8 KiB of tile data; never taken back.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::string cpu_model_name(const std::string& root) { return cpuinfo_value(root, "model name"); }

void cpu_pause() {
#if defined(__x86_64__)
  asm volatile("pause" ::: "memory");
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace tamis
