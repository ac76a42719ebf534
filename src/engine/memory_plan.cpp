// The dry run: load_model and forward on a backend without arithmetic. Memory it hands out is never touched, so it
// costs addresses only.
#include "engine/memory_plan.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/checked.h"

namespace tamis {
namespace {

class CountedStorage final : public WeightStorage {
 public:
  using WeightStorage::WeightStorage;
  size_t resident_bytes() const override { return 0; }
};

// Counts what a step allocates; computes nothing.
class CountingBackend final : public Backend {
 public:
  explicit CountingBackend(bool uses_scratch) : uses_scratch_(uses_scratch) {}
  uint64_t n_bytes() const { return n_bytes_; }
  void start_count() { n_bytes_ = 0; }

  std::string_view name() const override { return "counting"; }
  Result<std::unique_ptr<WeightStorage>> load_weight(std::string_view, DType dtype, const Shape& shape,
                                                     std::span<const std::byte>) override {
    return std::make_unique<CountedStorage>(dtype, shape.n_rows(), shape.row_len());
  }
  Result<Buffer> alloc(size_t n) override {
    const auto n_bytes = checked_mul(n, sizeof(float));
    const auto total = n_bytes ? checked_add(n_bytes_, *n_bytes) : std::nullopt;
    void* const data = total ? std::malloc(std::max<uint64_t>(*n_bytes, 1)) : nullptr;
    if (data == nullptr) return fail(ErrorCode::out_of_memory, "no memory for {} floats", n);
    n_bytes_ = *total;
    return Buffer(static_cast<float*>(data), n, [](float* floats) { std::free(floats); });
  }
  void upload(std::span<const float>, TensorView) override {}
  void download(TensorView, std::span<float>) override {}
  void embed_rows(const WeightStorage&, std::span<const int32_t>, float, TensorView) override {}
  void gather_rows(TensorView, std::span<const uint32_t>, TensorView) override {}
  void rms_norm(TensorView, const float*, float, TensorView) override {}
  void layer_norm(TensorView, const float*, const float*, float, TensorView) override {}
  void matmul(TensorView, const Linear&, TensorView) override {}
  bool uses_scratch() const override { return uses_scratch_; }
  void activate(TensorView, Activation, TensorView) override {}
  void rope(TensorView, uint32_t, std::span<const uint32_t>, const RopeParams&) override {}
  void store_kv(std::span<const KvSlot>, uint32_t, TensorView, TensorView) override {}
  void attention(TensorView, std::span<const KvSlot>, uint32_t, const AttentionParams&, TensorView) override {}
  void add(TensorView, TensorView) override {}
  void scale(TensorView, float) override {}
  void softcap(TensorView, float) override {}
  // The first experts for every token: as many rows as any choice makes.
  Routing route(TensorView logits, const RouterParams& params) override {
    Routing routing{.n_used = params.n_used};
    for (size_t i = 0; i < logits.n_rows; ++i)
      for (uint32_t e = 0; e < params.n_used; ++e) routing.expert.push_back(e);
    routing.weight.resize(routing.expert.size(), 0.0f);
    return routing;
  }

 protected:
  void add_scaled_rows(TensorView, std::span<const uint32_t>, std::span<const float>, bool, TensorView) override {}

 private:
  bool uses_scratch_;
  uint64_t n_bytes_ = 0;
};

// Bytes of the largest step's intermediates and results: a full batch, logits for each sequence.
Result<uint64_t> step_bytes(const GgufFile& file, const Backend& backend, const MemoryRequest& request) {
  CountingBackend counting(backend.uses_scratch());
  TAMIS_TRY(const Model model, load_model(file, counting, {.n_ctx = request.n_ctx}));
  const uint32_t n_tokens = std::max(std::min(request.n_batch, request.n_ctx), 1u);
  const uint32_t n_logits = std::min(request.n_seqs, n_tokens);
  const std::vector<int32_t> tokens(n_tokens, 0);
  KvCache cache = model.make_cache(request.kv_types);
  std::vector<KvSlot> slots;
  for (uint32_t i = 0; i < n_tokens; ++i) slots.push_back({&cache, i});
  std::vector<uint32_t> rows(n_logits);
  std::iota(rows.begin(), rows.end(), n_tokens - n_logits);
  counting.start_count();
  TAMIS_TRY(const std::vector<float> logits,
            forward(model, counting, {.tokens = tokens, .slots = slots, .logits_rows = rows}));
  return counting.n_bytes() + logits.size() * sizeof(float);
}

std::optional<uint64_t> kv_bytes_of(const Hyper& hyper, const MemoryRequest& request) {
  const auto one = kv_bytes(hyper, request.n_ctx, request.kv_types);
  return one ? checked_mul(*one, request.n_seqs) : std::nullopt;
}

}  // namespace

Result<MemoryPlan> plan_memory(const GgufFile& file, const Backend& backend, const MemoryRequest& request) {
  TAMIS_TRY(const ModelPlan plan, plan_model(file));
  for (const KvLayerShape& shape : kv_shapes(plan.hyper)) TAMIS_TRY_STATUS(check_kv_types(request.kv_types, shape));
  TAMIS_TRY(const ModelBytes model, model_bytes(plan, backend));
  MemoryPlan out{.weights = model.weights, .vectors = model.vectors, .tables = model.tables};
  const auto kv = kv_bytes_of(plan.hyper, request);
  if (!kv) return fail(ErrorCode::out_of_memory, "a context of {} tokens does not fit 64 bits", request.n_ctx);
  out.kv = *kv;
  TAMIS_TRY(out.buffers, step_bytes(file, backend, request));
  const auto total = checked_add(out.weights + out.vectors, out.kv);
  if (!total || !checked_add(*total, out.buffers))
    return fail(ErrorCode::out_of_memory, "the model does not fit 64 bits");
  return out;
}

Result<uint32_t> largest_context(const GgufFile& file, const Backend& backend, MemoryRequest request,
                                 uint32_t n_ctx_most, uint64_t budget_bytes) {
  request.n_ctx = n_ctx_most;  // a step's buffers are those of a full batch
  TAMIS_TRY(const ModelPlan plan, plan_model(file));
  TAMIS_TRY(const MemoryPlan most, plan_memory(file, backend, request));
  const uint64_t fixed = most.weights + most.vectors + most.buffers;
  uint32_t fits = 0, fails = n_ctx_most + 1;
  while (fails - fits > 1) {
    request.n_ctx = fits + (fails - fits) / 2;
    const auto kv = kv_bytes_of(plan.hyper, request);
    const auto total = kv ? checked_add(*kv, fixed) : std::nullopt;
    (total && *total <= budget_bytes ? fits : fails) = request.n_ctx;
  }
  return fits;
}

}  // namespace tamis
