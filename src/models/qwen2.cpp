// Qwen2 and Qwen2.5 (dense). Llama family + biases on q, k and v, RoPE on halves. Source: arXiv:2407.10671.
#include "models/registry.h"

namespace tamis {

ArchSpec qwen2() {
  const BlockSpec block{.attn = {.qkv_bias = Need::required, .rope = RopePairs::halves}};
  return {.name = "qwen2", .hf_classes = {"Qwen2ForCausalLM"}, .block = block, .tensors = decoder_tensors(block)};
}

}  // namespace tamis
