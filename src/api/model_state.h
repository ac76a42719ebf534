// What a LanguageModel handle points to; shared by the files of src/api.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

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

  // A compiled grammar over the model's vocabulary; those in use are kept. Errors: the grammar's.
  tamis::Result<std::shared_ptr<const TokenMasks>> compile_grammar(const GrammarSpec& spec) const;

 private:
  mutable std::mutex grammars_mutex_;
  mutable std::unique_ptr<GrammarCache> grammars_;  // made with the first grammar
};

// The façade's options, callback and answer in the engine's terms, and back.
tamis::Result<GenerationOptions> to_engine(const GenerateOptions& options, const LanguageModel::State& model);
std::function<tamis::Status(std::string_view)> to_engine(const OnText& on_text);
Answer from_engine(Generation generation);

}  // namespace tamis::api
