// Which type of a model fits: its memory in other types, before anything is encoded.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/memory_plan.h"
#include "formats/gguf.h"

namespace tamis::cli {

struct TypeFit {
  std::string type;  // a recipe's name
  uint64_t file_bytes = 0, memory_bytes = 0;
};

// The recipes that make the model smaller than it is, largest first. memory_bytes: the plan's total for a file of that
// type, by the engine's own code on a file that is all header (its data are a hole). Errors: io when no such file can
// be made; those of plan_memory.
Result<std::vector<TypeFit>> types_of(const GgufFile& file, const Backend& backend, const MemoryRequest& request);

}  // namespace tamis::cli
