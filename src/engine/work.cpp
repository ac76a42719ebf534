// Sums over the layers of a model.
#include "engine/work.h"

#include <algorithm>

namespace tamis {
namespace {

class Counter {
 public:
  explicit Counter(double n_columns) : n_columns_(n_columns) {}

  void add(const OwnedLinear& linear) { add(linear, n_columns_, 1.0); }
  // `share` of the matrix is read, for `n_columns` columns.
  void add(const OwnedLinear& linear, double n_columns, double share) {
    if (linear.weight == nullptr) return;
    const WeightStorage& weight = *linear.weight;
    work_.weight_bytes += share * static_cast<double>(weight.resident_bytes());
    work_.macs += n_columns * static_cast<double>(weight.n_in()) * static_cast<double>(weight.n_out());
  }
  void add_experts(const std::vector<OwnedLinear>& experts, double n_used) {
    const double n_expert = static_cast<double>(experts.size()), n_chosen = n_columns_ * n_used;
    for (const OwnedLinear& expert : experts) add(expert, n_chosen / n_expert, std::min(1.0, n_chosen / n_expert));
  }
  Work& work() { return work_; }

 private:
  double n_columns_;
  Work work_;
};

// Keys that the tokens of one sequence see in a layer: position + 1, position + 2, …, each at most `window` (0 = all).
double n_keys_seen(const Step& step, uint32_t window) {
  double n = 0;
  for (uint32_t i = 0; i < step.n_tokens; ++i) {
    const uint32_t n_seen = step.position + i + 1;
    n += window == 0 ? n_seen : std::min(n_seen, window);
  }
  return n;
}

void add_attention(const Engine& engine, const Step& step, Work& work) {
  const Hyper& hyper = engine.model().hyper;
  double n_values = 0;  // floats of one position in all layers
  for (uint32_t i = 0; i < hyper.n_layers; ++i)
    n_values += static_cast<double>(hyper.dim(Dim::k_width, i) + hyper.dim(Dim::v_width, i));
  const double n_positions = static_cast<double>(KvCache::pages_of(engine.n_ctx())) * KvCache::kPageTokens;
  const double value_bytes = static_cast<double>(engine.kv_bytes_of_context()) / (n_values * n_positions);
  for (uint32_t i = 0; i < hyper.n_layers; ++i) {
    const LayerHyper& layer = hyper.layers[i];
    const uint32_t window = layer.is_windowed ? hyper.window : 0;
    const double n_last = step.position + step.n_tokens;
    const double n_stored = window == 0 ? n_last : std::min<double>(n_last, window + step.n_tokens - 1.0);
    const double width = static_cast<double>(hyper.dim(Dim::k_width, i) + hyper.dim(Dim::v_width, i));
    work.kv_bytes += step.n_seqs * n_stored * width * value_bytes;
    work.macs += step.n_seqs * n_keys_seen(step, window) * layer.n_head * (double{1} * hyper.k_dim + hyper.v_dim);
  }
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  macs += other.macs;
  return *this;
}

Work work_of_step(const Engine& engine, const Step& step) {
  const Model& model = engine.model();
  Counter counter(double{1} * step.n_seqs * step.n_tokens);
  for (const LayerWeights& layer : model.layers) {
    for (const OwnedLinear* linear :
         {&layer.q, &layer.k, &layer.v, &layer.attn_output, &layer.gate, &layer.up, &layer.down, &layer.router})
      counter.add(*linear);
    for (const std::vector<OwnedLinear>* experts : {&layer.gate_exps, &layer.up_exps, &layer.down_exps})
      counter.add_experts(*experts, model.hyper.n_expert_used);
  }
  if (step.n_logits > 0) counter.add(model.output.weight ? model.output : model.token_embd, step.n_logits, 1.0);
  add_attention(engine, step, counter.work());
  return counter.work();
}

}  // namespace tamis
