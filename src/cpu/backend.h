// The CPU backend. Quantized weights are repacked at load and multiplied as integers with activations rounded to 8
// bits; plain numbers, and all of them with exact activations, are multiplied in float32. Same ops and same exactness
// rule as compute/backend.h says: a token's bits depend neither on the batch, nor on the number of threads, nor on the
// target.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "compute/backend.h"

namespace tamis {

class ThreadPool;

enum class CpuActivations : uint8_t {
  q8,   // 8 bits with a scale per 32 or 256 elements, as the weight's type has blocks
  f32,  // exact
};

// How matrices lie in memory. What a type has no form for keeps the next best: affine → planes → the file's bytes.
enum class CpuLayout : uint8_t {
  automatic,  // the fastest: planes
  planes,     // codes row by row interleaved, with the type's own scales (kernels/planes.h)
  affine,     // code · scale + offset, in float32 a group (kernels/affine.h)
  dense,      // decoded numbers
};

// `target`: a CPU target by name (cpu/dispatch.h), "" = the best this machine has. `pool` (null: one thread) outlives
// the backend. Errors: invalid_argument for a target that is unknown or not available here; out_of_memory.
Result<std::unique_ptr<Backend>> make_cpu_backend(ThreadPool* pool = nullptr, std::string_view target = "",
                                                  CpuActivations activations = CpuActivations::q8,
                                                  CpuLayout layout = CpuLayout::automatic);

}  // namespace tamis
