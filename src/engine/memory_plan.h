// How much memory a model will take before it is loaded: the engine's own code runs on a backend that only counts
// (tamis fit).
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace tamis {

struct MemoryRequest {
  uint32_t n_ctx = 0;   // of one sequence
  uint32_t n_seqs = 1;  // that hold a full context each
  uint32_t n_batch = 512;
  KvTypes kv_types = {DType::f16, DType::f16};
};

// Bytes.
struct MemoryPlan {
  uint64_t weights = 0;  // matrices in the backend's form
  uint64_t vectors = 0;  // norms, biases and the like
  uint64_t tables = 0;   // rows that are only looked up, in the mapped file: touched row by row, at most all of it
  uint64_t kv = 0;       // keys and values of n_seqs full contexts
  uint64_t buffers = 0;  // intermediates of the largest step, and what the backend keeps between steps
  uint64_t total() const { return weights + vectors + kv + buffers; }
};

// What Engine::load and the largest step would take on `backend`, which stays untouched. Errors: those of load_model
// and check_kv_types; out_of_memory when a number does not fit 64 bits.
Result<MemoryPlan> plan_memory(const GgufFile& file, const Backend& backend, const MemoryRequest& request);

// The largest context, up to `n_ctx_most`, whose plan stays within `budget_bytes`; 0 when none does. Errors: those of
// plan_memory.
Result<uint32_t> largest_context(const GgufFile& file, const Backend& backend, MemoryRequest request,
                                 uint32_t n_ctx_most, uint64_t budget_bytes);

}  // namespace tamis
