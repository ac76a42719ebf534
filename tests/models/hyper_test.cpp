// Reading and checking a model's numbers; RoPE's scaling rules against their published formulas; roles and types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "formats/gguf_writer.h"
#include "models/rope.h"
#include "tests/models/synthetic.h"

namespace tamis {
namespace {

using test::Synthetic;
using ::testing::HasSubstr;

Result<Hyper> hyper_of(const Synthetic& model) {
  return read_hyper(test::open_synthetic(model), *find_arch(model.arch));
}

// The case with one key changed is refused at that key.
void expect_refused(const std::string& name, const std::string& key, test::MetaValue value,
                    ErrorCode code = ErrorCode::format) {
  Synthetic model = test::golden_case(name);
  model.set(key, std::move(value));
  const auto hyper = hyper_of(model);
  ASSERT_FALSE(hyper.has_value()) << key;
  EXPECT_EQ(hyper.error().code, code) << hyper.error().to_string();
  EXPECT_THAT(hyper.error().to_string(), HasSubstr(key));
  EXPECT_TRUE(hyper.error().site->has_offset) << hyper.error().to_string();
  EXPECT_FALSE(hyper.error().site->expected.empty());
}

TEST(Hyper, EveryDivisorDividesExactly) {
  expect_refused("llama", "attention.head_count", uint32_t{3});
  expect_refused("llama", "attention.head_count", uint32_t{0});
  expect_refused("llama", "attention.head_count_kv", uint32_t{3});
  expect_refused("llama", "attention.head_count_kv", uint32_t{0});
  expect_refused("llama", "attention.head_count_kv", uint32_t{8});
  expect_refused("llama_gqa3", "rope.dimension_count", uint32_t{5});
  expect_refused("llama_gqa3", "rope.dimension_count", uint32_t{0});
  expect_refused("llama_gqa3", "rope.dimension_count", uint32_t{26});
  expect_refused("llama_gqa3", "attention.key_length", uint32_t{0});
  expect_refused("llama_gqa3", "attention.key_length", uint32_t{70000});
}

TEST(Hyper, EveryFloatIsFiniteAndInRange) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0f, 0.0f}) {
    expect_refused("llama", "attention.layer_norm_rms_epsilon", bad);
    expect_refused("llama", "rope.freq_base", bad);
    expect_refused("llama_linear", "rope.scaling.factor", bad);
    expect_refused("phi3_long", "rope.scaling.attn_factor", bad);
  }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0f}) {
    expect_refused("gemma2", "attn_logit_softcapping", bad);
    expect_refused("gemma2", "final_logit_softcapping", bad);
    expect_refused("llama", "attention.scale", bad);
  }
}

TEST(Hyper, SizesAreInRange) {
  expect_refused("llama", "block_count", uint32_t{0});
  expect_refused("llama", "block_count", std::numeric_limits<uint32_t>::max());
  expect_refused("llama", "context_length", uint32_t{0});
  expect_refused("llama", "embedding_length", uint32_t{0});
  expect_refused("llama", "feed_forward_length", uint32_t{0});
  expect_refused("llama", "vocab_size", uint32_t{0});
  expect_refused("llama_experts", "expert_used_count", uint32_t{6});
  expect_refused("llama_experts", "expert_used_count", uint32_t{0});
  expect_refused("llama_experts", "expert_count", uint32_t{1000000000});
  expect_refused("qwen2", "expert_count", uint32_t{2});
  expect_refused("llama", "expert_used_count", uint32_t{2});
}

TEST(Hyper, WrongTypesAreRefused) {
  expect_refused("llama", "block_count", 2.0f);
  expect_refused("llama", "block_count", std::string("2"));
  expect_refused("llama", "rope.freq_base", uint32_t{10000});
  expect_refused("llama", "rope.scaling.type", uint32_t{1});
  expect_refused("llama", "rope.scaling.type", std::string("su"), ErrorCode::unsupported);
}

TEST(Hyper, MissingKeysAreNamed) {
  for (const char* key : {"block_count", "embedding_length", "context_length", "attention.head_count",
                          "feed_forward_length", "attention.layer_norm_rms_epsilon", "vocab_size"}) {
    Synthetic model = test::golden_case("llama");
    std::erase_if(model.metadata, [&](const auto& entry) { return entry.first == key; });
    const auto hyper = hyper_of(model);
    ASSERT_FALSE(hyper.has_value()) << key;
    EXPECT_EQ(hyper.error().code, ErrorCode::not_found);
    EXPECT_THAT(hyper.error().to_string(), HasSubstr(std::string("llama.") + key));
  }
}

TEST(Hyper, Defaults) {
  Synthetic model = test::golden_case("llama");
  for (const char* key : {"attention.head_count_kv", "rope.freq_base"}) {
    std::erase_if(model.metadata, [&](const auto& entry) { return entry.first == key; });
  }
  const auto hyper = hyper_of(model);
  ASSERT_TRUE(hyper.has_value());
  EXPECT_EQ(hyper->layers[1].n_head_kv, 4u);
  EXPECT_EQ(hyper->k_dim, 8u);
  EXPECT_EQ(hyper->v_dim, 8u);
  EXPECT_EQ(hyper->rope.rot_dim, 8u);
  EXPECT_EQ(hyper->rope.freq_base, 10000);
  EXPECT_FLOAT_EQ(hyper->attention_scale, 1 / std::sqrt(8.0f));
  EXPECT_EQ(hyper->window, 0u);
}

TEST(Hyper, WindowPatterns) {
  const auto gemma2 = *hyper_of(test::golden_case("gemma2"));
  EXPECT_EQ(gemma2.window, 4096u);
  EXPECT_TRUE(gemma2.layers[0].is_windowed);
  EXPECT_FALSE(gemma2.layers[1].is_windowed);
  EXPECT_EQ(gemma2.attn_softcap, 50);
  EXPECT_EQ(gemma2.final_softcap, 30);
  Synthetic model = test::golden_case("gemma3_window");
  const auto gemma3 = *hyper_of(model);
  for (uint32_t i = 0; i < 7; ++i) EXPECT_EQ(gemma3.layers[i].is_windowed, i != 5) << i;
  model.set("attention.sliding_window_pattern", uint32_t{3});
  const auto every_third = *hyper_of(model);
  for (uint32_t i = 0; i < 7; ++i) EXPECT_EQ(every_third.layers[i].is_windowed, i % 3 != 2) << i;
  const auto phi3 = *hyper_of(test::golden_case("phi3_window"));
  EXPECT_TRUE(phi3.layers[0].is_windowed && phi3.layers[1].is_windowed);
}

TEST(Hyper, WindowFlagsForEachLayer) {
  Synthetic model = test::golden_case("gemma2_window");
  model.set("attention.sliding_window_pattern", std::vector<bool>{true, true, false, true, false});
  const auto hyper = *hyper_of(model);
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(hyper.layers[i].is_windowed, i != 2 && i != 4) << i;
  expect_refused("gemma2_window", "attention.sliding_window_pattern", std::vector<bool>{true, false});
  expect_refused("gemma2_window", "attention.sliding_window_pattern", std::vector<uint32_t>{1, 1, 0, 1, 0});
}

TEST(Hyper, NumbersForEachLayer) {
  Synthetic model = test::golden_case("llama");
  model.set("attention.key_length", uint32_t{8});
  model.set("attention.value_length", uint32_t{8});
  model.set("attention.head_count", std::vector<uint32_t>{4, 6});
  model.set("attention.head_count_kv", std::vector<uint32_t>{2, 3});
  model.set("feed_forward_length", std::vector<uint32_t>{48, 20});
  const auto hyper = *hyper_of(model);
  EXPECT_EQ(hyper.dim(Dim::q_width, 0), 32u);
  EXPECT_EQ(hyper.dim(Dim::q_width, 1), 48u);
  EXPECT_EQ(hyper.dim(Dim::k_width, 1), 24u);
  EXPECT_EQ(hyper.dim(Dim::n_ff, 1), 20u);
  expect_refused("llama", "attention.head_count", std::vector<uint32_t>{4});
  expect_refused("llama", "attention.head_count", std::vector<uint32_t>{4, 4, 4});
  expect_refused("llama", "attention.head_count", std::vector<uint32_t>{4, 0});
  expect_refused("llama", "attention.head_count_kv", std::vector<uint32_t>{2, 3});
  expect_refused("llama", "feed_forward_length", std::vector<uint32_t>{48, 0});
}

// The two models whose scale is not that of the head size: 46 layers of gemma2 (27B), 62 of gemma3 (27B).
TEST(Hyper, ScaleOfTheLargestGemmas) {
  Synthetic model = test::golden_case("gemma2");
  model.set("block_count", uint32_t{46});
  model.set("attention.key_length", uint32_t{16});
  EXPECT_FLOAT_EQ(hyper_of(model)->attention_scale, 1 / std::sqrt(32.0f / 4));
  model.set("block_count", uint32_t{45});
  EXPECT_FLOAT_EQ(hyper_of(model)->attention_scale, 1 / std::sqrt(16.0f));
}

TEST(Hyper, AHugeContextAllocatesNothing) {
  Synthetic model = test::golden_case("llama");
  model.set("context_length", std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(hyper_of(model)->n_ctx_train, std::numeric_limits<uint32_t>::max());
}

TEST(RopeTable, LinearDividesPositions) {
  const RopeHyper rope{.rot_dim = 8, .scaling = RopeScaling::linear, .factor = 4};
  const RopeTable table = rope_table(rope, 10000, true, {}), plain = rope_table(rope, 10000, false, {});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(plain.inv_freq[i], std::pow(10000.0, -static_cast<double>(i) / 4));
    EXPECT_DOUBLE_EQ(table.inv_freq[i], plain.inv_freq[i] / 4);
  }
  EXPECT_EQ(table.magnitude, 1);
}

// arXiv:2309.00071: pairs that turn more than 32 times in the original context keep their frequency, those that turn
// less than once are divided by the factor, those between are mixed.
TEST(RopeTable, YarnKeepsFastPairsAndDividesSlowOnes) {
  const RopeHyper rope{.rot_dim = 64, .scaling = RopeScaling::yarn, .factor = 8, .n_ctx_original = 4096};
  const RopeTable table = rope_table(rope, 10000, true, {}), plain = rope_table(rope, 10000, false, {});
  for (size_t i = 0; i < 32; ++i) {
    const double turns = 4096 * plain.inv_freq[i] / (2 * std::numbers::pi),
                 ratio = table.inv_freq[i] / plain.inv_freq[i];
    // Borders are rounded to whole pairs: a factor 10000^(1/32) = 1.33.
    if (turns > 32 * 1.4) {
      EXPECT_NEAR(ratio, 1, 1e-15) << i;
    }
    if (turns < 1 / 1.4) {
      EXPECT_NEAR(ratio, 1.0 / 8, 1e-15) << i;
    }
    EXPECT_LE(ratio, 1);
    EXPECT_GE(ratio, 1.0 / 8);
  }
  EXPECT_DOUBLE_EQ(table.magnitude, 0.1 * std::log(8.0) + 1);
}

TEST(Roles, SmallVectorsAreFloatsMatricesAnyWeightType) {
  for (const Role role : {Role::norm, Role::bias, Role::scale, Role::rope_factors}) {
    EXPECT_TRUE(is_dtype_allowed(role, DType::f32));
    EXPECT_TRUE(is_dtype_allowed(role, DType::bf16));
    EXPECT_FALSE(is_dtype_allowed(role, DType::q8_0));
    EXPECT_FALSE(is_dtype_allowed(role, DType::i32));
  }
  for (const Role role : {Role::embedding, Role::output, Role::linear, Role::expert, Role::router}) {
    EXPECT_TRUE(is_dtype_allowed(role, DType::q4_k));
    EXPECT_TRUE(is_dtype_allowed(role, DType::iq1_m));
    EXPECT_TRUE(is_dtype_allowed(role, DType::f16));
    for (const DType never : {DType::i8, DType::i16, DType::i32, DType::i64, DType::f64, DType::q8_1, DType::q8_k}) {
      EXPECT_FALSE(is_dtype_allowed(role, never));
    }
  }
}

}  // namespace
}  // namespace tamis
