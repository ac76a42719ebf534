// Affinity, topology, cgroup quotas and flags from /proc and /sys. Missing or odd files mean "no limit", never an
// error. Sources: cgroups(7); kernel docs admin-guide/cgroup-v2 (cpu.max), scheduler/sched-bwc (cpu.cfs_quota_us).
#include "base/cpu_features.h"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/file.h"

namespace tamis {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{16} << 20;
constexpr size_t kMaxCgroupDepth = 64;

std::string text_of(const std::string& path) {
  auto text = read_text_file(path, kMaxTextBytes);
  return text ? *std::move(text) : std::string();
}

// The next piece of `text` up to `separator`, removed from it together with the separator.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view piece = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return piece;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

std::optional<int64_t> number(std::string_view text) {
  text = trimmed(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<uint32_t> process_affinity() {
  std::vector<uint32_t> cpus;
  // A mask must be at least as large as the kernel's; grow until it is.
  for (uint32_t n_cpus = 1024; n_cpus <= 65536; n_cpus *= 4) {
    cpu_set_t* const set = CPU_ALLOC(n_cpus);
    if (set == nullptr) break;
    const size_t size_bytes = CPU_ALLOC_SIZE(n_cpus);
    CPU_ZERO_S(size_bytes, set);
    const bool is_read = sched_getaffinity(0, size_bytes, set) == 0;
    for (uint32_t i = 0; is_read && i < n_cpus; ++i)
      if (CPU_ISSET_S(i, size_bytes, set)) cpus.push_back(i);
    CPU_FREE(set);
    if (is_read) break;
  }
  return cpus;
}

uint32_t count_physical(const std::string& root, const std::vector<uint32_t>& cpus) {
  std::set<std::pair<int64_t, int64_t>> cores;
  uint32_t n_unknown = 0;
  for (const uint32_t cpu : cpus) {
    const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const auto package = number(text_of(topology + "physical_package_id"));
    const auto core = number(text_of(topology + "core_id"));
    if (package && core) {
      cores.emplace(*package, *core);
    } else {
      ++n_unknown;
    }
  }
  return static_cast<uint32_t>(cores.size()) + n_unknown;
}

// CPUs' worth of time from quota and period in microseconds; nothing for "no limit" and nonsense.
std::optional<double> quota_of(std::string_view quota_text, std::string_view period_text) {
  const auto quota = number(quota_text);
  const auto period = number(period_text);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> quota_v2(const std::string& directory) {
  const std::string text = text_of(directory + "/cpu.max");
  std::string_view rest = trimmed(text);
  const std::string_view quota = take_until(rest, ' ');
  return quota_of(quota, rest);
}

std::optional<double> quota_v1(const std::string& directory) {
  return quota_of(text_of(directory + "/cpu.cfs_quota_us"), text_of(directory + "/cpu.cfs_period_us"));
}

void take_smaller(std::optional<double>& limit, std::optional<double> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// The smallest quota from the cgroup's own directory up to the mount's root. Inside a container the path may name
// directories that are not mounted; those have no file and do not count.
template <class QuotaOf>
void take_ancestors(std::optional<double>& limit, const std::string& mount, std::string_view group, QuotaOf quota) {
  std::string path(group == "/" ? "" : group);
  for (size_t depth = 0; depth < kMaxCgroupDepth; ++depth) {
    take_smaller(limit, quota(mount + path));
    if (path.empty()) break;
    const size_t slash = path.find_last_of('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

bool lists_cpu_controller(std::string_view controllers) {
  while (!controllers.empty())
    if (take_until(controllers, ',') == "cpu") return true;
  return false;
}

std::optional<double> cgroup_quota(const std::string& root) {
  std::optional<double> limit;
  const std::string groups = text_of(root + "/proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {  // lines "ID:CONTROLLERS:PATH"
    std::string_view line = take_until(rest, '\n');
    take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    if (controllers.empty()) {
      take_ancestors(limit, root + "/sys/fs/cgroup", line, quota_v2);
      take_ancestors(limit, root + "/sys/fs/cgroup/unified", line, quota_v2);
    } else if (lists_cpu_controller(controllers)) {
      take_ancestors(limit, root + "/sys/fs/cgroup/cpu", line, quota_v1);
      if (controllers != "cpu")
        take_ancestors(limit, root + "/sys/fs/cgroup/" + std::string(controllers), line, quota_v1);
    }
  }
  return limit;
}

// The value of the first line "KEY<tabs>: VALUE" of /proc/cpuinfo.
std::string cpuinfo_value(const std::string& root, std::string_view key) {
  const std::string text = text_of(root + "/proc/cpuinfo");
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

UsableCores usable_cores(const std::string& root, std::optional<std::vector<uint32_t>> affinity) {
  const std::vector<uint32_t> cpus = affinity ? *std::move(affinity) : process_affinity();
  UsableCores cores;
  cores.n_logical = std::max<uint32_t>(1, static_cast<uint32_t>(cpus.size()));
  cores.n_physical = std::max<uint32_t>(1, count_physical(root, cpus));
  cores.quota = cgroup_quota(root);
  cores.n_usable = cores.n_physical;
  if (cores.quota) {
    const double n_paid = std::max(1.0, std::ceil(*cores.quota));
    if (n_paid < cores.n_usable) cores.n_usable = static_cast<uint32_t>(n_paid);
  }
  return cores;
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

}  // namespace tamis
