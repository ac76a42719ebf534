// From a verb's options to a loaded engine: the common part of logits, perplexity and run.
#pragma once

#include <memory>
#include <optional>

#include "base/thread_pool.h"
#include "cli/verb.h"
#include "engine/engine.h"

namespace tamis::cli {

// The pool outlives the engine, whose backend runs on it.
struct LoadedEngine {
  std::unique_ptr<ThreadPool> pool;
  std::shared_ptr<const Engine> engine;
};

// Options that exist for all verbs and mean nothing, or nothing yet, to the backends of this build: refused when
// ignoring them would change what the user asked for.
Status check_unused_options(const Args& args);

// --ram-budget in bytes; 0 when it is not given. Errors: invalid_argument.
Result<uint64_t> ram_budget(const Args& args);

// The same, or what is free when it is not given. Errors: invalid_argument.
Result<uint64_t> memory_budget(const Args& args);

// --huge-pages, before weights are allocated.
void apply_huge_pages(const Args& args);

// -c and -b, for verbs that choose context and chunk size.
OptionSpec context_option(std::string_view help);
OptionSpec batch_option();

// The value of an integer option, or `fallback` when it is neither given nor has a default. Errors: invalid_argument
// below `minimum` or above 2^32-1.
Result<uint32_t> integer_option(const Args& args, std::string_view name, uint32_t fallback, uint32_t minimum = 1);

// Threads as --threads says, the model as -m says, backend and tokenizer as the model options say; prints the model's
// warnings. Errors: those of Engine::load, located in the file; unsupported for options that this build does not
// honour. `chosen`: in place of --threads and --layout.
struct EngineChoice {
  std::optional<uint32_t> n_threads;
  std::optional<std::string> layout;
};
Result<LoadedEngine> load_engine(const Args& args, EngineOptions options, const EngineChoice& chosen = {});

// A model beside the first, on the same threads: `model` in place of -m, backend, activations and layout in place of
// the options'.
struct OtherModel {
  std::string model, backend, activations, layout;
};
Result<std::shared_ptr<const Engine>> load_other_engine(const Args& args, EngineOptions options,
                                                        const OtherModel& other, ThreadPool& pool);

}  // namespace tamis::cli
