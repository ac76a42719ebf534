// A Hugging Face folder opened as a model, without a file between: what `convert` would write, in memory, but for GPTQ
// and AWQ matrices, which stay in the checkpoint and go to a backend as the codes they are, without loss.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "convert/convert.h"
#include "formats/gguf.h"
#include "models/model.h"

namespace tamis {

struct OpenCheckpoint {
  // Metadata and tensors in the types the checkpoint holds. Tensors that `affine` knows are F32 by name, and zero.
  GgufFile file;
  AffineTensors affine;  // keeps the checkpoint's files open; needed until the model is loaded
  // Frees the memory of a tensor's numbers, which are then zero: LoadOptions::on_unread, where `file` is loaded but
  // once.
  std::function<void(const GgufTensor& tensor)> forget;
  std::vector<std::string> warnings;
};

// Whether the path is a folder that holds a config.json.
bool is_checkpoint(const std::string& path);

// Packed matrices whose groups are no multiples of 32 inputs, or whose scales have more than 11 significant bits beside
// zero points, are decoded to F32: exact too, but large. Errors: those of ConvertPlan::make; out_of_memory.
Result<OpenCheckpoint> open_checkpoint(const std::string& folder, ThreadPool& pool, const ConvertOptions& options = {});

}  // namespace tamis
