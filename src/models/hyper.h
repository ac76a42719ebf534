// The numbers of one model, read through the key table and validated once: every divisor is at least 1 and divides
// exactly, every float is finite and in range. Nothing after this needs to check again.  security.md §1B.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "formats/gguf.h"
#include "models/arch.h"

namespace tamis {

struct LayerHyper {
  uint32_t n_head = 0, n_head_kv = 0;
  uint32_t n_ff = 0;  // of the dense feed-forward
  bool is_windowed = false;
};

enum class RopeScaling : uint8_t { none, linear, yarn, longrope };

struct RopeHyper {
  uint32_t rot_dim = 0;      // elements of a head that rotate; even, ≤ k_dim
  double freq_base = 10000;  // theta
  double freq_base_windowed = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;  // positions are divided by it (linear, yarn)
  uint32_t n_ctx_original = 0;
  double attn_factor = 1;  // <arch>.rope.scaling.attn_factor
  double yarn_ext_factor = 1, yarn_beta_fast = 32, yarn_beta_slow = 1, yarn_log_multiplier = 0;
};

struct Hyper {
  uint32_t n_layers = 0, n_embd = 0, n_vocab = 0;
  uint32_t n_ctx_train = 0;
  uint32_t k_dim = 0, v_dim = 0;  // of one head
  uint32_t n_expert = 0, n_expert_used = 0, n_ff_expert = 0;
  float expert_weight_scale = 1;
  float norm_eps = 0;
  float attention_scale = 0;
  float attn_softcap = 0, final_softcap = 0;  // 0 = none
  uint32_t window = 0;                        // 0 = none
  RopeHyper rope;
  std::vector<LayerHyper> layers;

  // An extent of a tensor of layer `layer_idx` (any layer for model-wide tensors).
  uint64_t dim(Dim dim, uint32_t layer_idx) const;
};

// Reads and validates. Errors: not_found for a missing key; format at the key's offset, tag E_HPARAM_TYPE or
// E_HPARAM_RANGE; unsupported for a RoPE scaling rule tamis does not know. Allocates in proportion to n_layers ≤
// limits.n_layers only.
Result<Hyper> read_hyper(const GgufFile& file, const ArchSpec& arch, const Limits& limits = {});

}  // namespace tamis
