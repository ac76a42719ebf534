// Gemma (first generation) and CodeGemma. Llama family + RoPE on halves, gated GELU, scaled embeddings, always tied.
// The converter has already added 1 to the norm gains. Source: arXiv:2403.08295.
#include "models/registry.h"

namespace tamis {

ArchSpec gemma() {
  const BlockSpec block{.attn = {.rope = RopePairs::halves},
                        .ffn = {.activation = Activation::gelu_tanh},
                        .is_embedding_scaled = true,
                        .is_always_tied = true};
  return {.name = "gemma",
          .hf_classes = {{"GemmaForCausalLM", "gemma"}},
          .hf_defaults = {{"head_dim", 256},
                          {"rms_norm_eps", 1e-6},
                          {"rope_theta", 10000},
                          {"max_position_embeddings", 8192}},
          .hf_norm_offset = 1,
          .block = block,
          .tensors = decoder_tensors(block)};
}

}  // namespace tamis
