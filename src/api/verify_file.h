// Is this file what it claims to be? Every check a load makes and those only a verifier has time for, on one file or a
// set of shards. Off the way from file to token: `tamis verify` and tests call it.  Verdicts: security.md, head and
// §2.5.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace tamis {

enum class VerifyLevel : uint8_t {
  container,  // header, metadata, tensor table, ranges, padding: read strictly
  model,      // also configuration, tensor shapes and types, tokenizer; a tensor without a place is refused
  all,        // also the chat template (it must parse) and every weight (it must be finite)
};

std::string_view verify_level_name(VerifyLevel level);
std::optional<VerifyLevel> verify_level_from_name(std::string_view name);

struct VerifyOptions {
  VerifyLevel level = VerifyLevel::all;
  Limits limits;
  ThreadPool* pool = nullptr;                      // reads the weights; null = this thread alone
  std::function<void(uint64_t n_bytes)> progress;  // weight bytes read; called from any thread of the pool
};

struct VerifyReport {
  std::string path;
  std::optional<Error> error;  // the first reason to refuse the file; located in it when it can be
  std::vector<std::string> warnings;
  uint64_t size_bytes = 0, n_kv = 0, n_tensors = 0;
  uint32_t n_shards = 0;
  bool is_vocabulary = false;  // no tensors: judged as a vocabulary

  bool is_good() const { return !error.has_value(); }
};

// Never fails as such: what is wrong with the file, or with reading it, is in the report. The report's error has code
// io only when the file could not be read.
VerifyReport verify_file(const std::string& path, const VerifyOptions& options = {});

}  // namespace tamis
