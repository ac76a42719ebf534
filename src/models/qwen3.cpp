// Qwen3 (dense). Llama family + RMS norm on each head of q and k, RoPE on halves. Source: arXiv:2505.09388.
#include "models/registry.h"

namespace tamis {

ArchSpec qwen3() {
  const BlockSpec block{.attn = {.qk_norm = Norm::rms, .rope = RopePairs::halves}};
  return {.name = "qwen3",
          .hf_classes = {{"Qwen3ForCausalLM", "qwen3"}},
          .hf_defaults = {{"head_dim", 128}, {"rms_norm_eps", 1e-6}, {"rope_theta", 10000}},
          .block = block,
          .tensors = decoder_tensors(block)};
}

}  // namespace tamis
