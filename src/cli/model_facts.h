// What one can say about a GGUF file from its header alone: numbers for `inspect`, in text, JSON and HTML alike. Knows
// GGUF's key and tensor names, no architecture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "formats/gguf.h"

namespace tamis::cli {

struct Share {
  uint64_t n_tensors = 0, n_params = 0, n_bytes = 0;
  void add(const GgufTensor& tensor);
  double bits_per_weight() const;  // 0 for nothing
};

struct TypeShare {
  DType dtype = DType::f32;
  Share share;
};

// Sorted by bytes, most first.
using TypeShares = std::vector<TypeShare>;
void add_to(TypeShares& types, const GgufTensor& tensor);

struct GroupShare {
  std::string_view name;  // "attention"
  Share share;
  TypeShares types;
};

struct LayerRow {
  uint64_t layer_idx = 0;
  std::vector<const GgufTensor*> tensors;  // in file order
};

struct SpecialTokenFact {
  std::string name;  // "bos"
  uint64_t id = 0;
  std::string text;  // as stored; "" when the vocabulary has no such id
};

struct TokenizerFacts {
  std::string model;  // "" = the file has no tokenizer
  std::string pre;
  uint64_t n_tokens = 0, n_merges = 0;
  bool has_scores = false;
  std::vector<SpecialTokenFact> special;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

struct TemplateFacts {
  std::string name;  // "" = the default one
  std::string_view source;
  std::string problem;  // why it does not parse; "" = it does
  bool has_system = false, has_tools = false, has_tool_calls = false, has_thinking = false, has_images = false;
  bool has_generation_prompt = false;
};

// A number of the configuration as text, with the words people use: {"layers", "30"}.
struct HyperFact {
  std::string name, value;
};

struct ModelFacts {
  std::string name;          // general.name, else the file's
  std::string architecture;  // "" when the file does not say
  std::string type_label;    // of general.file_type: "Q4_K_M"; "" when absent
  std::string license, size_label;
  std::vector<HyperFact> hyper;
  Share total;
  uint64_t n_active_params = 0;  // of a token; equals total.n_params without experts
  uint64_t n_experts = 0, n_experts_used = 0;
  std::optional<uint64_t> kv_bytes_per_token;  // f16, all layers; nothing when the keys do not tell
  uint64_t context_length = 0;
  bool is_tied = false;  // no output matrix: the embedding serves
  TypeShares types;
  std::vector<GroupShare> groups;  // in the order of a forward pass
  std::vector<LayerRow> layers;
  TokenizerFacts tokenizer;
  std::vector<TemplateFacts> templates;
};

ModelFacts gather_facts(const GgufFile& file);

std::string_view tensor_group(std::string_view tensor_name);     // "attention", "experts", …, "other"
std::optional<uint64_t> layer_of(std::string_view tensor_name);  // 3 of "blk.3.attn_q.weight"

// A metadata value on one line: strings quoted and escaped, cut at max_bytes; arrays as "[f32 × 64] 1, 1.5, …".
std::string value_text(const GgufValue& value, size_t max_bytes);

}  // namespace tamis::cli
