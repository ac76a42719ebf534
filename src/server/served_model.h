// A model that is served, and what is told about it. Between the engine and the routes. Nothing here names a file.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "engine/scheduler.h"
#include "text/answer_syntax.h"

namespace tamis::server {

// What is known of a model without loading it.
struct ModelCard {
  std::string alias;       // its public name
  std::string type_label;  // "Q4_K_M"; "" when the file does not say
  std::string architecture;
  uint64_t n_parameters = 0, size_bytes = 0;
  int64_t loaded_at = 0;  // Unix time, seconds; of one that is not in memory: when the server began to offer it
};

struct ServedModel : ModelCard {
  explicit ServedModel(std::shared_ptr<const Engine> loaded);

  const std::shared_ptr<const Engine> engine;
  const std::string_view chat_template;  // its source; "" where the file has none
  // How the model writes calls and reasoning, by that template. Where it offers no tools, we do, in the generic syntax.
  const AnswerSyntax syntax;
  std::unique_ptr<Scheduler> scheduler;
  uint32_t max_seqs = 1, max_queue = 1;    // as the scheduler was given them
  bool parse_content_special = false;      // special tokens spelled out in messages become those tokens
  std::shared_ptr<GrammarCache> grammars;  // of its vocabulary; null where that cannot be held to a grammar
  mutable std::once_flag two_bos;          // the warning of a text prompt that spells out BOS itself
};

}  // namespace tamis::server
