// What a LanguageModel handle points to; shared by the files of src/api.
#pragma once

#include <functional>
#include <memory>

#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "tamis/model.h"

namespace tamis::api {

struct LanguageModel::State {
  std::string path;
  bool parse_content_special = false;
  std::unique_ptr<ThreadPool> pool;  // outlives the engine
  std::shared_ptr<const Engine> engine;
};

// The façade's options, callback and answer in the engine's terms, and back.
GenerationOptions to_engine(const GenerateOptions& options);
std::function<tamis::Status(std::string_view)> to_engine(const OnText& on_text);
Answer from_engine(Generation generation);

}  // namespace tamis::api
