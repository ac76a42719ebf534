// Which processors this process may use and how they lie: cores, hyper-threads, memory nodes, caches, and the CPU time
// its cgroup allows. Read from the kernel's text files, so that tests can hand in a made-up tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tamis {

// Processors of one memory node (NUMA) that this process may use.
struct MemoryNode {
  uint32_t number = 0;         // the kernel's
  std::vector<uint32_t> cpus;  // rising, never empty
  uint32_t n_cores = 1;        // distinct cores among them
};

struct Topology {
  uint32_t n_logical = 1;               // CPUs in the affinity mask
  uint32_t n_physical = 1;              // distinct cores among them (hyper-threads counted once)
  std::optional<double> quota;          // CPUs' worth of time the cgroup allows; nothing = no limit
  uint32_t n_usable = 1;                // min(n_physical, quota rounded up), at least 1: the default thread count
  std::vector<MemoryNode> nodes{{}};    // never empty; CPUs the kernel puts on no node count as the first's
  uint64_t l2_bytes = 0, l3_bytes = 0;  // caches of the first usable CPU; 0 = unknown
};

// `root` is prefixed to every path ("" = the real machine); `affinity` replaces the process's own mask (CPU numbers).
// Missing, odd or hostile files mean "unknown" and "no limit", never an error.
Topology read_topology(const std::string& root = "", std::optional<std::vector<uint32_t>> affinity = std::nullopt);

// CPU numbers of a list as the kernel writes it ("0-3,8,10-11"), rising and distinct; nothing when it is malformed: a
// range that falls, a number above 65535, anything but digits, commas and hyphens.
std::optional<std::vector<uint32_t>> parse_cpu_list(std::string_view text);

// Items [begin, end) of a loop that belong to node `node_idx`: contiguous shares in the nodes' order, in proportion to
// their cores, cut at multiples of `grain`. A matrix's rows are written and read by the same node this way.
// Requires: node_idx < nodes.size(), grain ≥ 1.
struct ItemRange {
  size_t begin = 0, end = 0;
};
ItemRange items_of_node(const std::vector<MemoryNode>& nodes, size_t n_items, size_t grain, size_t node_idx);

// The node whose memory thread `thread_idx` of `n_threads` works from: threads are dealt out as items are.
// Requires: thread_idx < n_threads.
size_t node_of_thread(const std::vector<MemoryNode>& nodes, uint32_t n_threads, uint32_t thread_idx);

}  // namespace tamis
