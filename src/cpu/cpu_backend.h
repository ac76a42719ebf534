// The class behind make_cpu_backend; private to src/cpu. Linear maps in linear.cpp, attention and rotation in
// attention.cpp, the rest in backend.cpp.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "compute/backend.h"
#include "cpu/attention_call.h"
#include "cpu/backend.h"
#include "cpu/buffer_pool.h"
#include "cpu/kernels.h"
#include "cpu/weight.h"

namespace tamis::cpu {

// Cosines and sines of the positions last asked for: the layers of one step ask for the same again and again.
class RopeTable {
 public:
  bool holds(std::span<const uint32_t> positions, const RopeParams& params) const;
  // Makes the table one of `positions` under `params`, complete once fill() was called for every one of them (by any
  // threads). Errors: std::bad_alloc only.
  void begin(std::span<const uint32_t> positions, const RopeParams& params);
  void fill(size_t token);
  const float* cosines(size_t token) const { return cosines_.data() + token * inv_freq_.size(); }
  const float* sines(size_t token) const { return sines_.data() + token * inv_freq_.size(); }

 private:
  std::vector<double> inv_freq_;
  std::vector<uint32_t> positions_;
  double magnitude_ = 0;
  std::vector<float> cosines_, sines_;  // [n_tokens, n_pairs]
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(ThreadPool* pool, const KernelTable& kernels, CpuActivations activations, CpuLayout layout);

  std::string_view name() const override { return "cpu"; }

  Result<std::unique_ptr<WeightStorage>> load_weight(std::string_view name, DType dtype, const Shape& shape,
                                                     std::span<const std::byte> bytes) override;
  Result<std::unique_ptr<WeightStorage>> load_table(std::string_view name, DType dtype, const Shape& shape,
                                                    std::span<const std::byte> bytes) override;
  std::optional<uint64_t> weight_bytes(DType dtype, const Shape& shape) const override;
  // Always in the group-affine form: no other holds them.
  Result<std::unique_ptr<WeightStorage>> load_affine(std::string_view name, const AffineRows& rows, uint64_t first_row,
                                                     uint64_t n_rows) override;
  std::optional<uint64_t> affine_bytes(const AffineShape& shape, uint64_t n_rows) const override;
  Result<Buffer> alloc(size_t n) override;
  void upload(std::span<const float> from, TensorView to) override;
  void download(TensorView from, std::span<float> to) override;
  Status finish() override;

  void embed_rows(const WeightStorage& table, std::span<const int32_t> ids, float scale, TensorView out) override;
  void gather_rows(TensorView x, std::span<const uint32_t> rows, TensorView out) override;
  void rms_norm(TensorView x, const float* weight, float eps, TensorView out) override;
  void layer_norm(TensorView x, const float* weight, const float* bias, float eps, TensorView out) override;
  void matmul(TensorView x, const Linear& linear, TensorView out) override;
  void qkv(TensorView x, std::span<const Linear, 3> linears, std::span<const TensorView, 3> out) override;
  void gate_up(TensorView x, const Linear& gate, const Linear& up, Activation activation, TensorView out,
               TensorView scratch) override;
  bool uses_scratch() const override { return false; }
  void activate(TensorView x, Activation activation, TensorView factor) override;
  void rope(TensorView x, uint32_t head_dim, std::span<const uint32_t> positions, const RopeParams& params) override;
  void store_kv(std::span<const KvSlot> slots, uint32_t layer_idx, TensorView k, TensorView v) override;
  void attention(TensorView q, std::span<const KvSlot> slots, uint32_t layer_idx, const AttentionParams& params,
                 TensorView out) override;
  void add(TensorView x, TensorView y) override;
  void scale(TensorView x, float factor) override;
  void softcap(TensorView x, float cap) override;
  Routing route(TensorView logits, const RouterParams& params) override;

 protected:
  void add_scaled_rows(TensorView x, std::span<const uint32_t> rows, std::span<const float> factor, bool is_first,
                       TensorView out) override;
  void expert_gate_up(TensorView x, const Experts& experts, std::span<const ExpertRows> rows, TensorView out,
                      TensorView scratch) override;
  void expert_down(TensorView x, const Experts& experts, std::span<const ExpertRows> rows, TensorView out) override;

 private:
  // A thread's own working memory.
  struct alignas(64) Scratch {
    PanelScratch panel;
    FloatRoom attention;
    std::vector<float> tiles;  // a chunk's results: [n_panels][n_columns][16], for each job that is fused
  };
  struct LinearJob {
    const Linear* linear;
    TensorView out;
    const Columns* columns = nullptr;  // filled in by pack_columns
  };
  // Linear maps of the same input.
  struct LinearGroup {
    TensorView x;
    std::span<LinearJob> jobs;
  };

  // fn(begin, end, thread_idx) over [0, n_items) on all threads, or at once when the work is too small to share (`cost`
  // of an item is about its number of float operations). A failure is kept for finish().
  template <class Fn>
  void for_ranges(size_t n_items, size_t grain, size_t cost, Fn&& fn, std::span<const ThreadPool::Ahead> ahead = {}) {
    if (pool_ == nullptr || n_items * cost < kSharedCost) {
      if (n_items != 0) fn(size_t{0}, n_items, uint32_t{0});
      return;
    }
    if (Status status = pool_->parallel_for(n_items, grain, fn, ahead); !status && status_) status_ = std::move(status);
  }
  static constexpr size_t kSharedCost = 32768;  // below, waking the others costs more than it saves

  // The panels of some linear maps as items of one parallel loop, `n_panels` each.
  struct LinearPart {
    std::span<const LinearJob> jobs;
    const LinearGroup* group;
    size_t n_panels, end;  // end: after its last item
  };
  struct Chunk {
    const LinearPart* part;
    size_t first_panel, n_panels;
  };
  // Where threads begin in the loop of some weights, and the weight whose loop came after it the last time.
  struct Course {
    const WeightStorage* next = nullptr;
    std::vector<ThreadPool::Ahead> begins;
  };
  static Chunk chunk_at(std::span<const LinearPart> parts, size_t item, size_t n_panels);
  // Notes where threads begin in this loop; what to read ahead for the one after it.
  std::span<const ThreadPool::Ahead> follow_course(std::span<const LinearPart> parts, size_t n_items, size_t chunk);

  // Fills in the jobs' columns, in the forms and orders their weights read; valid until the next call.
  void pack_columns(std::span<LinearGroup> groups);
  void choose_columns(std::span<LinearGroup> groups);
  void order_columns();
  void pack_blocks(const Columns& columns, ColumnForm form, size_t n_blocks, size_t begin, size_t end) const;
  // The panels of all jobs of all groups, in one parallel loop; `activation` null or applied to the values of a group's
  // job 0, times job 1's.
  void run_groups(std::span<LinearGroup> groups, const Activation* activation);
  void run_chunk(std::span<const LinearJob> jobs, PanelRange range, const Activation* activation,
                 Scratch& scratch) const;
  static void scale_and_shift(const Linear& linear, const PanelRange& range, float* tiles);
  static void write_tiles(const PanelRange& range, const float* tiles, TensorView out);
  void activate_range(float* x, const float* factor, size_t n, Activation activation) const;
  const RopeTable& rope_table(std::span<const uint32_t> positions, const RopeParams& params);
  static void softcap_range(float* x, size_t n, float cap);

  ThreadPool* pool_;
  const KernelTable& kernels_;
  CpuActivations activations_;
  CpuLayout layout_;
  PanelMemory panel_memory_;
  std::shared_ptr<BufferPool> buffers_;
  std::vector<Columns> columns_;                              // of the running op
  std::vector<int8_t> packed_;                                // their codes
  std::vector<float> ordered_;                                // inputs in the order that a weight reads them
  std::vector<Scratch> scratch_;                              // [n_threads]
  std::unordered_map<const WeightStorage*, Course> courses_;  // by the first weight; addresses in it may be stale
  const WeightStorage* last_ = nullptr;                       // whose loop was the last one
  RopeTable rope_tables_[2];                                  // full and windowed layers may rotate differently
  uint32_t rope_turn_ = 0;
  AttentionMemory attention_;
  Status status_;
};

}  // namespace tamis::cpu
