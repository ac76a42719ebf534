// A model file with its matrices in another type, by either method and without a recipe: what tamis selfcheck exports.
#pragma once

#include <string>

#include "base/dtype.h"
#include "base/result.h"
#include "formats/gguf.h"
#include "quants/registry.h"

namespace tamis {

// Writes `file` to `path` with every matrix of layers as `type` (as q8_0, or else f32, where its rows are no whole
// blocks) and embedding and output as q8_0 under the same rule; vectors and metadata stay. Tensor by tensor; the work
// is one thread's. Errors: unsupported when `type` has no encoder; io; out_of_memory.
Status reencode(const GgufFile& file, DType type, EncodeMethod method, const std::string& path);

}  // namespace tamis
