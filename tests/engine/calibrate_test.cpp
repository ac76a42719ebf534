// Calibration: sums against a computation by hand, independence of batches and threads, and experts that are never
// chosen (B18).
#include "engine/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compute/reference.h"
#include "cpu/backend.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::load_tiny;
using test::some_tokens;

Imatrix collect(const std::shared_ptr<const Engine>& engine, std::span<const TokenId> tokens,
                const CalibrationOptions& options) {
  auto calibrator = Calibrator::create(engine, options);
  EXPECT_TRUE(calibrator) << calibrator.error().to_string();
  for (size_t begin = 0; begin + options.n_ctx <= tokens.size(); begin += options.n_ctx) {
    const Status status = calibrator->add(tokens.subspan(begin, options.n_ctx));
    EXPECT_TRUE(status) << status.error().to_string();
  }
  return calibrator->imatrix();
}

// The first layer reads the embedding divided by its root mean square; norm gains are 1.
TEST(Calibrate, FirstInputsAreTheEmbeddings) {
  const auto engine = load_tiny(test::write_tiny_model(), make_reference_backend());
  const std::vector<TokenId> tokens = some_tokens(24);
  const Imatrix imatrix = collect(engine, tokens, {.n_ctx = 12, .has_perplexity = false});
  const GgufFile& file = engine->model().file;
  const GgufTensor& table = *file.find_tensor("token_embd.weight");
  const auto* const rows = reinterpret_cast<const float*>(file.data(table).data());
  const size_t width = table.shape.row_len();
  std::vector<double> expected(width);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t token = i % 12 == 0 ? test::kTinyBos : static_cast<size_t>(tokens[i]);
    double squares = 0;
    for (size_t k = 0; k < width; ++k) squares += std::pow(static_cast<double>(rows[token * width + k]), 2);
    const double mean = squares / static_cast<double>(width) + 1e-5;
    for (size_t k = 0; k < width; ++k) expected[k] += std::pow(static_cast<double>(rows[token * width + k]), 2) / mean;
  }
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}) {
    const ImatrixEntry& entry = imatrix.entries.at(name);
    EXPECT_EQ(entry.counts, std::vector<double>{24});
    ASSERT_EQ(entry.sums.size(), width);
    // The norm rounds to float32 twice, each a relative 2^-24, and squares double that.
    for (size_t k = 0; k < width; ++k) EXPECT_NEAR(entry.sums[k], expected[k], 5e-7 * expected[k]) << name;
  }
  EXPECT_EQ(imatrix.n_chunks, 2u);
  EXPECT_EQ(imatrix.chunk_size, 12u);
}

TEST(Calibrate, EveryMatrixOfEveryLayerSeesEveryToken) {
  const auto engine = load_tiny(test::write_tiny_model(), make_reference_backend());
  const Imatrix imatrix = collect(engine, some_tokens(20), {.n_ctx = 20, .has_perplexity = false});
  EXPECT_EQ(imatrix.entries.size(), 14u);  // 7 a layer; neither embedding nor norms
  for (const auto& [name, entry] : imatrix.entries) {
    const GgufTensor* const tensor = engine->model().file.find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(entry.n_cols(), tensor->shape.row_len()) << name;
    EXPECT_EQ(entry.counts, std::vector<double>{20}) << name;
    for (const double sum : entry.sums) EXPECT_GT(sum, 0) << name;
  }
  const Imatrix with_output = collect(engine, some_tokens(20), {.n_ctx = 20, .has_output = true});
  EXPECT_EQ(with_output.entries.size(), 15u);
  EXPECT_EQ(with_output.entries.at("token_embd.weight").counts, std::vector<double>{20});
}

TEST(Calibrate, NeitherBatchNorThreadsNorPerplexityChangeASum) {
  const std::string path = test::write_tiny_model();
  const std::vector<TokenId> tokens = some_tokens(64);
  const auto with = [&](uint32_t n_batch, uint32_t n_threads, bool has_perplexity) {
    const auto pool = ThreadPool::create(n_threads);
    const auto engine = load_tiny(path, *make_cpu_backend(pool.get()), {.n_batch = n_batch});
    return collect(engine, tokens, {.n_ctx = 32, .has_perplexity = has_perplexity, .pool = pool.get()});
  };
  const Imatrix expected = with(512, 1, false);
  for (const Imatrix& other : {with(7, 1, false), with(512, 2, true), with(5, 2, true)}) {
    ASSERT_EQ(other.entries.size(), expected.entries.size());
    for (const auto& [name, entry] : expected.entries) {
      EXPECT_EQ(other.entries.at(name).sums, entry.sums) << name;
      EXPECT_EQ(other.entries.at(name).counts, entry.counts) << name;
    }
  }
}

// The diagonal of E[x xᵀ] is what the sums say, weights that read the same input share it, and no order of work changes
// a bit.
TEST(Calibrate, PairsAreThoseOfTheInputs) {
  const std::string path = test::write_tiny_model();
  const std::vector<TokenId> tokens = some_tokens(64);
  const auto with = [&](uint32_t n_batch, uint32_t n_threads) {
    const auto pool = ThreadPool::create(n_threads);
    const auto engine = load_tiny(path, *make_cpu_backend(pool.get()), {.n_batch = n_batch});
    return collect(engine, tokens,
                   {.n_ctx = 32, .has_correlations = true, .has_perplexity = false, .pool = pool.get()});
  };
  const Imatrix expected = with(512, 1);
  ASSERT_EQ(expected.correlations.size(), expected.entries.size());
  EXPECT_EQ(expected.correlations.at("blk.0.attn_q.weight"), expected.correlations.at("blk.0.attn_v.weight"));
  EXPECT_NE(expected.correlations.at("blk.0.attn_q.weight"), expected.correlations.at("blk.0.ffn_up.weight"));
  const Imatrix other = with(7, 2);
  for (const auto& [name, correlations] : expected.correlations) {
    EXPECT_EQ(*other.correlations.at(name)->read(), *correlations->read()) << name;
    const ImatrixEntry& entry = expected.entries.at(name);
    const auto products = input_products(entry, *correlations);
    ASSERT_TRUE(products);
    const uint64_t n = entry.n_cols();
    for (uint64_t i = 0; i < n; ++i) {
      EXPECT_NEAR(static_cast<double>((*products)[i * n + i]), entry.sums[i] / 64, 1e-6 * entry.sums[i]) << name;
      for (uint64_t j = 0; j < i; ++j) EXPECT_EQ((*products)[i * n + j], (*products)[j * n + i]);
    }
  }

  // The first layer's input by hand, as in FirstInputsAreTheEmbeddings.
  const auto engine = load_tiny(path, make_reference_backend());
  const auto* const rows = reinterpret_cast<const float*>(
      engine->model().file.data(*engine->model().file.find_tensor("token_embd.weight")).data());
  const uint64_t width = expected.entries.at("blk.0.attn_q.weight").n_cols();
  double product = 0, first = 0, second = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t token = i % 32 == 0 ? test::kTinyBos : static_cast<size_t>(tokens[i]);
    const float* const x = rows + token * width;
    double squares = 0;
    for (uint64_t k = 0; k < width; ++k) squares += static_cast<double>(x[k]) * static_cast<double>(x[k]);
    const double scale = 1 / (squares / static_cast<double>(width) + 1e-5);
    product += scale * static_cast<double>(x[5]) * static_cast<double>(x[2]);
    first += scale * static_cast<double>(x[5]) * static_cast<double>(x[5]);
    second += scale * static_cast<double>(x[2]) * static_cast<double>(x[2]);
  }
  const auto lower = expected.correlations.at("blk.0.attn_q.weight")->read();
  EXPECT_NEAR((*lower)[5 * 4 / 2 + 2] / Correlations::kUnit, product / std::sqrt(first * second), 1e-4);
}

// Inputs of several tiles of the triangle, the last of them narrower: every pair by hand.
TEST(Calibrate, PairsAcrossTilesAreThoseOfTheInputs) {
  constexpr size_t kTokens = 64, kWindow = 32;
  for (const uint32_t n_ff : {144U, 150U}) {
    const auto pool = ThreadPool::create(2);
    const auto engine = load_tiny(test::write_tiny_model({.n_ff = n_ff}), *make_cpu_backend(pool.get()));
    const std::vector<TokenId> tokens = some_tokens(kTokens);
    const Imatrix imatrix = collect(
        engine, tokens, {.n_ctx = kWindow, .has_correlations = true, .has_perplexity = false, .pool = pool.get()});

    std::vector<double> products(size_t{n_ff} * n_ff);
    const auto add_pairs = [&](std::string_view name, int32_t layer_idx, TensorView x) {
      if (name != "ffn_hidden" || layer_idx != 1) return;
      ASSERT_EQ(x.n_cols, n_ff);
      for (size_t t = 0; t < x.n_rows; ++t)
        for (size_t i = 0; i < n_ff; ++i)
          for (size_t j = 0; j <= i; ++j)
            products[i * n_ff + j] += static_cast<double>(x.row(t)[i]) * static_cast<double>(x.row(t)[j]);
    };
    for (size_t begin = 0; begin < kTokens; begin += kWindow) {
      std::vector<TokenId> window(tokens.begin() + static_cast<ptrdiff_t>(begin),
                                  tokens.begin() + static_cast<ptrdiff_t>(begin + kWindow));
      window[0] = test::kTinyBos;
      Session session(engine);
      session.watch(add_pairs, nullptr);
      ASSERT_TRUE(session.append_all(window, window.size(), nullptr));
    }

    // Half a step of an int16; and each of the three sums of floats is off by at most 2^-24 of Σ|x_i x_j| ≤ the
    // diagonal's root for each of its products and additions.
    const double tolerance = 0.5 / Correlations::kUnit + 3 * 2 * kTokens * 0x1p-24;
    const auto lower = imatrix.correlations.at("blk.1.ffn_down.weight")->read();
    ASSERT_TRUE(lower);
    ASSERT_EQ(lower->size(), size_t{n_ff} * (n_ff - 1) / 2);
    for (size_t i = 0; i < n_ff; ++i) {
      for (size_t j = 0; j < i; ++j) {
        const double expected = products[i * n_ff + j] / std::sqrt(products[i * n_ff + i] * products[j * n_ff + j]);
        EXPECT_NEAR((*lower)[i * (i - 1) / 2 + j] / Correlations::kUnit, expected, tolerance) << i << ", " << j;
      }
    }
  }
}

TEST(Calibrate, PerplexityIsThatOfTheVerb) {
  const auto engine = load_tiny(test::write_tiny_model(), make_reference_backend());
  const std::vector<TokenId> tokens = some_tokens(60);
  auto calibrator = Calibrator::create(engine, {.n_ctx = 20});
  ASSERT_TRUE(calibrator);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(calibrator->add(std::span(tokens).subspan(20 * i, 20)));
  const auto expected = measure_perplexity(engine, tokens, {.n_ctx = 20}, [](const Perplexity&) { return true; });
  EXPECT_EQ(calibrator->perplexity().state().mean_nll, expected->mean_nll);
  EXPECT_FALSE(calibrator->add(std::span(tokens).first(19)));
}

// B18: an expert that is never chosen keeps the count 0, the others keep their sums; merged with a matrix in which it
// is chosen, in either order, it has that one's.
TEST(Calibrate, B18_ExpertsNeverChosenCountZero) {
  const auto dead =
      load_tiny(test::write_tiny_model({.n_expert = 4, .has_dead_expert = true}), make_reference_backend());
  const std::vector<TokenId> tokens = some_tokens(40);
  const Imatrix first = collect(dead, tokens, {.n_ctx = 20, .has_perplexity = false});
  const std::string names[] = {"blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"};
  for (const std::string& name : names) {
    const ImatrixEntry& entry = first.entries.at(name);
    ASSERT_EQ(entry.n_mat(), 4u) << name;
    double n_tokens = 0;
    for (const double count : entry.counts) n_tokens += count;
    EXPECT_EQ(n_tokens, 40) << name;  // one expert a token
    EXPECT_EQ(entry.counts[3], 0) << name;
    EXPECT_TRUE(entry.is_partial());
    for (uint64_t k = 0; k < entry.n_cols(); ++k) EXPECT_EQ(entry.sums[3 * entry.n_cols() + k], 0) << name;
  }
  // Every token reaches one expert: their inputs together are the router's.
  const ImatrixEntry& gate = first.entries.at(names[0]);
  const ImatrixEntry& router = first.entries.at("blk.1.ffn_gate_inp.weight");
  for (uint64_t k = 0; k < gate.n_cols(); ++k) {
    double sum = 0;
    for (uint64_t e = 0; e < 4; ++e) sum += gate.sums[e * gate.n_cols() + k];
    EXPECT_NEAR(sum, router.sums[k], 1e-12 * router.sums[k]);
  }

  const auto alive = load_tiny(test::write_tiny_model({.n_expert = 4}), make_reference_backend());
  const Imatrix second = collect(alive, tokens, {.n_ctx = 20, .has_perplexity = false});
  ASSERT_GT(second.entries.at(names[0]).counts[3], 0);
  Imatrix ab = first, ba = second;
  ASSERT_TRUE(merge_imatrix(ab, second));
  ASSERT_TRUE(merge_imatrix(ba, first));
  for (const std::string& name : names) {
    EXPECT_EQ(ab.entries.at(name).sums, ba.entries.at(name).sums) << name;
    EXPECT_EQ(ab.entries.at(name).counts[3], second.entries.at(name).counts[3]) << name;
    const auto unseen = imatrix_importance(first.entries.at(name), name, 4, first.entries.at(name).n_cols(), 3);
    ASSERT_TRUE(unseen);
    EXPECT_FALSE(unseen->is_seen);
    EXPECT_EQ(unseen->values, std::vector<float>(unseen->values.size(), 1.0f));
  }
}

}  // namespace
}  // namespace tamis
