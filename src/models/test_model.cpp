// Keys, then tensors in the order of the forward pass; random numbers are drawn in that order too.
#include "models/test_model.h"

#include <fmt/format.h>

#include <vector>

#include "base/rng.h"

namespace tamis {
namespace {

constexpr uint32_t kLayers = 4, kEmbd = 256, kHeads = 4, kHeadsKv = 2, kHeadDim = 64, kFf = 1024;
constexpr double kMatrixDeviation = 0.036;

struct TestTensor {
  std::string name;
  Shape shape;
  double deviation = 0;  // 0: all ones
};

std::vector<TestTensor> test_tensors() {
  std::vector<TestTensor> tensors = {{"token_embd.weight", {kTestModelVocab, kEmbd}, 1}};
  for (uint32_t i = 0; i < kLayers; ++i) {
    auto add = [&](std::string_view name, Shape shape, double deviation) {
      tensors.push_back({fmt::format("blk.{}.{}.weight", i, name), shape, deviation});
    };
    add("attn_norm", {kEmbd}, 0);
    add("attn_q", {kHeads * kHeadDim, kEmbd}, kMatrixDeviation);
    add("attn_k", {kHeadsKv * kHeadDim, kEmbd}, kMatrixDeviation);
    add("attn_v", {kHeadsKv * kHeadDim, kEmbd}, kMatrixDeviation);
    add("attn_q_norm", {kHeadDim}, 0);
    add("attn_k_norm", {kHeadDim}, 0);
    add("attn_output", {kEmbd, kHeads * kHeadDim}, kMatrixDeviation);
    add("ffn_norm", {kEmbd}, 0);
    add("ffn_gate", {kFf, kEmbd}, kMatrixDeviation);
    add("ffn_up", {kFf, kEmbd}, kMatrixDeviation);
    add("ffn_down", {kEmbd, kFf}, kMatrixDeviation);
  }
  tensors.push_back({"output_norm.weight", {kEmbd}, 0});
  return tensors;
}

Status add_keys(GgufWriter& writer) {
  TAMIS_TRY_STATUS(writer.add_string("general.architecture", "qwen3"));
  TAMIS_TRY_STATUS(writer.add_string("general.name", "selfcheck"));
  const std::pair<std::string_view, uint32_t> numbers[] = {
      {"block_count", kLayers},           {"context_length", 1024},
      {"embedding_length", kEmbd},        {"feed_forward_length", kFf},
      {"attention.head_count", kHeads},   {"attention.head_count_kv", kHeadsKv},
      {"attention.key_length", kHeadDim}, {"attention.value_length", kHeadDim},
      {"vocab_size", kTestModelVocab}};
  for (const auto& [key, value] : numbers) TAMIS_TRY_STATUS(writer.add_u32(fmt::format("qwen3.{}", key), value));
  TAMIS_TRY_STATUS(writer.add_f32("qwen3.attention.layer_norm_rms_epsilon", 1e-6f));
  return writer.add_f32("qwen3.rope.freq_base", 1e6f);
}

}  // namespace

Status write_test_model(GgufWriter& writer, uint64_t seed, const std::string& path) {
  const std::vector<TestTensor> tensors = test_tensors();
  TAMIS_TRY_STATUS(add_keys(writer));
  for (const TestTensor& tensor : tensors) TAMIS_TRY_STATUS(writer.add_tensor(tensor.name, DType::f32, tensor.shape));
  TAMIS_TRY_STATUS(writer.begin(path, false));
  Rng rng(seed);
  std::vector<float> values;
  for (const TestTensor& tensor : tensors) {
    values.assign(tensor.shape.n_elements(), 1.0f);
    if (tensor.deviation != 0)
      for (float& value : values) value = static_cast<float>(tensor.deviation * rng.normal());
    TAMIS_TRY_STATUS(writer.write(std::as_bytes(std::span<const float>(values))));
  }
  return writer.finish();
}

}  // namespace tamis
