// Tiny models in memory: from the goldens' text (tests/golden/models_logits.tsv) or from an architecture's own tensor
// table. Weights are a function of (case, tensor name, index), the same as in tests/golden/tiny_models.py.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "formats/gguf.h"
#include "models/arch.h"
#include "models/decoder.h"
#include "models/model.h"

namespace tamis::test {

using MetaValue = std::variant<uint32_t, float, std::string, std::vector<uint32_t>, std::vector<bool>>;

struct SyntheticTensor {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;  // of a type without a plain encoder the bytes are 0
};

// A model file to be: metadata keys without the architecture's prefix, tensors in order.
struct Synthetic {
  std::string name, arch;
  std::vector<std::pair<std::string, MetaValue>> metadata;
  std::vector<SyntheticTensor> tensors;
  std::vector<int32_t> ids;
  std::vector<float> expected;  // logits [ids.size(), n_vocab] of the float64 oracle; empty when there is none

  void set(const std::string& key, MetaValue value);  // replaces or appends
  void erase(const std::string& tensor_name);
  bool has(const std::string& tensor_name) const;
};

// Replaces a tensor's values before they are written.
using Fill = std::function<void(const std::string& name, std::vector<float>& values)>;

GgufFile open_synthetic(const Synthetic& model, const Fill& fill = nullptr);

// The cases of the goldens. Aborts the test program when they cannot be read.
const std::vector<Synthetic>& golden_cases();
const Synthetic& golden_case(const std::string& name);

// The numbers of a made-up configuration.
struct SpecSize {
  uint32_t n_ctx = 64, n_embd = 24, n_ff = 40, n_expert_ff = 20, k_dim = 8, v_dim = 12;
};

// Every tensor of the table, optional ones too, for a small configuration of that architecture: 2 layers, 6 heads, 2 of
// keys, 30 tokens, a window of 16. `with_experts`: for tables that allow both, the mixture. `with_fused_qkv`: that form
// of attention.
Synthetic from_spec(const ArchSpec& arch, bool with_experts, bool with_fused_qkv, const SpecSize& size = {});

// The logits of every token, run as one batch.
std::vector<float> all_logits(const Model& model, Backend& backend, std::span<const int32_t> ids);

// max |a − b| / standard deviation of b.
double spread_error(std::span<const float> a, std::span<const float> b);

}  // namespace tamis::test
