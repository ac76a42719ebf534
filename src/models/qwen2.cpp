// Qwen2 and Qwen2.5 (dense). Llama family + biases on q, k and v, RoPE on halves. Source: arXiv:2407.10671.
#include "models/registry.h"

namespace tamis {

ArchSpec qwen2() {
  const BlockSpec block{.attn = {.qkv_bias = Need::required, .rope = RopePairs::halves}};
  return {.name = "qwen2",
          .hf_classes = {{"Qwen2ForCausalLM", "qwen2"}},
          .hf_defaults = {{"rms_norm_eps", 1e-6}, {"rope_theta", 10000}},
          .block = block,
          .tensors = decoder_tensors(block)};
}

}  // namespace tamis
