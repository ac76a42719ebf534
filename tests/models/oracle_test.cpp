// Tiny random models of every architecture against the float64 oracle (tests/golden/tiny_models.py), and the exactness
// law.
#include <gtest/gtest.h>

#include <numeric>

#include "base/thread_pool.h"
#include "compute/reference.h"
#include "tests/models/synthetic.h"

namespace tamis {
namespace {

using test::Synthetic;

// Rounding to float32 (2^-24) after each of ~25 ops a layer: errors add like a random walk, sqrt(25·7 layers)·2^-24 ≈
// 8e-7 of a value's own size; logits sum n_embd such values and the largest of ~1000 is looked at (≈ 4 deviations):
// below 5e-6.
constexpr double kOracleBound = 5e-6;

class Oracle : public ::testing::TestWithParam<Synthetic> {
 protected:
  std::unique_ptr<Backend> backend = make_reference_backend();
  Result<Model> model = load_model(test::open_synthetic(GetParam()), *backend);
  void SetUp() override { ASSERT_TRUE(model.has_value()) << model.error().to_string(); }
};

TEST_P(Oracle, LogitsAgree) {
  EXPECT_TRUE(model->warnings.empty());
  EXPECT_LT(test::spread_error(test::all_logits(*model, *backend, GetParam().ids), GetParam().expected), kOracleBound);
}

// Feeds `ids` in pieces of n tokens; logits of every token.
std::vector<float> in_pieces(const Model& model, Backend& backend, std::span<const int32_t> ids, size_t n) {
  KvCache cache = model.make_cache();
  std::vector<float> out;
  for (size_t first = 0; first < ids.size(); first += n) {
    const auto piece = ids.subspan(first, std::min(n, ids.size() - first));
    std::vector<KvSlot> slots;
    std::vector<uint32_t> rows(piece.size());
    std::iota(rows.begin(), rows.end(), 0u);
    for (const uint32_t i : rows) slots.push_back({&cache, static_cast<uint32_t>(first) + i});
    const auto logits = forward(model, backend, {piece, slots, rows});
    EXPECT_TRUE(logits.has_value());
    if (logits) out.insert(out.end(), logits->begin(), logits->end());
  }
  return out;
}

TEST_P(Oracle, ChunksOfThePromptChangeNoBit) {
  const std::vector<float> whole = test::all_logits(*model, *backend, GetParam().ids);
  for (const size_t n : {1, 2, 3, 5}) EXPECT_EQ(in_pieces(*model, *backend, GetParam().ids, n), whole) << n;
}

TEST_P(Oracle, ThreadsChangeNoBit) {
  const std::vector<float> alone = test::all_logits(*model, *backend, GetParam().ids);
  const auto pool = ThreadPool::create(3);
  const auto threaded = make_reference_backend(pool.get());
  EXPECT_EQ(test::all_logits(*model, *threaded, GetParam().ids), alone);
}

// Another sequence in the same batches, tokens of both interleaved.
TEST_P(Oracle, OtherSequencesChangeNoBit) {
  const std::vector<int32_t>& ids = GetParam().ids;
  const std::vector<float> alone = test::all_logits(*model, *backend, ids);
  KvCache mine = model->make_cache(), other = model->make_cache();
  std::vector<int32_t> tokens;
  std::vector<KvSlot> slots;
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < ids.size(); ++i) {
    if (i % 3 != 1) {
      slots.push_back({&other, static_cast<uint32_t>(std::count_if(
                                   slots.begin(), slots.end(), [&](const KvSlot& s) { return s.cache == &other; }))});
      tokens.push_back(static_cast<int32_t>((i * 11 + 1) % model->n_vocab()));
    }
    rows.push_back(static_cast<uint32_t>(tokens.size()));
    slots.push_back({&mine, i});
    tokens.push_back(ids[i]);
  }
  const auto logits = forward(*model, *backend, {tokens, slots, rows});
  ASSERT_TRUE(logits.has_value());
  EXPECT_EQ(*logits, alone);
}

TEST_P(Oracle, OnlyTheRowsAskedFor) {
  const std::vector<int32_t>& ids = GetParam().ids;
  const std::vector<float> all = test::all_logits(*model, *backend, ids);
  KvCache cache = model->make_cache();
  std::vector<KvSlot> slots;
  for (uint32_t i = 0; i < ids.size(); ++i) slots.push_back({&cache, i});
  const std::vector<uint32_t> rows = {2, 7, static_cast<uint32_t>(ids.size() - 1)};
  const auto some = forward(*model, *backend, {ids, slots, rows});
  ASSERT_TRUE(some.has_value());
  const size_t n_vocab = model->n_vocab();
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(rows[r] * n_vocab);
    EXPECT_TRUE(std::equal(from, from + static_cast<std::ptrdiff_t>(n_vocab),
                           some->begin() + static_cast<std::ptrdiff_t>(r * n_vocab)));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Oracle, ::testing::ValuesIn(test::golden_cases()),
                         [](const auto& row) { return row.param.name; });

// Layers of different widths: in pieces as at once, and equal to the plain model when every layer says the same.
TEST(LayerArrays, WidthsMayDiffer) {
  const auto backend = make_reference_backend();
  Synthetic same = test::golden_case("llama");
  same.set("attention.head_count", std::vector<uint32_t>{4, 4});
  same.set("feed_forward_length", std::vector<uint32_t>{48, 48});
  const auto model = load_model(test::open_synthetic(same), *backend);
  ASSERT_TRUE(model.has_value()) << model.error().to_string();
  EXPECT_LT(test::spread_error(test::all_logits(*model, *backend, same.ids), same.expected), kOracleBound);

  Synthetic other = test::golden_case("llama_b21_values");  // heads of 24 and 16
  other.set("attention.head_count", std::vector<uint32_t>{2, 4});
  other.set("attention.head_count_kv", std::vector<uint32_t>{1, 4});
  const std::map<std::string, Shape> shapes = {{"blk.1.attn_q.weight", Shape{96, 32}},
                                               {"blk.1.attn_k.weight", Shape{96, 32}},
                                               {"blk.1.attn_v.weight", Shape{64, 32}},
                                               {"blk.1.attn_output.weight", Shape{32, 64}}};
  for (test::SyntheticTensor& tensor : other.tensors) {
    if (const auto it = shapes.find(tensor.name); it != shapes.end()) tensor.shape = it->second;
  }
  const auto wide = load_model(test::open_synthetic(other), *backend);
  ASSERT_TRUE(wide.has_value()) << wide.error().to_string();
  EXPECT_EQ(in_pieces(*wide, *backend, other.ids, 3), test::all_logits(*wide, *backend, other.ids));
}

// ---- what a batch may not be

class BatchErrors : public ::testing::Test {
 protected:
  const Synthetic& synthetic = test::golden_case("llama");
  std::unique_ptr<Backend> backend = make_reference_backend();
  Model model = *load_model(test::open_synthetic(synthetic), *backend);
  KvCache cache = model.make_cache();

  Result<std::vector<float>> run(std::vector<int32_t> tokens, std::vector<uint32_t> positions,
                                 std::vector<uint32_t> rows) {
    std::vector<KvSlot> slots;
    for (const uint32_t position : positions) slots.push_back({&cache, position});
    return forward(model, *backend, {tokens, slots, rows});
  }
};

TEST_F(BatchErrors, TokensOutsideTheVocabulary) {
  EXPECT_EQ(run({40}, {0}, {0}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(run({-1}, {0}, {0}).error().code, ErrorCode::invalid_argument);
}

TEST_F(BatchErrors, PositionsWithGaps) {
  EXPECT_EQ(run({1}, {1}, {0}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(run({1, 2}, {0, 2}, {0}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(run({1, 2}, {0, 0}, {0}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(cache.n_tokens(), 0u);
}

TEST_F(BatchErrors, RowsOutOfOrderOrRange) {
  EXPECT_EQ(run({1, 2}, {0, 1}, {1, 0}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(run({1, 2}, {0, 1}, {2}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(run({}, {}, {}).error().code, ErrorCode::invalid_argument);
}

TEST_F(BatchErrors, NoRowsAtAllOnlyFillsTheCache) {
  const auto nothing = run({1, 2}, {0, 1}, {});
  ASSERT_TRUE(nothing.has_value());
  EXPECT_TRUE(nothing->empty());
  EXPECT_EQ(cache.n_tokens(), 2u);
}

TEST_F(BatchErrors, TruncationContinuesFromThere) {
  ASSERT_TRUE(run({1, 2, 3}, {0, 1, 2}, {2}).has_value());
  const auto expected = run({4}, {3}, {0});
  cache.truncate(1);
  ASSERT_TRUE(run({2, 3}, {1, 2}, {}).has_value());
  EXPECT_EQ(*run({4}, {3}, {0}), *expected);
}

}  // namespace
}  // namespace tamis
