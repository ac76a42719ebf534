// Quantization as a whole: importance that is odd (B17), experts nobody chose (B18), runs that stop and go on, bytes
// that do not depend on threads.
#include "convert/quantize.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "base/float16.h"
#include "base/rng.h"
#include "tests/base/temporary_dir.h"
#include "tests/convert/files.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;

using test::read_all;

class Quantize : public ::testing::Test {
 protected:
  static constexpr uint64_t kCols = 256, kRows = 16, kExperts = 4;

  void SetUp() override { write_model(path("m.gguf"), 0); }
  std::string path(const std::string& name) const { return dir_.file(name); }

  // One layer of a mixture; a weight may be replaced.
  void write_model(const std::string& out, size_t bad_at, float bad = 0) {
    GgufWriter writer;
    ASSERT_TRUE(writer.add_string("general.architecture", "llama"));
    ASSERT_TRUE(writer.add_u32("llama.block_count", 1));
    ASSERT_TRUE(writer.add_u32("llama.attention.head_count", 4));
    ASSERT_TRUE(writer.add_u32("llama.expert_count", kExperts));
    ASSERT_TRUE(writer.add_tensor("blk.0.attn_q.weight", DType::f32, {kRows, kCols}));
    ASSERT_TRUE(writer.add_tensor("blk.0.attn_norm.weight", DType::f32, {kCols}));
    ASSERT_TRUE(writer.add_tensor("blk.0.ffn_up_exps.weight", DType::f32, {kExperts, kRows, kCols}));
    ASSERT_TRUE(writer.begin(out, true));
    Rng rng(1);
    for (const size_t n : {kRows * kCols, kCols, kExperts * kRows * kCols}) {
      std::vector<float> values(n);
      for (float& x : values) x = static_cast<float>(rng.normal() * 0.05);
      if (bad != 0 && n == kRows * kCols) values[bad_at] = bad;
      ASSERT_TRUE(writer.write(std::as_bytes(std::span(values))));
    }
    ASSERT_TRUE(writer.finish());
  }

  static Imatrix imatrix(const std::vector<double>& q, uint64_t unseen_expert = kExperts) {
    Imatrix out;
    out.n_chunks = 1;
    out.entries["blk.0.attn_q.weight"] = {q, {1}};
    ImatrixEntry experts;
    for (uint64_t mat = 0; mat < kExperts; ++mat) {
      const double seen = mat == unseen_expert ? 0 : 1;
      experts.counts.push_back(seen * 10);
      for (uint64_t i = 0; i < kCols; ++i) experts.sums.push_back(seen * static_cast<double>(1 + i % 7));
    }
    out.entries["blk.0.ffn_up_exps.weight"] = experts;
    return out;
  }

  Result<QuantizePlan> plan(const std::string& recipe, const Imatrix* importance, const std::string& out) {
    QuantizeOptions options;
    options.recipe = *find_recipe(recipe);
    options.is_pure = true;
    options.imatrix = importance;
    options.method = method_;
    auto file = GgufFile::open(path("m.gguf"));
    EXPECT_TRUE(file) << file.error().to_string();
    return plan_quantize(*file, options, path(out));
  }
  Status quantize(const std::string& recipe, const Imatrix* importance, const std::string& out,
                  uint32_t n_threads = 2) {
    auto planned = plan(recipe, importance, out);
    if (!planned) return tl::unexpected<Error>(planned.error());
    warnings_ = planned->warnings;
    const auto pool = ThreadPool::create(n_threads);
    QuantizeRun run;
    run.pool = pool.get();
    run.overwrites = true;
    const auto report = run_quantize(*planned, run);
    if (!report) return tl::unexpected<Error>(report.error());
    return {};
  }

  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()));
  }

  const test::TemporaryDir dir_;
  std::vector<std::string> warnings_;
  EncodeMethod method_ = EncodeMethod::fast;
};

TEST_F(Quantize, B17_ZerosOfAnImatrixMakeNoNaN) {
  std::vector<double> ones(kCols, 1), first_zero(kCols, 1), zeros(kCols, 0);
  std::fill(first_zero.begin(), first_zero.begin() + 32, 0);
  size_t n_types = 0;
  for (const Recipe& recipe : all_recipes()) {
    if (dtype_info(recipe.base).block_len == 1 || !has_encoder(recipe.base)) continue;
    ++n_types;
    for (const auto& q : {ones, first_zero, zeros}) {
      const Imatrix importance = imatrix(q);
      const auto done = quantize(std::string(recipe.name), &importance, "q.gguf");
      ASSERT_TRUE(done) << recipe.name << " " << done.error().to_string();
      const auto file = GgufFile::open(path("q.gguf"));
      ASSERT_TRUE(file);
      for (const GgufTensor& tensor : file->tensors()) {
        std::vector<float> values(tensor.shape.n_elements());
        ASSERT_TRUE(decode_checked(tensor.dtype, file->data(tensor), values));
        for (const float x : values) ASSERT_TRUE(std::isfinite(x)) << recipe.name << " " << tensor.name;
      }
    }
  }
  EXPECT_GT(n_types, 10u);
}

TEST_F(Quantize, B17_WeightsThatAreNotFiniteAreNamed) {
  write_model(path("m.gguf"), 3 * kCols + 5, std::numeric_limits<float>::infinity());
  for (const uint32_t n_threads : {1, 3}) {
    const auto done = quantize("Q8_0", nullptr, "q.gguf", n_threads);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::format);
    EXPECT_NE(done.error().to_string().find("blk.0.attn_q.weight: row 3, column 5 (element 773): got inf"),
              std::string::npos)
        << done.error().to_string();
    EXPECT_FALSE(file_exists(path("q.gguf")));
    EXPECT_EQ(n_files(), 1u);
  }
  // Finite, but beyond what a scale of f16 can hold.
  write_model(path("m.gguf"), 5, 1e30f);
  const auto done = quantize("F16", nullptr, "q.gguf");
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("that F16 can hold"), std::string::npos);
  EXPECT_TRUE(quantize("BF16", nullptr, "q.gguf"));
}

TEST_F(Quantize, B18_AnExpertNobodyChoseWeighsOneAndIsSaid) {
  const std::vector<double> ones(kCols, 1);
  const Imatrix seen = imatrix(ones), unseen = imatrix(ones, 3);
  ASSERT_TRUE(quantize("Q2_K", &unseen, "unseen.gguf"));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("blk.0.ffn_up_exps.weight: calibration never chose expert 3"), std::string::npos);
  ASSERT_TRUE(quantize("Q2_K", &seen, "seen.gguf"));
  EXPECT_TRUE(warnings_.empty());
  // The other experts use their data.
  const auto a = GgufFile::open(path("unseen.gguf")), b = GgufFile::open(path("seen.gguf"));
  const auto &x = *a->find_tensor("blk.0.ffn_up_exps.weight"), &y = *b->find_tensor("blk.0.ffn_up_exps.weight");
  const size_t expert = x.size_bytes / kExperts;
  EXPECT_TRUE(std::ranges::equal(a->data(x).first(3 * expert), b->data(y).first(3 * expert)));
  EXPECT_TRUE(quantize("IQ2_XS", &unseen, "iq2.gguf"));
}

TEST_F(Quantize, AnImatrixOfAnotherModelIsNamed) {
  const Imatrix other = imatrix(std::vector<double>(kCols / 2, 1));
  const auto done = quantize("Q4_K", &other, "q.gguf");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::shape);
  EXPECT_NE(done.error().to_string().find("blk.0.attn_q.weight"), std::string::npos);
  EXPECT_FALSE(file_exists(path("q.gguf")));
}

TEST_F(Quantize, SoFewBitsNeedAnImatrix) {
  const auto done = quantize("IQ2_XS", nullptr, "q.gguf");
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("blk.0.attn_q.weight as IQ2_XS"), std::string::npos);
}

TEST_F(Quantize, BytesDoNotDependOnThreads) {
  const Imatrix importance = imatrix(std::vector<double>(kCols, 1));
  for (const char* recipe : {"Q4_K", "Q6_K", "IQ4_NL", "Q8_0"}) {
    ASSERT_TRUE(quantize(recipe, &importance, "one.gguf", 1));
    for (const uint32_t n_threads : {2, 5}) {
      ASSERT_TRUE(quantize(recipe, &importance, "more.gguf", n_threads));
      EXPECT_EQ(read_all(path("one.gguf")), read_all(path("more.gguf"))) << recipe;
    }
  }
}

// With the full Hessian of one matrix: another file than the diagonal's, the same for any number of threads; experts go
// on as before, and say so.
TEST_F(Quantize, HessiansFeedErrorsBack) {
  Imatrix importance = imatrix(std::vector<double>(kCols, 1));
  ASSERT_TRUE(quantize("Q4_K", &importance, "fast.gguf"));
  method_ = EncodeMethod::hessian;
  const auto without = quantize("Q4_K", &importance, "none.gguf");
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, ErrorCode::invalid_argument);
  std::vector<int16_t> lower;
  for (size_t i = 0; i < kCols; ++i)
    for (size_t j = 0; j < i; ++j) lower.push_back(static_cast<int16_t>(i - j < 10 ? 32000 - 3200 * (i - j) : 0));
  importance.correlations["blk.0.attn_q.weight"] = correlations_in_memory(kCols, lower);
  ASSERT_TRUE(quantize("Q4_K", &importance, "one.gguf", 1));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("1 tensor is encoded as with --method fast"), std::string::npos) << warnings_[0];
  ASSERT_TRUE(quantize("Q4_K", &importance, "two.gguf", 2));
  EXPECT_EQ(read_all(path("one.gguf")), read_all(path("two.gguf")));
  EXPECT_NE(read_all(path("one.gguf")), read_all(path("fast.gguf")));
  importance.correlations["blk.0.attn_q.weight"] =
      correlations_in_memory(kCols, std::vector<int16_t>(kCols * (kCols - 1) / 2, -32767));
  const auto impossible = quantize("Q4_K", &importance, "bad.gguf");
  ASSERT_FALSE(impossible);
  EXPECT_EQ(impossible.error().code, ErrorCode::format);
  EXPECT_FALSE(file_exists(path("bad.gguf")));
}

// Stopped after each tensor in turn; torn and foreign leftovers are not taken for good.
TEST_F(Quantize, ARunThatWasStoppedGoesOnToTheSameBytes) {
  ASSERT_TRUE(quantize("Q8_0", nullptr, "whole.gguf"));
  const std::string whole = read_all(path("whole.gguf"));
  const auto run_once = [&](size_t stop_at, bool resumes) {
    auto planned = plan("Q8_0", nullptr, "q.gguf");
    const auto pool = ThreadPool::create(1);
    std::atomic<bool> stop{false};
    QuantizeRun run;
    run.pool = pool.get();
    run.resumes = resumes;
    run.stop = &stop;
    run.on_tensor = [&](size_t i) { stop = i >= stop_at; };
    return run_quantize(*planned, run);
  };
  for (const bool is_torn : {false, true}) {
    for (size_t stop_at = 0; stop_at < 3; ++stop_at) {
      const auto stopped = run_once(stop_at, true);
      ASSERT_FALSE(stopped);
      EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
      EXPECT_FALSE(file_exists(path("q.gguf")));
      EXPECT_TRUE(file_exists(path("q.gguf.partial")));
    }
    if (is_torn) {  // a byte of the second tensor is not what was written
      std::fstream file(path("q.gguf.partial"), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(whole.size()) -
                 static_cast<std::streamoff>(kExperts * kRows * kCols * 34 / 32) - 8);
      file.put('x');
    }
    const auto done = run_once(99, true);
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(done->kept_bytes, kRows * kCols * 34 / 32 + (is_torn ? 0 : kCols * 4));
    EXPECT_EQ(read_all(path("q.gguf")), whole);
    EXPECT_EQ(n_files(), 3u);  // the model, the whole file, this one: no leftovers
    fs::remove(path("q.gguf"));
  }
  // Without resumes a stopped run leaves nothing.
  ASSERT_FALSE(run_once(1, false));
  EXPECT_EQ(n_files(), 2u);
}

TEST_F(Quantize, LeftoversOfOtherOptionsAreNotKept) {
  auto planned = plan("Q4_0", nullptr, "q.gguf");
  const auto pool = ThreadPool::create(1);
  std::atomic<bool> stop{false};
  QuantizeRun run;
  run.pool = pool.get();
  run.resumes = true;
  run.stop = &stop;
  run.on_tensor = [&](size_t i) { stop = i == 2; };
  ASSERT_FALSE(run_quantize(*planned, run));
  planned = plan("Q8_0", nullptr, "q.gguf");
  run.on_tensor = nullptr;
  stop = false;
  const auto done = run_quantize(*planned, run);
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(done->kept_bytes, 0u);
  ASSERT_TRUE(quantize("Q8_0", nullptr, "whole.gguf"));
  EXPECT_EQ(read_all(path("q.gguf")), read_all(path("whole.gguf")));
}

TEST_F(Quantize, GridsAreKept) {
  // Q4_0's own values, stored as floats: encoded as Q4_0 and as Q8_0 nothing is lost.
  ASSERT_TRUE(quantize("Q4_0", nullptr, "q4.gguf"));
  QuantizeOptions options;
  options.recipe = *find_recipe("F16");
  options.allows_requantize = true;
  const auto pool = ThreadPool::create(2);
  QuantizeRun run;
  run.pool = pool.get();
  auto file = GgufFile::open(path("q4.gguf"));
  auto planned = plan_quantize(*file, options, path("f16.gguf"));
  ASSERT_TRUE(planned && run_quantize(*planned, run));
  options.recipe = *find_recipe("Q4_0");
  options.is_pure = true;
  file = GgufFile::open(path("f16.gguf"));
  planned = plan_quantize(*file, options, path("again.gguf"));
  ASSERT_TRUE(planned);
  const auto report = run_quantize(*planned, run);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->exact.size(), 2u);
  const auto again = GgufFile::open(path("again.gguf"));
  for (const GgufTensor& tensor : again->tensors()) {
    std::vector<float> was(tensor.shape.n_elements()), is(was.size());
    const GgufTensor& source = *file->find_tensor(tensor.name);
    ASSERT_TRUE(decode_checked(source.dtype, file->data(source), was));
    ASSERT_TRUE(decode_checked(tensor.dtype, again->data(tensor), is));
    for (size_t i = 0; i < was.size(); ++i) ASSERT_EQ(f16_to_f32(f32_to_f16(is[i])), f16_to_f32(f32_to_f16(was[i])));
  }
  // Noise is not taken for a grid.
  file = GgufFile::open(path("m.gguf"));
  planned = plan_quantize(*file, options, path("noise.gguf"));
  const auto plain = run_quantize(*planned, run);
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->exact.empty());
}

}  // namespace
}  // namespace tamis
