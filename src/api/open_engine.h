// From what a user names to an engine: a GGUF file, or a Hugging Face folder.
#pragma once

#include <memory>
#include <string>

#include "base/thread_pool.h"
#include "engine/engine.h"

namespace tamis {

// A folder with config.json is opened as a checkpoint (convert/checkpoint.h): GPTQ and AWQ matrices without loss, other
// tensors as they are stored; everything else is a file. Warnings of the checkpoint go to the log. Errors: those of
// open_checkpoint and Engine::load, located in `path`; only a missing file is not_found.
Result<std::shared_ptr<const Engine>> open_engine(const std::string& path, std::unique_ptr<Backend> backend,
                                                  const EngineOptions& options, ThreadPool& pool);

}  // namespace tamis
