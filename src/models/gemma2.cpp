// Gemma 2. Norms before and after each part, gated GELU, scaled embeddings, soft caps on scores and logits, every
// second layer with a window. The converter has already added 1 to the norm gains. Source: arXiv:2408.00118.
#include "models/registry.h"

namespace tamis {

ArchSpec gemma2() {
  const BlockSpec block{.residual = Residual::sandwich,
                        .attn = {.rope = RopePairs::halves,
                                 .window = {.is_used = true, .default_window = 4096, .default_period = 2},
                                 .has_softcap = true,
                                 .default_softcap = 50,
                                 .scale_by_embd_at_n_layers = 46},
                        .ffn = {.activation = Activation::gelu_tanh},
                        .is_embedding_scaled = true,
                        .has_final_softcap = true,
                        .default_final_softcap = 30,
                        .is_always_tied = true};
  return {.name = "gemma2",
          .hf_classes = {{"Gemma2ForCausalLM", "gemma2"}},
          .hf_defaults = {{"head_dim", 256},
                          {"rms_norm_eps", 1e-6},
                          {"rope_theta", 10000},
                          {"max_position_embeddings", 8192},
                          {"sliding_window", 4096},
                          {"attn_logit_softcapping", 50},
                          {"final_logit_softcapping", 30},
                          {"query_pre_attn_scalar", 256}},
          .hf_norm_offset = 1,
          .block = block,
          .tensors = decoder_tensors(block)};
}

}  // namespace tamis
