// Llama and everything converted as it: Llama 1–3, Mistral, Mixtral, SmolLM2 and others. RMS norm, gated SiLU, grouped
// heads. Q and K rows are permuted by the converter so that RoPE pairs lie side by side. Sources: arXiv:2302.13971,
// 2310.06825, 2401.04088.
#include "models/registry.h"

namespace tamis {

ArchSpec llama() {
  const BlockSpec block{.attn = {.has_rope_freqs = true, .has_rope_long_short = true},
                        .ffn = {.bias = Need::optional},
                        .moe = {.need = Need::optional,
                                .hf = {.router = "model.layers.%.block_sparse_moe.gate.weight",
                                       .gate = "model.layers.%.block_sparse_moe.experts.#.w1.weight",
                                       .up = "model.layers.%.block_sparse_moe.experts.#.w3.weight",
                                       .down = "model.layers.%.block_sparse_moe.experts.#.w2.weight"}}};
  return {.name = "llama",
          .hf_classes = {{"LlamaForCausalLM", "llama"},
                         {"MistralForCausalLM", "mistral"},
                         {"MixtralForCausalLM", "mixtral", true}},
          .hf_defaults = {{"rms_norm_eps", 1e-6}, {"max_position_embeddings", 2048}, {"rope_theta", 10000}},
          .block = block,
          .tensors = decoder_tensors(block)};
}

}  // namespace tamis
