// Affinity, cores, nodes, caches and cgroup quotas from /proc and /sys. Sources: cgroups(7); kernel docs
// admin-guide/cgroup-v2 (cpu.max), scheduler/sched-bwc (cpu.cfs_quota_us), ABI/stable/sysfs-devices-system-cpu and
// -node.
#include "base/topology.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/ascii.h"
#include "base/kernel_text.h"

namespace tamis {
namespace {

using kernel_text::number;
using kernel_text::take_until;

constexpr size_t kMaxCgroupDepth = 64;
constexpr uint32_t kMaxCpu = 65535;

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

// What tells two CPUs of one core from two cores: package and core number, else the smallest of the core's
// hyper-threads, else the CPU itself.
using CoreKey = std::pair<int64_t, int64_t>;

CoreKey core_of(const std::string& root, uint32_t cpu) {
  const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
  const auto package = number(kernel_text::read(topology + "physical_package_id"));
  const auto core = number(kernel_text::read(topology + "core_id"));
  if (package && core) return {*package, *core};
  constexpr int64_t kNoPackage = INT64_MIN;
  const auto siblings = parse_cpu_list(kernel_text::read(topology + "thread_siblings_list"));
  if (siblings && std::ranges::binary_search(*siblings, cpu)) return {kNoPackage, siblings->front()};
  return {kNoPackage, cpu};
}

uint32_t count_cores(const std::string& root, const std::vector<uint32_t>& cpus) {
  std::set<CoreKey> cores;
  for (const uint32_t cpu : cpus) cores.insert(core_of(root, cpu));
  return std::max<uint32_t>(1, static_cast<uint32_t>(cores.size()));
}

// Usable CPUs by node, in the order of the nodes' numbers. A CPU two nodes claim is the first's.
std::vector<MemoryNode> read_nodes(const std::string& root, std::vector<uint32_t> cpus) {
  std::ranges::sort(cpus);
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  const std::string directory = root + "/sys/devices/system/node/";
  std::vector<MemoryNode> nodes;
  for (const uint32_t node :
       parse_cpu_list(kernel_text::read(directory + "online")).value_or(std::vector<uint32_t>{})) {
    if (cpus.empty()) break;
    const auto listed = parse_cpu_list(kernel_text::read(directory + "node" + std::to_string(node) + "/cpulist"));
    if (!listed) continue;
    MemoryNode here{.number = node, .cpus = {}};
    std::erase_if(cpus, [&](uint32_t cpu) {
      const bool is_here = std::ranges::binary_search(*listed, cpu);
      if (is_here) here.cpus.push_back(cpu);
      return is_here;
    });
    if (!here.cpus.empty()) nodes.push_back(std::move(here));
  }
  if (nodes.empty()) nodes.emplace_back();
  nodes[0].cpus.insert(nodes[0].cpus.end(), cpus.begin(), cpus.end());
  std::ranges::sort(nodes[0].cpus);
  for (MemoryNode& node : nodes) node.n_cores = count_cores(root, node.cpus);
  return nodes;
}

// "1024K" as bytes; 0 for anything else.
uint64_t cache_bytes(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text.back() != 'K') return 0;
  const auto kib = number(text.substr(0, text.size() - 1));
  constexpr int64_t kMaxKib = int64_t{1} << 32;
  return kib && *kib > 0 && *kib <= kMaxKib ? static_cast<uint64_t>(*kib) * 1024 : 0;
}

void read_caches(const std::string& root, uint32_t cpu, Topology& topology) {
  constexpr int kMaxCaches = 16;
  for (int i = 0; i < kMaxCaches; ++i) {
    const std::string cache =
        root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(i) + "/";
    const auto level = number(kernel_text::read(cache + "level"));
    if (level == 2) topology.l2_bytes = cache_bytes(kernel_text::read(cache + "size"));
    if (level == 3) topology.l3_bytes = cache_bytes(kernel_text::read(cache + "size"));
  }
}

// CPUs' worth of time from quota and period in microseconds; nothing for "no limit" and nonsense.
std::optional<double> quota_of(std::string_view quota_text, std::string_view period_text) {
  const auto quota = number(quota_text);
  const auto period = number(period_text);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> quota_v2(const std::string& directory) {
  const std::string text = kernel_text::read(directory + "/cpu.max");
  std::string_view rest = trimmed(text);
  const std::string_view quota = take_until(rest, ' ');
  return quota_of(quota, rest);
}

std::optional<double> quota_v1(const std::string& directory) {
  return quota_of(kernel_text::read(directory + "/cpu.cfs_quota_us"),
                  kernel_text::read(directory + "/cpu.cfs_period_us"));
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
  const std::string groups = kernel_text::read(root + "/proc/self/cgroup");
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

}  // namespace

std::optional<std::vector<uint32_t>> parse_cpu_list(std::string_view text) {
  text = trimmed(text);
  std::set<uint32_t> cpus;
  while (!text.empty()) {
    const bool is_last = text.find(',') == std::string_view::npos;
    std::string_view range = take_until(text, ',');
    if (!is_last && text.empty()) return std::nullopt;
    const bool is_range = range.find('-') != std::string_view::npos;
    const auto first = number(take_until(range, '-'));
    const auto last = is_range ? number(range) : first;
    if (!first || !last || *first < 0 || *last < *first || *last > kMaxCpu) return std::nullopt;
    for (auto cpu = static_cast<uint32_t>(*first); cpu <= *last; ++cpu) cpus.insert(cpus.end(), cpu);
  }
  return std::vector<uint32_t>(cpus.begin(), cpus.end());
}

Topology read_topology(const std::string& root, std::optional<std::vector<uint32_t>> affinity) {
  const std::vector<uint32_t> cpus = affinity ? *std::move(affinity) : process_affinity();
  Topology topology;
  topology.n_logical = std::max<uint32_t>(1, static_cast<uint32_t>(cpus.size()));
  topology.n_physical = count_cores(root, cpus);
  topology.quota = cgroup_quota(root);
  topology.n_usable = topology.n_physical;
  if (topology.quota) {
    const double n_paid = std::max(1.0, std::ceil(*topology.quota));
    if (n_paid < topology.n_usable) topology.n_usable = static_cast<uint32_t>(n_paid);
  }
  topology.nodes = read_nodes(root, cpus);
  if (!cpus.empty()) read_caches(root, cpus.front(), topology);
  return topology;
}

ItemRange items_of_node(const std::vector<MemoryNode>& nodes, size_t n_items, size_t grain, size_t node_idx) {
  uint64_t n_cores = 0, n_before = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i < node_idx) n_before += nodes[i].n_cores;
    n_cores += nodes[i].n_cores;
  }
  const size_t n_grains = n_items / grain + (n_items % grain != 0);
  const auto border = [&](uint64_t n_cores_before) {
    // n_grains · n_cores_before / n_cores without a product that overflows.
    const size_t grains = n_grains / n_cores * n_cores_before + n_grains % n_cores * n_cores_before / n_cores;
    return grains >= n_grains ? n_items : grains * grain;
  };
  return {border(n_before), border(n_before + nodes[node_idx].n_cores)};
}

size_t node_of_thread(const std::vector<MemoryNode>& nodes, uint32_t n_threads, uint32_t thread_idx) {
  size_t node_idx = 0;
  while (node_idx + 1 < nodes.size() && thread_idx >= items_of_node(nodes, n_threads, 1, node_idx).end) ++node_idx;
  return node_idx;
}

}  // namespace tamis
