// Qwen3 mixture of experts. Qwen3 + a softmax router whose chosen weights are normalised. Source: arXiv:2505.09388.
#include "models/registry.h"

namespace tamis {

ArchSpec qwen3moe() {
  const BlockSpec block{.attn = {.qk_norm = Norm::rms, .rope = RopePairs::halves}, .moe = {.need = Need::required}};
  return {.name = "qwen3moe",
          .hf_classes = {{"Qwen3MoeForCausalLM", "qwen3_moe"}},
          .hf_defaults = {{"head_dim", 128}, {"rms_norm_eps", 1e-6}, {"rope_theta", 10000}},
          .block = block,
          .tensors = decoder_tensors(block)};
}

}  // namespace tamis
