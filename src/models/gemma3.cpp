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
          .hf_classes = {{"Gemma3ForCausalLM", "gemma3_text"}, {"Gemma3ForConditionalGeneration", "gemma3_text"}},
          .hf_defaults = {{"num_attention_heads", 8},
                          {"num_key_value_heads", 4},
                          {"head_dim", 256},
                          {"rms_norm_eps", 1e-6},
                          {"max_position_embeddings", 131072},
                          {"rope_theta", 1000000},
                          {"rope_local_base_freq", 10000},
                          {"sliding_window", 4096},
                          {"vocab_size", 262208},
                          {"query_pre_attn_scalar", 256}},
          .hf_norm_offset = 1,
          .block = block,
          .tensors = decoder_tensors(block)};
}

}  // namespace tamis
