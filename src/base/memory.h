// How much memory this process may use: physical memory and the cgroup's limit, whichever is less.
#pragma once

#include <cstdint>
#include <string>

namespace tamis {

// Bytes; 0 when unknown. `root` is prefixed to every path, for tests ("" = the real machine).
uint64_t usable_memory_bytes(const std::string& root = "");

// Bytes of this process that are in memory now (resident set, shared pages of files too); 0 when unknown.
uint64_t resident_memory_bytes(const std::string& root = "");

}  // namespace tamis
