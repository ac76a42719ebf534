// The CPU backend: weights stay in the file's form (mapped), rows are decoded block by block as they are used and
// multiplied in float32 with every token of the batch. Same ops and same exactness rule as compute/backend.h says: a
// token's bits depend neither on the batch, nor on the number of threads, nor on the target.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "compute/backend.h"

namespace tamis {

class ThreadPool;

// `target`: a CPU target by name (cpu/dispatch.h), "" = the best this machine has. `pool` (null: one thread) outlives
// the backend. Errors: invalid_argument for a target that is unknown or not available here; out_of_memory.
Result<std::unique_ptr<Backend>> make_cpu_backend(ThreadPool* pool = nullptr, std::string_view target = "");

}  // namespace tamis
