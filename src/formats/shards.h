// Names of the files one model is split into: PREFIX-00001-of-00003.gguf, numbered from 1, all in one directory.
// Source: llama.cpp's gguf-split, which fixed the names and the split.* keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tamis {

inline constexpr std::string_view kSplitNo = "split.no";  // index of the shard, from 0 although names count from 1
inline constexpr std::string_view kSplitCount = "split.count";
inline constexpr std::string_view kSplitTensors = "split.tensors.count";  // over all shards

struct ShardName {
  std::string prefix;  // the path up to "-00001-of-…"
  uint32_t idx = 0;    // from 0
  uint32_t n_shards = 1;
};

// The parts of a shard's path, or nothing when it does not have that form (five digits each, 1 ≤ number ≤ count).
std::optional<ShardName> parse_shard_name(std::string_view path);

// The path of shard `idx` (from 0) of `n_shards`. Requires: idx < n_shards <= 99999.
std::string shard_path(std::string_view prefix, uint32_t idx, uint32_t n_shards);

}  // namespace tamis
