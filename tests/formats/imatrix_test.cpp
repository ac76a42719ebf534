// Importance matrices: both forms written and read back, every cut and every unsound number refused, sums added in any
// order.
#include "formats/imatrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "formats/gguf_writer.h"
#include "formats/imatrix_statistics.h"
#include "tests/formats/gguf_builder.h"

namespace tamis {
namespace {

using namespace tamis::testing;

// Two weights; the mixture's third expert was never chosen.
Imatrix sample() {
  Imatrix imatrix;
  imatrix.entries["blk.0.attn_q.weight"] = {{1, 2, 0, 4}, {512}};
  imatrix.entries["blk.1.ffn_up_exps.weight"] = {{3, 6, 8, 0, 0, 0}, {1, 4, 0}};
  imatrix.datasets = {"a.txt", "b.txt"};
  imatrix.n_chunks = 1;
  imatrix.chunk_size = 512;
  return imatrix;
}

Result<Imatrix> parse(std::string_view bytes) {
  return read_imatrix(std::make_shared<MemorySource>(std::as_bytes(std::span(bytes))));
}

std::string written(const Imatrix& imatrix, ImatrixFormat format) {
  const TemporaryDir dir;
  const Status status = write_imatrix(imatrix, dir.file("i"), format, false);
  EXPECT_TRUE(status) << status.error().to_string();
  return read_bytes(dir.file("i"));
}

// A .dat file by hand.
std::string dat_entry(std::string_view name, int32_t n_calls, const std::vector<float>& values) {
  std::string out = le<int32_t>(static_cast<int32_t>(name.size())) + std::string(name) + le(n_calls);
  out += le<int32_t>(static_cast<int32_t>(values.size()));
  for (const float value : values) out += le(value);
  return out;
}

// Two weights of three columns that share their inputs, and one of its own.
Imatrix with_correlations() {
  Imatrix imatrix;
  for (const char* name : {"a.weight", "b.weight", "c.weight"}) imatrix.entries[name] = {{4, 9, 1}, {2}};
  imatrix.correlations["a.weight"] = correlations_in_memory(3, {16384, -32767, 100});
  imatrix.correlations["b.weight"] = imatrix.correlations["a.weight"];
  imatrix.correlations["c.weight"] = correlations_in_memory(3, {1, 2, 3});
  imatrix.datasets = {"a.txt"};
  return imatrix;
}

TEST(Imatrix, CorrelationsComeBackAndStayShared) {
  const std::string bytes =
      written(with_correlations(), ImatrixFormat::gguf);  // which correlations are read from later
  const auto after = parse(bytes);
  ASSERT_TRUE(after) << after.error().to_string();
  ASSERT_EQ(after->correlations.size(), 3u);
  EXPECT_EQ(after->correlations.at("a.weight"), after->correlations.at("b.weight"));
  EXPECT_EQ(*after->correlations.at("b.weight")->read(), (std::vector<int16_t>{16384, -32767, 100}));
  EXPECT_EQ(*after->correlations.at("c.weight")->read(), (std::vector<int16_t>{1, 2, 3}));
  const auto products = input_products(after->entries.at("a.weight"), *after->correlations.at("a.weight"));
  ASSERT_TRUE(products);
  EXPECT_FLOAT_EQ((*products)[0], 2);      // 4 / 2
  EXPECT_FLOAT_EQ((*products)[4], 4.5f);   // 9 / 2
  EXPECT_NEAR((*products)[3], 1.5, 1e-4);  // half of √2 · √4.5
  EXPECT_FLOAT_EQ((*products)[6], -1);     // −√2 · √½
}

// Sums of products add up: as if both texts had been seen at once.
TEST(Imatrix, MergedCorrelationsAreThoseOfBothTexts) {
  Imatrix a = with_correlations(), b = with_correlations();
  b.entries["a.weight"] = b.entries["b.weight"] = {{12, 0, 1}, {5}};
  b.correlations["a.weight"] = b.correlations["b.weight"] = correlations_in_memory(3, {0, 32767, 0});
  b.correlations.erase("c.weight");
  ASSERT_TRUE(merge_imatrix(a, b));
  EXPECT_EQ(a.correlations.at("a.weight"), a.correlations.at("b.weight"));
  const auto lower = *a.correlations.at("a.weight")->read();
  // ½ · 2 · 3 of 4 · 3; (−2 · 1 + √12 · 1) of 4 · √2; 3 · 100 / 32767 of 3 · √2.
  EXPECT_NEAR(lower[0], 16384 * 6.0 / 12, 1);
  EXPECT_NEAR(lower[1], 32767 * (std::sqrt(12.0) - 2) / (4 * std::sqrt(2.0)), 1);
  EXPECT_NEAR(lower[2], 100 / std::sqrt(2.0), 1);
  EXPECT_EQ(*a.correlations.at("c.weight")->read(), (std::vector<int16_t>{1, 2, 3}));
  b.correlations["a.weight"] = correlations_in_memory(2, {5});
  EXPECT_EQ(merge_imatrix(a, b).error().code, ErrorCode::shape);
}

TEST(Imatrix, CorrelationsThatDoNotFitAreNamed) {
  for (const char* wrong : {"of another weight", "of another size", "of another type", "no tensor", "unequal lists"}) {
    const std::string_view what = wrong;
    GgufWriter writer;
    ASSERT_TRUE(writer.add_string("general.type", "imatrix"));
    ASSERT_TRUE(writer.add_strings("imatrix.datasets", std::vector<std::string>{"x"}));
    ASSERT_TRUE(writer.add_u32("imatrix.chunk_count", 1));
    ASSERT_TRUE(writer.add_u32("imatrix.chunk_size", 4));
    std::vector<std::string> weights{what == "of another weight" ? "z.weight" : "a.weight"};
    if (what == "unequal lists") weights.emplace_back("a.weight");
    ASSERT_TRUE(writer.add_strings("tamis.correlation.weights", weights));
    ASSERT_TRUE(
        writer.add_strings("tamis.correlation.tensors",
                           std::vector<std::string>{what == "no tensor" ? "nothing" : "a.weight.in_correlation"}));
    const uint64_t n = what == "of another size" ? 4 : 3;
    const DType dtype = what == "of another type" ? DType::f16 : DType::i16;
    ASSERT_TRUE(writer.add_tensor("a.weight.in_sum2", DType::f32, {1, 3}));
    ASSERT_TRUE(writer.add_tensor("a.weight.counts", DType::f32, {1, 1}));
    ASSERT_TRUE(writer.add_tensor("a.weight.in_correlation", dtype, {n}));
    const TemporaryDir dir;
    ASSERT_TRUE(writer.begin(dir.file("i"), false));
    const std::vector<float> sums{1, 2, 3}, counts{1};
    ASSERT_TRUE(writer.write(std::as_bytes(std::span(sums))));
    ASSERT_TRUE(writer.write(std::as_bytes(std::span(counts))));
    const std::vector<int16_t> lower(n);
    ASSERT_TRUE(writer.write(std::as_bytes(std::span(lower))));
    ASSERT_TRUE(writer.finish());
    const auto read = read_imatrix(dir.file("i"));
    ASSERT_FALSE(read) << wrong;
    EXPECT_EQ(read.error().code, ErrorCode::format) << wrong;
  }
}

TEST(Imatrix, GgufGivesBackWhatWasWritten) {
  const Imatrix before = sample();
  const auto after = parse(written(before, ImatrixFormat::gguf));
  ASSERT_TRUE(after) << after.error().to_string();
  EXPECT_EQ(after->datasets, before.datasets);
  EXPECT_EQ(after->n_chunks, 1u);
  EXPECT_EQ(after->chunk_size, 512u);
  ASSERT_EQ(after->entries.size(), 2u);
  for (const auto& [name, entry] : before.entries) {
    EXPECT_EQ(after->entries.at(name).sums, entry.sums) << name;
    EXPECT_EQ(after->entries.at(name).counts, entry.counts) << name;
  }
  EXPECT_TRUE(after->entries.at("blk.1.ffn_up_exps.weight").is_partial());
}

TEST(Imatrix, DatKeepsMeans) {
  const auto after = parse(written(sample(), ImatrixFormat::dat));
  ASSERT_TRUE(after) << after.error().to_string();
  EXPECT_EQ(after->datasets, std::vector<std::string>{"a.txt"});
  EXPECT_EQ(after->n_chunks, 1u);
  const auto q = imatrix_importance(after->entries.at("blk.0.attn_q.weight"), "q", 1, 4, 0);
  ASSERT_TRUE(q);
  EXPECT_EQ(q->values, (std::vector<float>{1 / 512.0f, 2 / 512.0f, 0, 4 / 512.0f}));
  // Experts share one count there; the one never chosen has the mean 1.
  const ImatrixEntry& up = after->entries.at("blk.1.ffn_up_exps.weight");
  EXPECT_EQ(imatrix_importance(up, "up", 3, 2, 0)->values, (std::vector<float>{3, 6}));
  EXPECT_EQ(imatrix_importance(up, "up", 3, 2, 1)->values, (std::vector<float>{2, 0}));
  EXPECT_EQ(imatrix_importance(up, "up", 3, 2, 2)->values, (std::vector<float>{1, 1}));
}

TEST(Imatrix, ReadsADatFileByTheLayout) {
  const std::string body = le<int32_t>(1) + dat_entry("w", 2, {2, 4});
  for (const std::string& tail : {std::string(), le<int32_t>(7) + le<int32_t>(2) + "ds"}) {
    const auto imatrix = parse(body + tail);
    ASSERT_TRUE(imatrix) << imatrix.error().to_string();
    EXPECT_EQ(imatrix->entries.at("w").counts, std::vector<double>{2.0 * kImatrixChunkSize});
    EXPECT_EQ(imatrix_importance(imatrix->entries.at("w"), "w", 1, 2, 0)->values, (std::vector<float>{1, 2}));
    EXPECT_EQ(imatrix->n_chunks, tail.empty() ? 0u : 7u);
  }
}

TEST(Imatrix, EveryCutIsAnError) {
  const std::string gguf = written(sample(), ImatrixFormat::gguf);
  constexpr size_t kPadding = 20;  // after the last tensor, three counts: it may be missing
  for (size_t n = 0; n < gguf.size() - kPadding; ++n) EXPECT_FALSE(parse(gguf.substr(0, n))) << n << " bytes of GGUF";
  const std::string dat = written(sample(), ImatrixFormat::dat);
  size_t n_read = 0;
  for (size_t n = 0; n < dat.size(); ++n) n_read += parse(dat.substr(0, n)) ? 1 : 0;
  EXPECT_EQ(n_read, 1u);  // files before 2024 end after the entries
  EXPECT_FALSE(parse(dat + "x"));
}

TEST(Imatrix, UnsoundNumbersNameTheirTensor) {
  struct Case {
    double sum, count;
  };
  for (const Case& bad : {Case{std::nan(""), 1}, Case{INFINITY, 1}, Case{-1, 1}, Case{1, 0}, Case{1, std::nan("")},
                          Case{0, -1}, Case{0, INFINITY}, Case{3e38, 1e-3}}) {
    GgufWriter writer;
    ASSERT_TRUE(writer.add_string("general.type", "imatrix"));
    ASSERT_TRUE(writer.add_strings("imatrix.datasets", std::vector<std::string>{"t"}));
    ASSERT_TRUE(writer.add_u32("imatrix.chunk_count", 1));
    ASSERT_TRUE(writer.add_u32("imatrix.chunk_size", 512));
    ASSERT_TRUE(writer.add_tensor("blk.7.w.in_sum2", DType::f32, {1, 1}));
    ASSERT_TRUE(writer.add_tensor("blk.7.w.counts", DType::f32, {1, 1}));
    const TemporaryDir dir;
    ASSERT_TRUE(writer.begin(dir.file("i"), false));
    for (const double value : {bad.sum, bad.count}) {
      const auto number = static_cast<float>(value);
      ASSERT_TRUE(writer.write(std::as_bytes(std::span(&number, 1))));
    }
    ASSERT_TRUE(writer.finish());
    const auto imatrix = read_imatrix(dir.file("i"));
    ASSERT_FALSE(imatrix) << bad.sum << " " << bad.count;
    EXPECT_EQ(imatrix.error().code, ErrorCode::format);
    EXPECT_NE(imatrix.error().to_string().find("blk.7.w"), std::string::npos) << imatrix.error().to_string();
  }
  for (const float bad : {NAN, INFINITY, -1.0f}) {
    const auto imatrix = parse(le<int32_t>(1) + dat_entry("blk.7.w", 1, {1, bad}));
    ASSERT_FALSE(imatrix);
    EXPECT_NE(imatrix.error().to_string().find("blk.7.w"), std::string::npos) << imatrix.error().to_string();
  }
}

TEST(Imatrix, RefusesBrokenDatFiles) {
  const std::string good = dat_entry("w", 1, {1});
  ASSERT_TRUE(parse(le<int32_t>(1) + good));
  EXPECT_FALSE(parse(le<int32_t>(0)));
  EXPECT_FALSE(parse(le<int32_t>(-1) + good));
  EXPECT_FALSE(parse(le<int32_t>(2) + good + good)) << "the same name twice";
  EXPECT_FALSE(parse(le<int32_t>(1) + dat_entry("w", -1, {1})));
  EXPECT_FALSE(parse(le<int32_t>(1) + dat_entry("w", 1, {})));
  EXPECT_FALSE(parse(le<int32_t>(1) + good + le<int32_t>(-1) + le<int32_t>(0)));
  EXPECT_FALSE(parse(le<int32_t>(1) + good + le<int32_t>(1) + le<int32_t>(5) + "ds"));
}

TEST(Imatrix, MergesInAnyOrder) {
  Imatrix other = sample();
  other.entries["blk.1.ffn_up_exps.weight"] = {{0.1, 0.7, 0, 0, 5, 7}, {2, 0, 9}};
  other.entries["blk.0.attn_k.weight"] = {{1}, {1}};
  other.datasets = {"b.txt", "c.txt"};
  other.n_chunks = 4;
  Imatrix ab = sample(), ba = other;
  ASSERT_TRUE(merge_imatrix(ab, other));
  ASSERT_TRUE(merge_imatrix(ba, sample()));
  ASSERT_EQ(ab.entries.size(), 3u);
  for (const auto& [name, entry] : ab.entries) {
    EXPECT_EQ(entry.sums, ba.entries.at(name).sums) << name;
    EXPECT_EQ(entry.counts, ba.entries.at(name).counts) << name;
  }
  EXPECT_EQ(ab.entries.at("blk.1.ffn_up_exps.weight").counts, (std::vector<double>{3, 4, 9}));
  EXPECT_EQ(ab.n_chunks, 5u);
  EXPECT_EQ(ab.datasets, (std::vector<std::string>{"a.txt", "b.txt", "c.txt"}));
}

TEST(Imatrix, OfAnotherModelIsNamed) {
  Imatrix other;
  other.entries["blk.0.attn_q.weight"] = {{1, 2}, {1}};
  Imatrix into = sample();
  const Status merged = merge_imatrix(into, other);
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().code, ErrorCode::shape);
  EXPECT_NE(merged.error().message.find("blk.0.attn_q.weight"), std::string::npos);
  EXPECT_EQ(into.entries.at("blk.0.attn_q.weight").sums, sample().entries.at("blk.0.attn_q.weight").sums);
  const auto importance = imatrix_importance(other.entries["blk.0.attn_q.weight"], "blk.0.attn_q.weight", 1, 4, 0);
  ASSERT_FALSE(importance);
  EXPECT_EQ(importance.error().code, ErrorCode::shape);
  EXPECT_NE(importance.error().message.find("blk.0.attn_q.weight"), std::string::npos);
}

TEST(Imatrix, NamesThatAModelLacksAreCounted) {
  const auto with = [](std::string_view part) {
    return [part](std::string_view name) { return name.find(part) != name.npos; };
  };
  const auto all = check_imatrix_names(sample(), with("blk."));
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(*all, "");
  const auto some = check_imatrix_names(sample(), with("attn_q"));
  ASSERT_TRUE(some.has_value());
  EXPECT_EQ(*some, "the imatrix has 1 entries for tensors that the model lacks, such as blk.1.ffn_up_exps.weight");
  const auto none = check_imatrix_names(sample(), with("ssm"));
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::shape);
  EXPECT_NE(none.error().message.find("none of its 2 entries (\"blk.0.attn_q.weight\", …)"), std::string::npos);
  const auto empty = check_imatrix_names({}, with("ssm"));
  EXPECT_TRUE(empty.has_value() && empty->empty());
}

TEST(Imatrix, ExpertsNeverChosenWeighOne) {
  const Imatrix imatrix = sample();
  const ImatrixEntry& up = imatrix.entries.at("blk.1.ffn_up_exps.weight");
  const auto seen = imatrix_importance(up, "up", 3, 2, 1), unseen = imatrix_importance(up, "up", 3, 2, 2);
  EXPECT_TRUE(seen->is_seen);
  EXPECT_EQ(seen->values, (std::vector<float>{2, 0}));
  EXPECT_FALSE(unseen->is_seen);
  EXPECT_EQ(unseen->values, (std::vector<float>{1, 1}));
}

TEST(Imatrix, RefusesOtherFiles) {
  GgufWriter writer;
  ASSERT_TRUE(writer.add_string("general.type", "model"));
  const TemporaryDir dir;
  ASSERT_TRUE(writer.begin(dir.file("m"), false));
  ASSERT_TRUE(writer.finish());
  const auto model = read_imatrix(dir.file("m"));
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().to_string().find("general.type"), std::string::npos) << model.error().to_string();
  EXPECT_EQ(read_imatrix(dir.file("none")).error().code, ErrorCode::not_found);
}

// By hand: means 1, 2, 3, 6 of one weight, 2, 4, 6, 12 of the next layer's.
TEST(ImatrixStatistics, AreTheDocumentedOnes) {
  Imatrix imatrix;
  imatrix.entries["blk.0.w.weight"] = {{2, 4, 6, 12}, {2}};
  imatrix.entries["blk.1.w.weight"] = {{2, 4, 6, 12}, {1}};
  const ImatrixSummary summary = summarise(imatrix);
  ASSERT_EQ(summary.weights.size(), 2u);
  EXPECT_EQ(summary.weights[0].name, "blk.1.w.weight");  // the larger sum first
  const ImatrixStatistics& first = summary.weights[1];
  EXPECT_EQ(first.n, 4u);
  EXPECT_EQ(first.sum, 12);
  EXPECT_EQ(first.min, 1);
  EXPECT_EQ(first.max, 6);
  EXPECT_EQ(first.mean, 3);
  EXPECT_NEAR(first.deviation, std::sqrt(3.5), 1e-12);
  EXPECT_EQ(first.active, 1);
  EXPECT_EQ(first.outlying, 0.5);  // 1 and 6 lie more than 1.87 from 3
  // −Σ p log2 p of 1/12, 2/12, 3/12, 6/12.
  EXPECT_NEAR(first.entropy, 1.7295739585136224, 1e-12);
  EXPECT_NEAR(first.normalised_entropy, 1.7295739585136224 / 2, 1e-12);
  EXPECT_FALSE(first.cosine);
  EXPECT_NEAR(summary.weights[0].cosine.value(), 1, 1e-12);
  ASSERT_EQ(summary.layers.size(), 2u);
  EXPECT_EQ(summary.layers[0].sum, 12);
  EXPECT_FALSE(summary.layers[0].cosine);
}

}  // namespace
}  // namespace tamis
