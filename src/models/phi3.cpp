// Phi-3 and Phi-4 (dense). Llama family, q, k, v in one matrix, gate and up in another, RoPE on halves with LongRoPE
// factors. A sliding_window key is honoured on every layer, as the models' own code does. Source: arXiv:2404.14219.
#include "models/registry.h"

namespace tamis {

ArchSpec phi3() {
  const BlockSpec block{.attn = {.is_fused_qkv = true,
                                 .rope = RopePairs::halves,
                                 .has_rope_long_short = true,
                                 .window = {.is_used = true}},
                        .ffn = {.is_fused_gate_up = true}};
  return {.name = "phi3",
          .hf_classes = {{"Phi3ForCausalLM", "phi3"}},
          .hf_defaults = {{"rms_norm_eps", 1e-5}, {"rope_theta", 10000}, {"max_position_embeddings", 4096}},
          .block = block,
          .tensors = decoder_tensors(block)};
}

}  // namespace tamis
