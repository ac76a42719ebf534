// Facts about this machine that `doctor` reports, beside those of base/cpu_features.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "base/topology.h"

namespace tamis::cli {

struct MachineFacts {
  std::string cpu_model;         // "" when unknown
  std::vector<std::string> isa;  // of the instruction sets tamis cares about, those this CPU has
  Topology cores;
  uint64_t ram_bytes = 0, ram_available_bytes = 0;
  uint64_t cgroup_memory_bytes = 0;      // 0 = no limit
  std::string huge_pages;                // "always", "madvise", "never", "" when unknown
  std::vector<std::string> gpu_devices;  // /dev/nvidia0 …
  std::string gpu_driver;                // version text, "" when no driver is loaded
};

// `root` is put before every path, for tests with a made-up tree.
MachineFacts machine_facts(const std::string& root = "");

// Bytes a second that this many threads together read from memory: the best of a few short passes over 64 MiB, which is
// past the last-level cache of most machines.
double measure_read_bandwidth(unsigned n_threads);

}  // namespace tamis::cli
