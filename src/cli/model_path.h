// What `-m` means, for every verb that loads a model.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tamis::cli {

// A path that exists is that file. USER/REPO[:QUANT] is a model in the Hugging Face cache. Any other word is looked for
// in both caches: exactly, then by its parts in order ("qwen2.5-0.5b" finds qwen2.5-coder-0.5b-instruct-q4_k_m). "" is
// the default model, SmolLM2-135M-Instruct. Nothing is downloaded here. Errors: not_found, saying what to do;
// invalid_argument when a word fits several models, naming them.
Result<std::string> resolve_model(std::string_view name);

}  // namespace tamis::cli
