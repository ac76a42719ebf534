// Qwen3 mixture of experts. Qwen3 + a softmax router whose chosen weights are normalised. Source: arXiv:2505.09388.
#include "models/registry.h"

namespace tamis {

ArchSpec qwen3moe() {
  const BlockSpec block{.attn = {.qk_norm = Norm::rms, .rope = RopePairs::halves}, .moe = {.need = Need::required}};
  return {.name = "qwen3moe", .hf_classes = {"Qwen3MoeForCausalLM"}, .block = block, .tensors = decoder_tensors(block)};
}

}  // namespace tamis
