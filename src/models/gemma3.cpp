// Gemma 3 (text). Gemma 2 without score caps + RMS norm on each head of q and k; five windowed layers, with a RoPE base
// of their own, for each one that sees everything. Source: arXiv:2503.19786.
#include "models/registry.h"

namespace tamis {

ArchSpec gemma3() {
  const BlockSpec block{.residual = Residual::sandwich,
                        .attn = {.qk_norm = Norm::rms,
                                 .rope = RopePairs::halves,
                                 .window = {.is_used = true,
                                            .default_period = 6,
                                            .default_freq_base = 10000,
                                            .is_scaling_full_only = true},
                                 .scale_by_embd_at_n_layers = 62},
                        .ffn = {.activation = Activation::gelu_tanh},
                        .is_embedding_scaled = true,
                        .has_final_softcap = true};
  return {.name = "gemma3",
          .hf_classes = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
          .block = block,
          .tensors = decoder_tensors(block)};
}

}  // namespace tamis
