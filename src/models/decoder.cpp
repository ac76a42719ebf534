// One Pass object is one forward: embedding, layers (attention, feed-forward), logits of the rows asked for. The
// residual stream x_ is the only thing that goes from layer to layer; keys and values stay in the caches.
#include "models/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tamis {
namespace {

// Rows of logits computed together for who takes them piece by piece.
constexpr size_t kRowsOfLogits = 32;

// One forward pass: the buffers of its intermediates and the steps in order.
class Pass {
 public:
  Pass(const Model& model, Backend& backend, const Batch& batch, const Probe& probe, const ExpertProbe& expert_probe)
      : model_(model),
        block_(model.arch.block),
        hyper_(model.hyper),
        backend_(backend),
        batch_(batch),
        probe_(probe),
        expert_probe_(expert_probe) {
    for (const KvSlot& slot : batch.slots) positions_.push_back(slot.position);
  }

  Result<std::vector<float>> run();

 private:
  Status allocate();
  Status layer(uint32_t i);
  void keep_wanted_rows();
  void attention(uint32_t i, const LayerWeights& weights);
  Status feed_forward(uint32_t i, const LayerWeights& weights);
  Status mixture(uint32_t i, const LayerWeights& weights);
  Result<std::vector<float>> logits();

  // The residual stream takes in a part's output, normalised first in sandwich blocks.
  void join(TensorView part, const Buffer& post_norm) {
    if (!post_norm.empty()) backend_.rms_norm(part, post_norm.data(), hyper_.norm_eps, part);
    backend_.add(x_, part);
  }
  void show(std::string_view name, int32_t layer_idx, TensorView value) const {
    if (probe_) probe_(name, layer_idx, value);
  }

  const Model& model_;
  const BlockSpec& block_;
  const Hyper& hyper_;
  Backend& backend_;
  const Batch& batch_;
  const Probe& probe_;
  const ExpertProbe& expert_probe_;
  std::vector<uint32_t> positions_;

  Buffer x_buffer_, normed_buffer_, q_buffer_, k_buffer_, v_buffer_, heads_buffer_, part_buffer_, ff_buffer_,
      ff_scratch_buffer_, router_buffer_;
  TensorView x_;  // the residual stream  [n_rows, n_embd]: all tokens, in the last layer's feed-forward those asked for
  TensorView normed_;  // input of a part      [n_rows, n_embd]
  TensorView part_;    // output of a part     [n_rows, n_embd]
};

Status Pass::allocate() {
  const size_t n = batch_.tokens.size();
  size_t q_width = 0, k_width = 0, v_width = 0, attn_width = 0, n_ff = 0;
  for (uint32_t i = 0; i < hyper_.n_layers; ++i) {
    q_width = std::max<size_t>(q_width, hyper_.dim(Dim::q_width, i));
    k_width = std::max<size_t>(k_width, hyper_.dim(Dim::k_width, i));
    v_width = std::max<size_t>(v_width, hyper_.dim(Dim::v_width, i));
    attn_width = std::max<size_t>(attn_width, hyper_.dim(Dim::attn_width, i));
    n_ff = std::max<size_t>(n_ff, hyper_.layers[i].n_ff);
  }
  TAMIS_TRY(x_buffer_, backend_.alloc(n * hyper_.n_embd));
  TAMIS_TRY(normed_buffer_, backend_.alloc(n * hyper_.n_embd));
  TAMIS_TRY(part_buffer_, backend_.alloc(n * hyper_.n_embd));
  TAMIS_TRY(q_buffer_, backend_.alloc(n * q_width));
  TAMIS_TRY(k_buffer_, backend_.alloc(n * k_width));
  TAMIS_TRY(v_buffer_, backend_.alloc(n * v_width));
  TAMIS_TRY(heads_buffer_, backend_.alloc(n * attn_width));
  if (hyper_.n_expert > 0) {
    TAMIS_TRY(router_buffer_, backend_.alloc(n * hyper_.n_expert));
  } else {
    TAMIS_TRY(ff_buffer_, backend_.alloc(n * n_ff));
    TAMIS_TRY(ff_scratch_buffer_, backend_.alloc(backend_.uses_scratch() ? n * n_ff : 0));
  }
  x_ = x_buffer_.view(n, hyper_.n_embd);
  normed_ = normed_buffer_.view(n, hyper_.n_embd);
  part_ = part_buffer_.view(n, hyper_.n_embd);
  return {};
}

void Pass::attention(uint32_t i, const LayerWeights& weights) {
  const LayerHyper& layer = hyper_.layers[i];
  const size_t n = x_.n_rows;
  const TensorView q = q_buffer_.view(n, hyper_.dim(Dim::q_width, i));
  const TensorView k = k_buffer_.view(n, hyper_.dim(Dim::k_width, i));
  const TensorView v = v_buffer_.view(n, hyper_.dim(Dim::v_width, i));
  const TensorView heads = heads_buffer_.view(n, hyper_.dim(Dim::attn_width, i));

  backend_.qkv(normed_, std::array{weights.q.bound(), weights.k.bound(), weights.v.bound()}, std::array{q, k, v});
  if (block_.attn.qk_norm == Norm::rms) {
    const TensorView q_heads = q.with_row_len(hyper_.k_dim), k_heads = k.with_row_len(hyper_.k_dim);
    backend_.rms_norm(q_heads, weights.q_norm.data(), hyper_.norm_eps, q_heads);
    backend_.rms_norm(k_heads, weights.k_norm.data(), hyper_.norm_eps, k_heads);
  }
  const RopeParams rope{.pairs = block_.attn.rope,
                        .inv_freq = layer.is_windowed ? model_.rope_inv_freq_windowed : model_.rope_inv_freq,
                        .magnitude = layer.is_windowed ? model_.rope_magnitude_windowed : model_.rope_magnitude};
  backend_.rope(q, hyper_.k_dim, positions_, rope);
  backend_.rope(k, hyper_.k_dim, positions_, rope);
  show("q", static_cast<int32_t>(i), q);
  show("k", static_cast<int32_t>(i), k);
  show("v", static_cast<int32_t>(i), v);

  const AttentionParams params{.n_head = layer.n_head,
                               .n_head_kv = layer.n_head_kv,
                               .k_dim = hyper_.k_dim,
                               .v_dim = hyper_.v_dim,
                               .scale = hyper_.attention_scale,
                               .softcap = hyper_.attn_softcap,
                               .window = layer.is_windowed ? hyper_.window : 0};
  backend_.store_kv(batch_.slots, i, k, v);
  backend_.attention(q, batch_.slots, i, params, heads);
  show("heads", static_cast<int32_t>(i), heads);
  backend_.matmul(heads, weights.attn_output.bound(), part_);
  show("attn_out", static_cast<int32_t>(i), part_);
}

Status Pass::mixture(uint32_t i, const LayerWeights& weights) {
  const TensorView scores = router_buffer_.view(x_.n_rows, hyper_.n_expert);
  backend_.matmul(normed_, weights.router.bound(), scores);
  show("router", static_cast<int32_t>(i), scores);
  const Routing routing = backend_.route(scores, {.score = block_.moe.score,
                                                  .n_used = hyper_.n_expert_used,
                                                  .is_normalised = block_.moe.is_normalised,
                                                  .scale = hyper_.expert_weight_scale});
  std::vector<Linear> gate, up, down;
  for (const OwnedLinear& expert : weights.gate_exps) gate.push_back(expert.bound());
  for (const OwnedLinear& expert : weights.up_exps) up.push_back(expert.bound());
  for (const OwnedLinear& expert : weights.down_exps) down.push_back(expert.bound());
  Backend::OnExperts on_experts;
  if (expert_probe_) {
    on_experts = [&](TensorView input, TensorView hidden, std::span<const ExpertRows> rows) {
      expert_probe_(i, input, hidden, rows);
    };
  }
  return backend_.moe_ffn(normed_, {gate, up, down, block_.ffn.activation}, routing, part_, on_experts);
}

Status Pass::feed_forward(uint32_t i, const LayerWeights& weights) {
  backend_.rms_norm(x_, weights.ffn_norm.data(), hyper_.norm_eps, normed_);
  show("ffn_norm", static_cast<int32_t>(i), normed_);
  if (hyper_.n_expert > 0) {
    TAMIS_TRY_STATUS(mixture(i, weights));
  } else {
    const TensorView hidden = ff_buffer_.view(x_.n_rows, hyper_.layers[i].n_ff);
    backend_.gate_up(normed_, weights.gate.bound(), weights.up.bound(), block_.ffn.activation, hidden,
                     ff_scratch_buffer_.view(x_.n_rows, hidden.n_cols));
    show("ffn_hidden", static_cast<int32_t>(i), hidden);
    backend_.matmul(hidden, weights.down.bound(), part_);
  }
  show("ffn_out", static_cast<int32_t>(i), part_);
  join(part_, weights.ffn_post_norm);
  return {};
}

// After the last attention nothing crosses tokens: only the rows whose logits are wanted go on.
void Pass::keep_wanted_rows() {
  const size_t n = batch_.logits_rows.size();
  backend_.gather_rows(x_, batch_.logits_rows, normed_.rows(0, n));
  std::swap(x_, normed_);
  x_.n_rows = normed_.n_rows = part_.n_rows = n;
}

Status Pass::layer(uint32_t i) {
  const LayerWeights& weights = model_.layers[i];
  backend_.rms_norm(x_, weights.attn_norm.data(), hyper_.norm_eps, normed_);
  show("attn_norm", static_cast<int32_t>(i), normed_);
  attention(i, weights);
  join(part_, weights.attn_post_norm);
  if (i + 1 == hyper_.n_layers && !batch_.keeps_all_rows) {
    keep_wanted_rows();
    if (x_.n_rows == 0) return {};
  }
  TAMIS_TRY_STATUS(feed_forward(i, weights));
  show("layer_out", static_cast<int32_t>(i), x_);
  return {};
}

Result<std::vector<float>> Pass::logits() {
  if (batch_.keeps_all_rows) {
    backend_.rms_norm(x_, model_.output_norm.data(), hyper_.norm_eps, normed_);
    TAMIS_TRY_STATUS(backend_.finish());  // whoever keeps them gets nothing of a step that failed, as on_logits
    show("output_norm", -1, normed_);
    keep_wanted_rows();
  }
  const size_t n = x_.n_rows;
  if (n == 0) return std::vector<float>();
  backend_.rms_norm(x_, model_.output_norm.data(), hyper_.norm_eps, normed_);
  if (!batch_.keeps_all_rows) show("output_norm", -1, normed_);
  const size_t n_together = batch_.on_logits ? std::min(n, kRowsOfLogits) : n;
  TAMIS_TRY(const Buffer buffer, backend_.alloc(n_together * hyper_.n_vocab));
  const OwnedLinear& output = model_.output.weight != nullptr ? model_.output : model_.token_embd;
  std::vector<float> values(n_together * hyper_.n_vocab);
  for (size_t first = 0; first < n; first += n_together) {
    const size_t n_rows = std::min(n_together, n - first);
    const TensorView out = buffer.view(n_rows, hyper_.n_vocab);
    backend_.matmul(normed_.rows(first, n_rows), output.bound(), out);
    if (hyper_.final_softcap > 0) backend_.softcap(out, hyper_.final_softcap);
    show("logits", -1, out);
    const std::span<float> rows = std::span(values).first(out.size());
    backend_.download(out, rows);
    if (!batch_.on_logits) continue;
    TAMIS_TRY_STATUS(backend_.finish());
    TAMIS_TRY_STATUS(batch_.on_logits(first, rows));
  }
  return batch_.on_logits ? std::vector<float>() : std::move(values);
}

Result<std::vector<float>> Pass::run() {
  TAMIS_TRY_STATUS(allocate());
  const float scale = block_.is_embedding_scaled ? std::sqrt(static_cast<float>(hyper_.n_embd)) : 1.0f;
  backend_.embed_rows(*model_.token_embd.weight, batch_.tokens, scale, x_);
  show("embedding", -1, x_);
  for (uint32_t i = 0; i < hyper_.n_layers; ++i) TAMIS_TRY_STATUS(layer(i));
  TAMIS_TRY(std::vector<float> values, logits());
  TAMIS_TRY_STATUS(backend_.finish());
  for (const KvSlot& slot : batch_.slots) slot.cache->commit(std::max(slot.cache->n_tokens(), slot.position + 1));
  return values;
}

// Tokens in range, positions without gaps, logits rows in order; reserves the caches.
Status check_batch(const Model& model, const Batch& batch) {
  if (batch.tokens.empty() || batch.tokens.size() != batch.slots.size()) {
    return fail(ErrorCode::invalid_argument, "a batch of {} tokens with {} slots", batch.tokens.size(),
                batch.slots.size());
  }
  for (const int32_t token : batch.tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= model.hyper.n_vocab) {
      return fail(ErrorCode::invalid_argument, "token {} is not in the vocabulary of {}", token, model.hyper.n_vocab);
    }
  }
  for (size_t i = 0; i < batch.logits_rows.size(); ++i) {
    if (batch.logits_rows[i] >= batch.tokens.size() || (i > 0 && batch.logits_rows[i] <= batch.logits_rows[i - 1])) {
      return fail(ErrorCode::invalid_argument, "logits row {} is out of order or out of range", batch.logits_rows[i]);
    }
  }
  std::vector<std::pair<KvCache*, uint32_t>> next;  // the position each sequence continues at
  for (const KvSlot& slot : batch.slots) {
    if (slot.cache == nullptr || slot.cache->n_layers() != model.hyper.n_layers) {
      return fail(ErrorCode::invalid_argument, "a batch token without a cache of this model");
    }
    auto it = std::find_if(next.begin(), next.end(), [&](const auto& entry) { return entry.first == slot.cache; });
    if (it == next.end()) it = next.insert(next.end(), {slot.cache, slot.cache->n_tokens()});
    if (slot.position != it->second || slot.position == std::numeric_limits<uint32_t>::max()) {
      return fail(ErrorCode::invalid_argument, "position {} where the sequence continues at {}", slot.position,
                  it->second);
    }
    ++it->second;
  }
  for (const auto& [cache, n] : next) TAMIS_TRY_STATUS(cache->reserve(n));
  return {};
}

}  // namespace

Result<std::vector<float>> forward(const Model& model, Backend& backend, const Batch& batch, const Probe& probe,
                                   const ExpertProbe& expert_probe) {
  TAMIS_TRY_STATUS(check_batch(model, batch));
  return Pass(model, backend, batch, probe, expert_probe).run();
}

}  // namespace tamis
