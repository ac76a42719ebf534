// What a step had computed when its backend failed goes nowhere: done again, it gives the same as if nothing had been.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "compute/reference.h"
#include "engine/scheduler.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::greedy;
using test::some_tokens;

// The reference backend, which computes nothing but zeros for one step of more than one sequence, and says so in the
// end only, as an accelerator would.
class FailsOnce final : public Backend {
 public:
  explicit FailsOnce(std::atomic<size_t>& n_tokens) : n_tokens_(n_tokens) {}
  std::string_view name() const override { return inner_->name(); }
  Result<std::unique_ptr<WeightStorage>> load_weight(std::string_view name, DType dtype, const Shape& shape,
                                                     std::span<const std::byte> bytes) override {
    return inner_->load_weight(name, dtype, shape, bytes);
  }
  Result<Buffer> alloc(size_t n) override { return inner_->alloc(n); }
  void upload(std::span<const float> from, TensorView to) override { inner_->upload(from, to); }
  void download(TensorView from, std::span<float> to) override { inner_->download(from, to); }
  Status finish() override {
    TAMIS_TRY_STATUS(inner_->finish());
    return std::exchange(has_failed_, false) ? Status(fail(ErrorCode::device, "the device is lost")) : Status();
  }
  void embed_rows(const WeightStorage& table, std::span<const int32_t> ids, float scale, TensorView out) override {
    has_failed_ = ids.size() == n_tokens_;
    if (has_failed_) n_tokens_ = 0;
    inner_->embed_rows(table, ids, has_failed_ ? 0 : scale, out);
  }
  void gather_rows(TensorView x, std::span<const uint32_t> rows, TensorView out) override {
    inner_->gather_rows(x, rows, out);
  }
  void rms_norm(TensorView x, const float* weight, float eps, TensorView out) override {
    inner_->rms_norm(x, weight, eps, out);
  }
  void layer_norm(TensorView x, const float* weight, const float* bias, float eps, TensorView out) override {
    inner_->layer_norm(x, weight, bias, eps, out);
  }
  void matmul(TensorView x, const Linear& linear, TensorView out) override { inner_->matmul(x, linear, out); }
  void activate(TensorView x, Activation activation, TensorView factor) override {
    inner_->activate(x, activation, factor);
  }
  void rope(TensorView x, uint32_t head_dim, std::span<const uint32_t> positions, const RopeParams& params) override {
    inner_->rope(x, head_dim, positions, params);
  }
  void store_kv(std::span<const KvSlot> slots, uint32_t layer_idx, TensorView k, TensorView v) override {
    inner_->store_kv(slots, layer_idx, k, v);
  }
  void attention(TensorView q, std::span<const KvSlot> slots, uint32_t layer_idx, const AttentionParams& params,
                 TensorView out) override {
    inner_->attention(q, slots, layer_idx, params, out);
  }
  void add(TensorView x, TensorView y) override { inner_->add(x, y); }
  void scale(TensorView x, float factor) override { inner_->scale(x, factor); }
  void softcap(TensorView x, float cap) override { inner_->softcap(x, cap); }
  Routing route(TensorView logits, const RouterParams& params) override { return inner_->route(logits, params); }

 protected:
  void add_scaled_rows(TensorView, std::span<const uint32_t>, std::span<const float>, bool, TensorView) override {}

 private:
  const std::unique_ptr<Backend> inner_ = make_reference_backend();
  std::atomic<size_t>& n_tokens_;  // of the step that is to fail; 0: none
  bool has_failed_ = false;
};

class Listener : public test::Collector {
 public:
  void on_prompt_scores(std::span<const TokenScore> got) override {
    for (const TokenScore& score : got) values.push_back(score.logprob.logprob);
  }
  void on_embedding(std::span<const float> got) override { values.assign(got.begin(), got.end()); }
  std::vector<float> values;  // after wait()
};

TEST(FailedStep, LeavesNeitherScoresNorStates) {
  std::atomic<size_t> n_tokens{0};
  const auto engine = test::load_tiny(test::write_tiny_model({.n_ctx_train = 512}),
                                      std::make_unique<FailsOnce>(n_tokens), {.n_batch = 256});
  auto scheduler = Scheduler::create(engine, {});
  ASSERT_TRUE(scheduler) << scheduler.error().to_string();
  GenerateRequest scored = greedy(some_tokens(40), 0), pooled = greedy(some_tokens(30), 0);
  scored.scores_prompt = true;
  pooled.pooling = Pooling::mean;
  std::vector<std::vector<float>> expected;
  for (const GenerateRequest& request : {scored, pooled}) {
    const auto alone = std::make_shared<Listener>();
    ASSERT_TRUE((*scheduler)->submit(request, alone));
    alone->wait();
    expected.push_back(alone->values);
  }
  ASSERT_EQ(expected[0].size(), 39U);
  const auto held = std::make_shared<test::Holder>();
  ASSERT_TRUE((*scheduler)->submit(greedy({1}, 1), held));
  held->wait_until_held();  // so that the two are computed together
  n_tokens = 70;
  std::vector<std::shared_ptr<Listener>> together;
  for (const GenerateRequest& request : {scored, pooled}) {
    together.push_back(std::make_shared<Listener>());
    ASSERT_TRUE((*scheduler)->submit(request, together.back()));
  }
  held->let_go();
  for (size_t i = 0; i < together.size(); ++i) {
    together[i]->wait();
    EXPECT_FALSE(together[i]->failure());
    EXPECT_EQ(together[i]->values, expected[i]);
  }
  EXPECT_EQ(n_tokens, 0U) << "no step has failed";
}

}  // namespace
}  // namespace tamis
