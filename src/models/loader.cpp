// Hands the planned tensors to a backend: matrices as opaque weights over the mapped bytes, small vectors decoded to
// f32.
#include <fmt/format.h>

#include <cmath>

#include "models/model.h"
#include "models/rope.h"
#include "quants/registry.h"

namespace tamis {
namespace {

class Loader {
 public:
  Loader(const GgufFile& file, Backend& backend, Model& model, bool is_tied, const LoadOptions& options)
      : file_(file), backend_(backend), model_(model), is_tied_(is_tied), options_(options) {}

  // Takes one tensor in; its pages are given back where the backend has its own form of it.
  Status add(const PlannedTensor& planned) {
    reads_file_ = false;
    TAMIS_TRY_STATUS(take(planned));
    if (reads_file_) return {};
    file_.give_back(*planned.tensor);
    const bool is_looked_up = planned.slot == Slot::token_embd;  // rows come from the file, whatever is multiplied
    if (options_.on_unread && !is_looked_up) options_.on_unread(*planned.tensor);
    return {};
  }

  // To be called once every tensor is in. is_long: LongRoPE's factors for contexts past the original one.
  void finish_rope(bool is_long) {
    const std::vector<float>& long_or_short = is_long ? rope_long_ : rope_short_;
    const std::vector<float>& factors = long_or_short.empty() ? rope_freqs_ : long_or_short;
    const Hyper& hyper = model_.hyper;
    RopeTable full = rope_table(hyper.rope, hyper.rope.freq_base, true, factors);
    const bool is_windowed_scaled = !model_.arch.block.attn.window.is_scaling_full_only;
    RopeTable windowed = rope_table(hyper.rope, hyper.rope.freq_base_windowed, is_windowed_scaled, factors);
    model_.rope_inv_freq = std::move(full.inv_freq);
    model_.rope_magnitude = full.magnitude;
    model_.rope_inv_freq_windowed = std::move(windowed.inv_freq);
    model_.rope_magnitude_windowed = windowed.magnitude;
  }

 private:
  Status take(const PlannedTensor& planned) {
    if (planned.part == Part::scale) return add_scale(planned);
    if (planned.part == Part::bias) return add_bias(planned);
    switch (planned.role) {
      case Role::norm: return add_norm(planned);
      case Role::rope_factors: return add_rope_factors(planned);
      case Role::expert: return add_experts(planned);
      default: return add_linear(planned);
    }
  }

  LayerWeights& layer(const PlannedTensor& planned) { return model_.layers[planned.layer_idx]; }

  // Where a matrix that is not cut goes.
  OwnedLinear& linear_of(const PlannedTensor& planned) {
    switch (planned.slot) {
      case Slot::token_embd: return model_.token_embd;
      case Slot::output: return model_.output;
      case Slot::attn_q: return layer(planned).q;
      case Slot::attn_k: return layer(planned).k;
      case Slot::attn_v: return layer(planned).v;
      case Slot::ffn_gate: return layer(planned).gate;
      case Slot::ffn_up: return layer(planned).up;
      case Slot::ffn_down: return layer(planned).down;
      case Slot::router: return layer(planned).router;
      default: return layer(planned).attn_output;
    }
  }

  // The maps one tensor feeds, with their rows in order: a fused matrix is several.
  std::vector<std::pair<OwnedLinear*, uint64_t>> pieces_of(const PlannedTensor& planned) {
    const Hyper& hyper = model_.hyper;
    const uint32_t i = planned.layer_idx;
    if (planned.slot == Slot::attn_qkv) {
      return {{&layer(planned).q, hyper.dim(Dim::q_width, i)},
              {&layer(planned).k, hyper.dim(Dim::k_width, i)},
              {&layer(planned).v, hyper.dim(Dim::v_width, i)}};
    }
    if (planned.slot == Slot::ffn_gate_up) {
      return {{&layer(planned).gate, hyper.dim(Dim::n_ff, i)}, {&layer(planned).up, hyper.dim(Dim::n_ff, i)}};
    }
    return {{&linear_of(planned),
             planned.part == Part::bias ? planned.tensor->shape.n_elements() : planned.tensor->shape.n_rows()}};
  }

  // Of packed codes: null where the tensor is what the file says.
  const AffineRows* packed(const PlannedTensor& planned, uint32_t matrix_idx) const {
    return options_.affine ? options_.affine(planned.tensor->name, matrix_idx) : nullptr;
  }

  Status add_packed(const PlannedTensor& planned, const AffineRows& rows) {
    uint64_t row = 0;
    for (const auto& [linear, n_rows] : pieces_of(planned)) {
      TAMIS_TRY(linear->weight, backend_.load_affine(planned.tensor->name, rows, row, n_rows));
      row += n_rows;
    }
    rows.give_back();
    return {};
  }

  Status add_linear(const PlannedTensor& planned) {
    if (const AffineRows* const rows = packed(planned, 0)) return add_packed(planned, *rows);
    const GgufTensor& tensor = *planned.tensor;
    const std::span<const std::byte> bytes = file_.data(tensor);
    const uint64_t row_bytes = tensor.size_bytes / tensor.shape.n_rows();
    uint64_t row = 0;
    for (const auto& [linear, n_rows] : pieces_of(planned)) {
      const std::span<const std::byte> rows = bytes.subspan(row * row_bytes, n_rows * row_bytes);
      const Shape shape{n_rows, tensor.shape.row_len()};
      const bool is_table = planned.slot == Slot::token_embd && !is_tied_;
      TAMIS_TRY(linear->weight, is_table ? backend_.load_table(tensor.name, tensor.dtype, shape, rows)
                                         : backend_.load_weight(tensor.name, tensor.dtype, shape, rows));
      reads_file_ |= linear->weight->reads_file();
      row += n_rows;
    }
    return {};
  }

  std::vector<OwnedLinear>& experts_of(const PlannedTensor& planned) {
    if (planned.slot == Slot::gate_exps) return layer(planned).gate_exps;
    return planned.slot == Slot::up_exps ? layer(planned).up_exps : layer(planned).down_exps;
  }

  Status add_experts(const PlannedTensor& planned) {
    const GgufTensor& tensor = *planned.tensor;
    const std::span<const std::byte> bytes = file_.data(tensor);
    std::vector<OwnedLinear>& experts = experts_of(planned);
    experts.resize(model_.hyper.n_expert);
    const uint32_t first = planned.expert_idx < 0 ? 0 : static_cast<uint32_t>(planned.expert_idx);
    const uint32_t n = planned.expert_idx < 0 ? model_.hyper.n_expert : 1;
    const Shape shape{tensor.shape.n_rows() / n, tensor.shape.row_len()};
    const uint64_t expert_bytes = tensor.size_bytes / n;
    for (uint32_t i = 0; i < n; ++i) {
      if (const AffineRows* const rows = packed(planned, i)) {
        TAMIS_TRY(experts[first + i].weight, backend_.load_affine(tensor.name, *rows, 0, shape[0]));
        rows->give_back();
        continue;
      }
      TAMIS_TRY(experts[first + i].weight,
                backend_.load_weight(tensor.name, tensor.dtype, shape, bytes.subspan(i * expert_bytes, expert_bytes)));
      reads_file_ |= experts[first + i].weight->reads_file();
    }
    return {};
  }

  std::vector<float> decoded(const GgufTensor& tensor) const {
    std::vector<float> values(tensor.shape.n_elements());
    decode(tensor.dtype, file_.data(tensor).data(), values);
    return values;
  }

  Result<Buffer> to_buffer(std::span<const float> values) {
    TAMIS_TRY(Buffer buffer, backend_.alloc(values.size()));
    backend_.upload(values, buffer.as_row());
    return buffer;
  }

  Status add_norm(const PlannedTensor& planned) {
    TAMIS_TRY(Buffer buffer, to_buffer(decoded(*planned.tensor)));
    switch (planned.slot) {
      case Slot::attn_norm: layer(planned).attn_norm = std::move(buffer); break;
      case Slot::attn_post_norm: layer(planned).attn_post_norm = std::move(buffer); break;
      case Slot::ffn_norm: layer(planned).ffn_norm = std::move(buffer); break;
      case Slot::ffn_post_norm: layer(planned).ffn_post_norm = std::move(buffer); break;
      case Slot::q_norm: layer(planned).q_norm = std::move(buffer); break;
      case Slot::k_norm: layer(planned).k_norm = std::move(buffer); break;
      default: model_.output_norm = std::move(buffer); break;
    }
    return {};
  }

  Status add_bias(const PlannedTensor& planned) {
    const std::vector<float> values = decoded(*planned.tensor);
    uint64_t first = 0;
    for (const auto& [linear, n] : pieces_of(planned)) {
      TAMIS_TRY(linear->bias, to_buffer(std::span(values).subspan(first, n)));
      first += n;
    }
    return {};
  }

  Status add_scale(const PlannedTensor& planned) {
    const std::vector<float> values = decoded(*planned.tensor);
    for (const float value : values) {
      if (!std::isfinite(value)) return not_usable(*planned.tensor, value, "a finite scale");
    }
    if (planned.slot == Slot::gate_exps || planned.slot == Slot::up_exps || planned.slot == Slot::down_exps) {
      std::vector<OwnedLinear>& experts = experts_of(planned);
      experts.resize(model_.hyper.n_expert);
      for (size_t e = 0; e < experts.size(); ++e) experts[e].scale = values[e];
      return {};
    }
    for (const auto& [linear, n] : pieces_of(planned)) linear->scale = values[0];
    return {};
  }

  Status add_rope_factors(const PlannedTensor& planned) {
    std::vector<float> values = decoded(*planned.tensor);
    for (const float value : values) {
      if (!std::isfinite(value) || value <= 0) return not_usable(*planned.tensor, value, "finite factors above 0");
    }
    if (planned.slot == Slot::rope_long)
      rope_long_ = std::move(values);
    else if (planned.slot == Slot::rope_short)
      rope_short_ = std::move(values);
    else
      rope_freqs_ = std::move(values);
    return {};
  }

  tl::unexpected<Error> not_usable(const GgufTensor& tensor, float value, std::string expected) const {
    return file_.error_at_tensor(tensor, fmt::format("value {}", value), std::move(expected), "E_TENSOR_VALUE");
  }

  const GgufFile& file_;
  Backend& backend_;
  Model& model_;
  const bool is_tied_;  // the embedding is the output matrix too
  const LoadOptions& options_;
  bool reads_file_ = false;  // a storage of the tensor being taken in works on the file's bytes
  std::vector<float> rope_freqs_, rope_long_, rope_short_;
};

}  // namespace

std::vector<KvLayerShape> kv_shapes(const Hyper& hyper) {
  std::vector<KvLayerShape> shapes;
  for (const LayerHyper& layer : hyper.layers) shapes.push_back({layer.n_head_kv, hyper.k_dim, hyper.v_dim});
  return shapes;
}

KvCache Model::make_cache(const KvTypes& types) const { return KvCache(kv_shapes(hyper), types); }

Result<Model> load_model(const GgufFile& file, Backend& backend, const LoadOptions& options) {
  TAMIS_TRY(ModelPlan plan, plan_model(file, options.limits));
  if (file.size_changed()) return fail(ErrorCode::io, "the file changed its size since it was opened");
  Model model{.file = file, .arch = std::move(plan.arch), .hyper = std::move(plan.hyper)};
  model.warnings = std::move(plan.warnings);
  model.layers.resize(model.hyper.n_layers);
  Loader loader(file, backend, model, is_output_tied(plan), options);
  backend.set_on_taken([file](std::span<const std::byte> bytes) { file.give_back(bytes); });
  Status added;
  for (size_t i = 0; added && i < plan.tensors.size(); ++i) added = loader.add(plan.tensors[i]);
  backend.set_on_taken(nullptr);
  TAMIS_TRY_STATUS(std::move(added));
  const uint32_t n_ctx = options.n_ctx != 0 ? options.n_ctx : model.hyper.n_ctx_train;
  loader.finish_rope(n_ctx > model.hyper.rope.n_ctx_original);
  TAMIS_TRY_STATUS(backend.finish());
  return model;
}

}  // namespace tamis
