// How much memory a plan takes on a backend, from types and shapes alone.
#include "base/checked.h"
#include "models/model.h"

namespace tamis {

bool is_output_tied(const ModelPlan& plan) {
  for (const PlannedTensor& planned : plan.tensors)
    if (planned.slot == Slot::output && planned.part == Part::weight) return false;
  return true;
}

namespace {

bool is_vector(const PlannedTensor& planned) {
  return planned.part != Part::weight || planned.role == Role::norm || planned.role == Role::rope_factors;
}

// The row counts of the matrices that one tensor is cut into at load.
std::vector<uint64_t> cuts_of(const PlannedTensor& planned, const Hyper& hyper) {
  const uint32_t i = planned.layer_idx;
  const uint64_t n_rows = planned.tensor->shape.n_rows();
  if (planned.slot == Slot::attn_qkv)
    return {hyper.dim(Dim::q_width, i), hyper.dim(Dim::k_width, i), hyper.dim(Dim::v_width, i)};
  if (planned.slot == Slot::ffn_gate_up) return {hyper.dim(Dim::n_ff, i), hyper.dim(Dim::n_ff, i)};
  if (planned.role == Role::expert && planned.expert_idx < 0)
    return std::vector<uint64_t>(hyper.n_expert, n_rows / hyper.n_expert);
  return {n_rows};
}

// Adds to `sum`; false when it does not fit.
bool add_to(uint64_t& sum, std::optional<uint64_t> bytes) {
  const auto total = bytes ? checked_add(sum, *bytes) : std::nullopt;
  if (total) sum = *total;
  return total.has_value();
}

}  // namespace

Result<ModelBytes> model_bytes(const ModelPlan& plan, const Backend& backend, const AffineTensors& affine) {
  ModelBytes bytes;
  for (const PlannedTensor& planned : plan.tensors) {
    const GgufTensor& tensor = *planned.tensor;
    bool fits = true;
    if (is_vector(planned)) {
      fits = add_to(bytes.vectors, checked_mul(tensor.shape.n_elements(), sizeof(float)));
    } else if (planned.slot == Slot::token_embd && !is_output_tied(plan)) {
      fits = add_to(bytes.tables, tensor.size_bytes);
    } else {
      const AffineRows* const packed = affine ? affine(tensor.name, 0) : nullptr;
      for (const uint64_t n_rows : cuts_of(planned, plan.hyper))
        fits = fits && add_to(bytes.weights,
                              packed != nullptr ? backend.affine_bytes(packed->shape(), n_rows)
                                                : backend.weight_bytes(tensor.dtype, {n_rows, tensor.shape.row_len()}));
    }
    if (!fits) return fail(ErrorCode::out_of_memory, "{}: its size does not fit", escape_for_display(tensor.name));
  }
  return bytes;
}

}  // namespace tamis
