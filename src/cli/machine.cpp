// Facts from /proc, /sys and /dev; what cannot be read counts as absent.
#include "cli/machine.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <thread>

#include "base/file.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxProcBytes = uint64_t{4} << 20;

std::string read_line(const std::string& path) {
  const auto text = read_text_file(path, kMaxProcBytes);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

uint64_t leading_uint(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Bytes from the line "NAME:   N kB" of /proc/meminfo; 0 when absent.
uint64_t meminfo_bytes(const std::string& text, const std::string& name) {
  const size_t at = text.find(name + ":");
  if (at == std::string::npos) return 0;
  const size_t digits = text.find_first_of("0123456789", at);
  return digits == std::string::npos ? 0 : leading_uint(std::string_view(text).substr(digits)) * 1024;
}

// This process's own limit, as the container sees it; 0 for "max", absent, or no less than the memory there is.
uint64_t cgroup_memory_limit(const std::string& root, uint64_t ram_bytes) {
  uint64_t best = 0;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const uint64_t value = leading_uint(read_line(root + path));
    if (value > 0 && value < ram_bytes && (best == 0 || value < best)) best = value;
  }
  return best;
}

// Flags as /proc/cpuinfo spells them, and how people call them.
std::vector<std::string> known_isa(const CpuFlags& flags) {
  static constexpr std::pair<std::string_view, std::string_view> kSets[] = {
      {"avx2", "AVX2"},
      {"fma", "FMA"},
      {"f16c", "F16C"},
      {"avx_vnni", "AVX-VNNI"},
      {"avx512f", "AVX-512F"},
      {"avx512bw", "AVX-512BW"},
      {"avx512_vnni", "AVX-512-VNNI"},
      {"avx512_bf16", "AVX-512-BF16"},
      {"amx_int8", "AMX-INT8"},
      {"amx_bf16", "AMX-BF16"},
      {"asimd", "NEON"},
      {"asimddp", "dotprod"},
      {"i8mm", "i8mm"},
      {"sve", "SVE"},
  };
  std::vector<std::string> out;
  for (const auto& [flag, name] : kSets)
    if (flags.has(flag)) out.emplace_back(name);
  return out;
}

}  // namespace

MachineFacts machine_facts(const std::string& root) {
  MachineFacts facts;
  facts.cpu_model = cpu_model_name(root);
  facts.isa = known_isa(cpu_flags(root));
  facts.cores = read_topology(root);
  const std::string meminfo = read_text_file(root + "/proc/meminfo", kMaxProcBytes).value_or("");
  facts.ram_bytes = meminfo_bytes(meminfo, "MemTotal");
  facts.ram_available_bytes = meminfo_bytes(meminfo, "MemAvailable");
  facts.cgroup_memory_bytes = cgroup_memory_limit(root, facts.ram_bytes);
  const std::string pages = read_line(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = pages.find('['), close = pages.find(']');
  if (open != std::string::npos && close != std::string::npos && close > open)
    facts.huge_pages = pages.substr(open + 1, close - open - 1);
  for (int i = 0; i < 64; ++i) {
    std::string device = "/dev/nvidia" + std::to_string(i);
    if (file_exists(root + device)) facts.gpu_devices.push_back(std::move(device));
  }
  facts.gpu_driver = read_line(root + "/sys/module/nvidia/version");
  return facts;
}

double measure_read_bandwidth(unsigned n_threads) {
  constexpr size_t kWords = size_t{8} << 20;
  constexpr int kPasses = 3;
  n_threads = std::max(1u, n_threads);
  const size_t words = kWords / n_threads / 8 * 8;
  std::vector<std::unique_ptr<uint64_t[]>> buffers;
  for (unsigned t = 0; t < n_threads; ++t) {
    buffers.push_back(std::make_unique<uint64_t[]>(words));
    std::fill_n(buffers.back().get(), words, t + 1);
  }
  double best = 0;
  std::vector<uint64_t> sums(n_threads * 8);
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < n_threads; ++t) {
      threads.emplace_back([&, t] {
        uint64_t lanes[8] = {};
        const uint64_t* data = buffers[t].get();
        for (size_t i = 0; i < words; i += 8)
          for (size_t k = 0; k < 8; ++k) lanes[k] += data[i + k];
        for (size_t k = 0; k < 8; ++k) sums[t * 8] += lanes[k];
      });
    }
    for (std::thread& thread : threads) thread.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(words) * 8 * n_threads / seconds);
  }
  return sums[0] == 0 ? 0 : best;
}

}  // namespace tamis::cli
