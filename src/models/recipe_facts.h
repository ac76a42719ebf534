// What the recipes of quantization need to know about a model beside its tensors: a few numbers, and two old exceptions
// that are bound to architectures. Any file with metadata will do, of architectures tamis cannot run too.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "formats/gguf.h"

namespace tamis {

struct RecipeFacts {
  uint32_t n_layers = 0;
  uint32_t n_head = 0, n_head_kv = 0;  // of the first layer
  uint32_t n_expert = 0;
  bool is_falcon = false;  // rules of its own in the stock recipes
  bool is_70b = false;     // 80 layers: values are lifted to Q5_K

  uint32_t heads_per_kv() const { return n_head_kv == 0 ? 0 : n_head / n_head_kv; }
};

// Errors: format when a key is there but is not a number it can be; not_found without general.architecture.
Result<RecipeFacts> read_recipe_facts(const GgufFile& file);

// Sets the two exceptions. Source: llama.cpp's model types ("70B") and the exceptions of its quantizer.
void set_recipe_exceptions(std::string_view architecture, RecipeFacts& facts);

}  // namespace tamis
