// One model, several files: cutting a GGUF into shards and putting shards together. Tensors are copied byte for byte,
// metadata keeps its order and its exact bytes; only the split.* keys come and go. Source: llama.cpp's gguf-split,
// whose names, keys and key types these are.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"

namespace tamis {

struct SplitOptions {
  uint64_t max_tensors = 0;  // of one shard; 0 = no bound
  uint64_t max_data_bytes =
      0;  // of one shard's tensors with padding; 0 = no bound. One larger tensor has a shard alone
  bool is_first_without_tensors = false;
  bool is_overwriting = false;
};

struct ShardPlan {
  std::string path;
  std::vector<size_t> tensors;  // indices into GgufFile::tensors()
  uint64_t data_bytes = 0;
};

// Called with each number of tensor bytes copied.
using CopyProgress = std::function<void(uint64_t n_bytes)>;

// Which tensors go into which file, in the order they have.
// Errors: invalid_argument when neither bound is given, or more than 9,999 shards would be needed.
Result<std::vector<ShardPlan>> plan_split(const GgufFile& file, std::string_view prefix, const SplitOptions& options);

// Writes the shards of a plan. The first holds all metadata, every one split.no, split.count and split.tensors.count.
// Errors: io, out_of_memory (disk); invalid_argument when a name is taken; cancelled when `stop` turns true. Shards
// this call has completed are removed again when a later one fails.
Status write_split(const GgufFile& file, const std::vector<ShardPlan>& plan, const SplitOptions& options,
                   const CopyProgress& progress = nullptr, const std::atomic<bool>* stop = nullptr);

// Writes all shards of `file` as one file without split.* keys. Errors: as write_split.
Status merge_shards(const GgufFile& file, const std::string& out_path, bool is_overwriting,
                    const CopyProgress& progress = nullptr, const std::atomic<bool>* stop = nullptr);

// "300M", "2G" (powers of 1000, as gguf-split has them), "512K", "1000000". Errors: invalid_argument.
Result<uint64_t> parse_size(std::string_view text);

}  // namespace tamis
