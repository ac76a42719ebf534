// Faults reported elsewhere that touch model loading and the forward pass, by id; and weights that are not numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compute/reference.h"
#include "models/rope.h"
#include "tests/models/synthetic.h"

namespace tamis {
namespace {

using test::Synthetic;
using ::testing::HasSubstr;

// rope_freqs.weight is used on every path: eight ones change nothing, the rule's factors change every position above 0.
class B19 : public ::testing::Test {
 protected:
  Synthetic model(bool has_factors) const {
    Synthetic out = test::golden_case("llama");
    out.set("embedding_length", uint32_t{32});
    out.set("attention.head_count", uint32_t{2});
    out.set("attention.head_count_kv", uint32_t{2});
    out.set("rope.freq_base", 500000.0f);
    for (test::SyntheticTensor& tensor : out.tensors) {
      if (tensor.name.find("attn_k") != std::string::npos || tensor.name.find("attn_v") != std::string::npos)
        tensor.shape = Shape{32, 32};
    }
    if (has_factors) out.tensors.push_back({"rope_freqs.weight", Shape{8}});
    return out;
  }
  std::vector<float> logits(bool has_factors, std::vector<float> factors) {
    const Synthetic synthetic = model(has_factors);
    const auto loaded = load_model(test::open_synthetic(synthetic,
                                                        [&](const std::string& name, std::vector<float>& values) {
                                                          if (name == "rope_freqs.weight") values = factors;
                                                        }),
                                   *backend);
    EXPECT_TRUE(loaded.has_value()) << loaded.error().to_string();
    EXPECT_TRUE(loaded->warnings.empty());
    return test::all_logits(*loaded, *backend, synthetic.ids);
  }
  std::unique_ptr<Backend> backend = make_reference_backend();
  const std::vector<float> rule = {1, 1, 1, 1, 2.6945f, 8, 8, 8};
};

TEST_F(B19, B19_RopeFreqsOfOnesChangeNothing) {
  EXPECT_EQ(logits(true, std::vector<float>(8, 1.0f)), logits(false, {}));
}

TEST_F(B19, B19_RopeFreqsAreUsed) {
  const std::vector<float> with = logits(true, rule), without = logits(false, {});
  const size_t n_vocab = 40;
  for (size_t i = 0; i < with.size() / n_vocab; ++i) {
    const bool is_equal = std::equal(with.begin() + static_cast<std::ptrdiff_t>(i * n_vocab),
                                     with.begin() + static_cast<std::ptrdiff_t>((i + 1) * n_vocab),
                                     without.begin() + static_cast<std::ptrdiff_t>(i * n_vocab));
    EXPECT_EQ(is_equal, i == 0) << "position " << i;
  }
}

TEST_F(B19, B19_AnglesAreThoseOfTheRule) {
  RopeHyper rope{.rot_dim = 16, .freq_base = 500000};
  const RopeTable table = rope_table(rope, rope.freq_base, true, rule);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_DOUBLE_EQ(table.inv_freq[i], std::pow(500000.0, -2.0 * static_cast<double>(i) / 16) / rule[i]);
  }
}

TEST_F(B19, B19_ATensorThatIsNeverUsedIsReported) {
  Synthetic other = test::golden_case("qwen2");  // qwen2 has no place for it
  other.tensors.push_back({"rope_freqs.weight", Shape{4}});
  const auto loaded = load_model(test::open_synthetic(other), *backend);
  ASSERT_TRUE(loaded.has_value());
  ASSERT_EQ(loaded->warnings.size(), 1u);
  EXPECT_THAT(loaded->warnings[0], HasSubstr("rope_freqs.weight"));
}

// Head size from key_length, not n_embd / n_head. The three files' logits are checked against the oracle
// (Models/Oracle.*/llama_b21_*).
TEST(ModelFaults, B21_HeadSizeIsKeyLength) {
  const auto backend = make_reference_backend();
  for (const char* name : {"llama_b21_head", "llama_b21_partial", "llama_b21_values"}) {
    const Synthetic& synthetic = test::golden_case(name);
    const auto model = load_model(test::open_synthetic(synthetic), *backend);
    ASSERT_TRUE(model.has_value()) << model.error().to_string();
    EXPECT_EQ(model->hyper.k_dim, 24u);
    EXPECT_EQ(model->hyper.dim(Dim::attn_width, 0), 2u * model->hyper.v_dim);
    EXPECT_FLOAT_EQ(model->hyper.attention_scale, 1.0f / std::sqrt(24.0f));
    EXPECT_LT(test::spread_error(test::all_logits(*model, *backend, synthetic.ids), synthetic.expected), 5e-6);
  }
}

TEST(ModelFaults, B21_ShapesThatContradictTheMetadata) {
  Synthetic model = test::golden_case("llama_b21_head");
  std::erase_if(model.metadata, [](const auto& entry) { return entry.first == "attention.key_length"; });
  model.set("rope.dimension_count", uint32_t{16});
  const auto loaded = load_model(test::open_synthetic(model), *make_reference_backend());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::shape);
  EXPECT_THAT(loaded.error().to_string(), HasSubstr("blk.0.attn_q.weight"));
  EXPECT_THAT(loaded.error().to_string(), HasSubstr("[48, 32]"));
}

// One sequence's logits are the same bits alone, warm, in another batch shape and beside an unrelated request: the
// other half of this law is checked for every architecture in oracle_test.cpp.
TEST(ModelFaults, B28_FourAtOnceEqualOneAlone) {
  const auto backend = make_reference_backend();
  const Synthetic& synthetic = test::golden_case("gemma3_window");
  const auto model = load_model(test::open_synthetic(synthetic), *backend);
  ASSERT_TRUE(model.has_value());
  const std::vector<float> alone = test::all_logits(*model, *backend, synthetic.ids);
  std::vector<KvCache> caches;
  for (int i = 0; i < 4; ++i) caches.push_back(model->make_cache());
  std::vector<int32_t> tokens;
  std::vector<KvSlot> slots;
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < synthetic.ids.size(); ++i) {
    for (KvCache& cache : caches) {
      rows.push_back(static_cast<uint32_t>(tokens.size()));
      tokens.push_back(synthetic.ids[i]);
      slots.push_back({&cache, i});
    }
  }
  const auto logits = forward(*model, *backend, {tokens, slots, rows});
  ASSERT_TRUE(logits.has_value());
  const size_t n_vocab = model->n_vocab();
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto expected = alone.begin() + static_cast<std::ptrdiff_t>(row / 4 * n_vocab);
    ASSERT_TRUE(std::equal(expected, expected + static_cast<std::ptrdiff_t>(n_vocab),
                           logits->begin() + static_cast<std::ptrdiff_t>(row * n_vocab)));
  }
}

// S086: weights that are not numbers load and run; every logit is NaN, which sampling refuses.
TEST(ModelFaults, S086_WeightsThatAreNotNumbers) {
  const auto backend = make_reference_backend();
  for (const Synthetic& synthetic : test::golden_cases()) {
    for (const float poison :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f}) {
      const auto model =
          load_model(test::open_synthetic(synthetic,
                                          [&](const std::string& name, std::vector<float>& values) {
                                            if (name.rfind("rope_", 0) != 0 && name.find(".scale") == std::string::npos)
                                              std::fill(values.begin(), values.end(), poison);
                                          }),
                     *backend);
      ASSERT_TRUE(model.has_value()) << model.error().to_string();
      const std::vector<float> logits = test::all_logits(*model, *backend, synthetic.ids);
      if (std::isnan(poison)) {
        EXPECT_TRUE(std::all_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) << synthetic.name;
      }
    }
  }
}

TEST(ModelFaults, RopeFactorsMustBeNumbersAboveZero) {
  const Synthetic& synthetic = test::golden_case("llama_gqa3");
  for (const float bad :
       {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto loaded = load_model(test::open_synthetic(synthetic,
                                                        [&](const std::string& name, std::vector<float>& values) {
                                                          if (name == "rope_freqs.weight") values[3] = bad;
                                                        }),
                                   *make_reference_backend());
    ASSERT_FALSE(loaded.has_value());
    EXPECT_THAT(loaded.error().to_string(), HasSubstr("rope_freqs.weight"));
  }
}

}  // namespace
}  // namespace tamis
