// Finds every tensor of the table in the file and checks it before anything is touched; what is left over is reported.
#include <fmt/format.h>

#include "models/model.h"

namespace tamis {
namespace {

constexpr size_t kMaxUnusedWarnings = 8;

class Planner {
 public:
  Planner(const GgufFile& file, ModelPlan& plan) : file_(file), plan_(plan), is_used_(file.tensors().size(), false) {}

  Status run() {
    for (const TensorSpec& spec : plan_.arch.tensors) {
      const uint32_t n_layers = spec.is_per_layer() ? plan_.hyper.n_layers : 1;
      for (uint32_t layer_idx = 0; layer_idx < n_layers; ++layer_idx) {
        if (applies(spec, layer_idx)) TAMIS_TRY_STATUS(place(spec, layer_idx));
      }
    }
    report_unused();
    return {};
  }

 private:
  bool applies(const TensorSpec& spec, uint32_t layer_idx) const {
    switch (spec.when) {
      case When::always: return true;
      case When::dense: return plan_.hyper.n_expert == 0;
      case When::moe: return plan_.hyper.n_expert > 0;
      case When::split_qkv: return !is_qkv_fused(layer_idx);
      case When::fused_qkv: return is_qkv_fused(layer_idx);
    }
    return false;
  }

  // The form the file has; the converter's own form when it has neither, so that the error names what should be there.
  bool is_qkv_fused(uint32_t layer_idx) const {
    if (file_.find_tensor(tensor_name("blk.%.attn_qkv.weight", layer_idx)) != nullptr) return true;
    if (file_.find_tensor(tensor_name("blk.%.attn_q.weight", layer_idx)) != nullptr) return false;
    return plan_.arch.block.attn.is_fused_qkv;
  }

  Status place(const TensorSpec& spec, uint32_t layer_idx) {
    const std::string name = tensor_name(spec.name, layer_idx);
    if (const GgufTensor* tensor = file_.find_tensor(name); tensor != nullptr) {
      return accept(spec, layer_idx, -1, *tensor, expected_shape(spec, layer_idx));
    }
    if (spec.role == Role::expert) return place_single_experts(spec, layer_idx, name);
    if (spec.is_required) return missing(name, expected_shape(spec, layer_idx));
    return {};
  }

  // Mixtral files of before March 2024 store each expert apart: "blk.0.ffn_gate.3.weight".
  Status place_single_experts(const TensorSpec& spec, uint32_t layer_idx, const std::string& stacked_name) {
    const size_t at = stacked_name.find("_exps");
    const Shape stacked = expected_shape(spec, layer_idx);
    for (uint32_t e = 0; e < plan_.hyper.n_expert; ++e) {
      const std::string name = fmt::format("{}.{}{}", stacked_name.substr(0, at), e, stacked_name.substr(at + 5));
      const GgufTensor* tensor = file_.find_tensor(name);
      if (tensor == nullptr) return missing(e == 0 ? stacked_name : name, stacked);
      TAMIS_TRY_STATUS(accept(spec, layer_idx, static_cast<int32_t>(e), *tensor, Shape{stacked[1], stacked[2]}));
    }
    return {};
  }

  Shape expected_shape(const TensorSpec& spec, uint32_t layer_idx) const {
    Shape shape;
    for (const Dim dim : spec.dims) {
      if (dim != Dim::none) shape.extents[shape.n_dims++] = plan_.hyper.dim(dim, layer_idx);
    }
    return shape;
  }

  Status accept(const TensorSpec& spec, uint32_t layer_idx, int32_t expert_idx, const GgufTensor& tensor,
                const Shape& expected) {
    if (without_leading_ones(tensor.shape) != without_leading_ones(expected)) {
      auto error = file_.error_at_tensor(tensor, "shape " + tensor.shape.to_string(), describe(spec, expected),
                                         "E_TENSOR_SHAPE");
      error.value().code = ErrorCode::shape;
      return error;
    }
    if (!is_dtype_allowed(spec.role, tensor.dtype)) {
      return file_.error_at_tensor(
          tensor, fmt::format("type {} for a {} tensor", dtype_name(tensor.dtype), role_name(spec.role)),
          std::string(allowed_dtypes(spec.role)), "E_TENSOR_TYPE");
    }
    is_used_[static_cast<size_t>(&tensor - file_.tensors().data())] = true;
    plan_.tensors.push_back({&tensor, spec.slot, spec.part, spec.role, layer_idx, expert_idx});
    return {};
  }

  static Shape without_leading_ones(Shape shape) {
    while (shape.n_dims > 1 && shape[0] == 1) {
      for (uint32_t i = 0; i + 1 < shape.n_dims; ++i) shape.extents[i] = shape.extents[i + 1];
      shape.extents[--shape.n_dims] = 0;
    }
    return shape;
  }

  std::string describe(const TensorSpec& spec, const Shape& expected) const {
    std::string text = "[";
    uint32_t i = 0;
    for (const Dim dim : spec.dims) {
      if (dim == Dim::none || (expected.n_dims < 3 && dim == Dim::n_expert && spec.role == Role::expert)) continue;
      if (i > 0) text += ", ";
      text += fmt::format("{} = {}", dim_name(dim), expected[i++]);
    }
    return text + "]";
  }

  tl::unexpected<Error> missing(const std::string& name, const Shape& expected) const {
    ErrorSite site;
    site.file = file_.path();
    site.section = "tensor";
    site.byte_offset = file_.metadata_bytes();  // the end of the tensor table
    site.has_offset = file_.n_shards() == 1;
    site.subject = name;
    site.got = "no such tensor";
    site.expected = fmt::format("one of shape {}", expected.to_string());
    site.tag = "E_TENSOR_MISSING";
    return fail_at(ErrorCode::not_found, std::move(site));
  }

  void report_unused() {
    for (size_t i = 0; i < is_used_.size(); ++i) {
      if (!is_used_[i]) plan_.unused.emplace_back(file_.tensors()[i].name);
    }
    for (size_t i = 0; i < plan_.unused.size(); ++i) {
      if (i == kMaxUnusedWarnings) {
        plan_.warnings.push_back(fmt::format("{} more unused tensors", plan_.unused.size() - i));
        break;
      }
      plan_.warnings.push_back(fmt::format("tensor \"{}\" has no place in architecture {} and is not used",
                                           escape_for_display(plan_.unused[i]), plan_.arch.name));
    }
  }

  const GgufFile& file_;
  ModelPlan& plan_;
  std::vector<bool> is_used_;
};

// find_arch's refusal, located at the key that names the architecture.
tl::unexpected<Error> unknown_arch(const GgufFile& file, std::string_view name, const Error& reason) {
  auto error = file.error_at_key("general.architecture", fmt::format("\"{}\"", escape_for_display(name)),
                                 "an architecture tamis has", "E_ARCH_UNKNOWN");
  error.value().code = reason.code;
  error.value().message += "; " + reason.message;
  return error;
}

}  // namespace

std::string_view dim_name(Dim dim) {
  switch (dim) {
    case Dim::none: return "";
    case Dim::one: return "1";
    case Dim::n_embd: return "n_embd";
    case Dim::n_vocab: return "n_vocab";
    case Dim::q_width: return "n_head*k_dim";
    case Dim::k_width: return "n_head_kv*k_dim";
    case Dim::v_width: return "n_head_kv*v_dim";
    case Dim::qkv_width: return "n_head*k_dim + n_head_kv*(k_dim + v_dim)";
    case Dim::attn_width: return "n_head*v_dim";
    case Dim::k_dim: return "k_dim";
    case Dim::n_ff: return "n_ff";
    case Dim::n_ff_twice: return "2*n_ff";
    case Dim::n_ff_expert: return "n_ff_expert";
    case Dim::n_expert: return "n_expert";
    case Dim::rope_pairs: return "rot_dim/2";
  }
  return "";
}

Result<ModelPlan> plan_model(const GgufFile& file, const Limits& limits) {
  TAMIS_TRY(const std::string_view name, file.get_string("general.architecture"));
  Result<ArchSpec> found = find_arch(name);
  if (!found) return unknown_arch(file, name, found.error());
  ArchSpec arch = std::move(found).value();
  TAMIS_TRY(Hyper hyper, read_hyper(file, arch, limits));
  ModelPlan plan{std::move(arch), std::move(hyper), {}, {}, {}};
  TAMIS_TRY_STATUS(Planner(file, plan).run());
  return plan;
}

}  // namespace tamis
