// Float tensors, scaled 8-bit floats, and which of all kinds a name stands for.
#include "convert/hf_rows.h"

#include <algorithm>

#include "base/checked.h"
#include "convert/gptq.h"

namespace tamis {
namespace {

DType float_type_of(SafeType type) {
  if (type == SafeType::f16) return DType::f16;
  return type == SafeType::f32 || type == SafeType::f64 ? DType::f32 : DType::bf16;
}

class FloatRows final : public RowSource {
 public:
  FloatRows(const SafetensorsSet& set, const SafeTensor& tensor, uint64_t n_rows, uint64_t row_len)
      : RowSource(n_rows, row_len), set_(set), tensor_(tensor) {}

  Status read(uint64_t first, uint64_t n, std::span<float> out) const override {
    const uint64_t row_bytes = row_len() * safe_type_bytes(tensor_.type);
    return decode_safe_values(tensor_.type, set_.data(tensor_).subspan(first * row_bytes, n * row_bytes), out);
  }
  DType float_type() const override { return float_type_of(tensor_.type); }
  std::string describe() const override { return std::string(safe_type_name(tensor_.type)); }
  void give_back() const override { set_.give_back(tensor_); }

 private:
  const SafetensorsSet& set_;
  const SafeTensor& tensor_;
};

// value · scale of its block. Every product of an 8-bit float (4 significant bits) and a bf16 scale (8) takes at most
// 12 bits: exact in float32.
class ScaledRows final : public RowSource {
 public:
  struct Scales {
    std::vector<float> values;  // [n_block_rows, n_block_cols]
    uint64_t block_rows = 1, block_cols = 1, n_block_cols = 1;
  };
  ScaledRows(const SafetensorsSet& set, const SafeTensor& tensor, Scales scales)
      : RowSource(tensor.shape[0], tensor.shape[1]), set_(set), tensor_(tensor), scales_(std::move(scales)) {}

  Status read(uint64_t first, uint64_t n, std::span<float> out) const override {
    const uint64_t row_bytes = row_len() * safe_type_bytes(tensor_.type);
    const auto bytes = set_.data(tensor_).subspan(first * row_bytes, n * row_bytes);
    TAMIS_TRY_STATUS(decode_safe_values(tensor_.type, bytes, out));
    for (uint64_t r = 0; r < n; ++r) {
      const float* scales = scales_.values.data() + (first + r) / scales_.block_rows * scales_.n_block_cols;
      for (uint64_t c = 0; c < row_len(); ++c) out[r * row_len() + c] *= scales[c / scales_.block_cols];
    }
    return {};
  }
  DType float_type() const override { return DType::bf16; }
  std::string describe() const override {
    return fmt::format("{} with scales of {} x {}", safe_type_name(tensor_.type), scales_.block_rows,
                       scales_.block_cols);
  }
  void give_back() const override { set_.give_back(tensor_); }

 private:
  const SafetensorsSet& set_;
  const SafeTensor& tensor_;
  Scales scales_;
};

bool ends_with_weight(std::string_view name) { return name.ends_with(".weight"); }

// "…q_proj.weight" → "…q_proj" + suffix.
std::string sibling(const std::string& name, std::string_view suffix) {
  return name.substr(0, name.size() - std::string_view(".weight").size()) + std::string(suffix);
}

uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

// The scales of an 8-bit float matrix: one number, one a row, or one a block.
Result<Rows> scaled_rows(const SafetensorsSet& set, const HfQuantization& quantization, const SafeTensor& tensor,
                         const SafeTensor& scale) {
  if (tensor.shape.size() != 2 || tensor.n_elements() == 0)
    return set.error_at(tensor, "shape " + tensor.shape_text(), "a matrix");
  const uint64_t n_rows = tensor.shape[0], n_cols = tensor.shape[1], n = scale.n_elements();
  ScaledRows::Scales scales{{}, n_rows, n_cols, 1};
  if (n == n_rows && scale.shape[0] == n_rows && n != 1) {
    scales.block_rows = 1;
  } else if (n != 1) {
    scales.block_rows = quantization.block_rows != 0 ? quantization.block_rows : 128;
    scales.block_cols = quantization.block_cols != 0 ? quantization.block_cols : 128;
    scales.n_block_cols = ceil_div(n_cols, scales.block_cols);
    const std::vector<uint64_t> expected = {ceil_div(n_rows, scales.block_rows), scales.n_block_cols};
    if (scale.shape != expected)
      return set.error_at(scale, "shape " + scale.shape_text(),
                          fmt::format("[{}, {}]: blocks of {} x {} of {}", expected[0], expected[1], scales.block_rows,
                                      scales.block_cols, tensor.shape_text()));
  }
  if (!is_float_type(scale.type)) return set.error_at(scale, std::string(safe_type_name(scale.type)), "floats");
  scales.values.resize(n);
  TAMIS_TRY_STATUS(decode_safe_values(scale.type, set.data(scale), scales.values));
  return Rows(std::make_unique<ScaledRows>(set, tensor, std::move(scales)));
}

Result<Rows> stored_rows(const SafetensorsSet& set, const HfQuantization& quantization, const SafeTensor& tensor,
                         std::vector<std::string>& used) {
  used.push_back(tensor.name);
  const bool is_8_bit = tensor.type == SafeType::f8_e4m3 || tensor.type == SafeType::f8_e5m2;
  if (!is_float_type(tensor.type) || tensor.type == SafeType::f8_e8m0)
    return set.error_at(tensor, fmt::format("element type {}", safe_type_name(tensor.type)),
                        "floats, or the tensors of GPTQ or AWQ", ErrorCode::unsupported);
  if (is_8_bit && ends_with_weight(tensor.name)) {
    for (const std::string_view suffix : {".weight_scale_inv", ".weight_scale"}) {
      const SafeTensor* scale = set.find(sibling(tensor.name, suffix));
      if (scale == nullptr) continue;
      used.push_back(scale->name);
      return scaled_rows(set, quantization, tensor, *scale);
    }
    return set.error_at(tensor, "no scales", "a tensor " + sibling(tensor.name, ".weight_scale_inv"),
                        ErrorCode::not_found);
  }
  if (tensor.shape.empty() || tensor.shape.size() > 3 || tensor.n_elements() == 0)
    return set.error_at(tensor, "shape " + tensor.shape_text(), "1 to 3 dimensions, none of them 0");
  const uint64_t row_len = tensor.shape.back();
  return Rows(std::make_unique<FloatRows>(set, tensor, tensor.n_elements() / row_len, row_len));
}

Result<uint64_t> number_or(const Json& object, std::string_view key, uint64_t fallback) {
  const Json* value = object.find(key);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_int() || value->as_int() < -1 || value->as_int() > 1 << 24)
    return fail(ErrorCode::format, "quantization_config.{}: got {}", key, escape_for_display(value->dump(), 40));
  return value->as_int() < 0 ? uint64_t{0} : static_cast<uint64_t>(value->as_int());
}

}  // namespace

Status RowSource::write_native(uint64_t, uint64_t, std::span<std::byte>) const {
  return fail(ErrorCode::internal, "{} has no block type of its own", describe());
}

Result<HfQuantization> HfQuantization::read(const Json& config) {
  HfQuantization out;
  const Json* given = config.find("quantization_config");
  if (given == nullptr || !given->is_object()) return out;
  const Json* method = given->find("quant_method");
  if (method == nullptr || !method->is_string())
    return fail(ErrorCode::format, "quantization_config.quant_method: no such name");
  out.method = method->as_string();
  const auto text = [&](std::string_view key) {
    const Json* value = given->find(key);
    return value != nullptr && value->is_string() ? value->as_string() : std::string();
  };
  if (out.method == "gptq" || out.method == "awq") {
    TAMIS_TRY(const uint64_t bits, number_or(*given, "bits", given->find("w_bit") != nullptr ? 4 : 0));
    TAMIS_TRY(out.group_size,
              number_or(*given, given->find("q_group_size") != nullptr ? "q_group_size" : "group_size", 128));
    out.bits = static_cast<uint32_t>(bits);
    out.has_zero_offset = out.method == "gptq" && text("checkpoint_format") != "gptq_v2";
    const std::string version = text("version");
    if (out.method == "awq" && !version.empty() && version != "gemm" && version != "GEMM")
      return fail(ErrorCode::unsupported, "AWQ checkpoint packed as \"{}\", expected \"gemm\"",
                  escape_for_display(version));
    return check_packed_bits(out) ? Result<HfQuantization>(out)
                                  : fail(ErrorCode::unsupported, "{} with {} bits, expected {}", out.method, out.bits,
                                         out.method == "awq" ? "4" : "2, 3, 4 or 8");
  }
  if (out.method == "fp8" || out.method == "compressed-tensors" || out.method == "fbgemm_fp8") {
    const Json* block = given->find("weight_block_size");
    if (block == nullptr || !block->is_array() || block->as_array().size() != 2) return out;
    for (const Json& extent : block->as_array())
      if (!extent.is_int() || extent.as_int() < 1 || extent.as_int() > 1 << 24)
        return fail(ErrorCode::format, "quantization_config.weight_block_size: expected two sizes");
    out.block_rows = static_cast<uint64_t>(block->as_array()[0].as_int());
    out.block_cols = static_cast<uint64_t>(block->as_array()[1].as_int());
    return out;
  }
  return fail(ErrorCode::unsupported, "checkpoints quantized by \"{}\" are not read; known: gptq, awq, fp8",
              escape_for_display(out.method));
}

bool has_rows(const SafetensorsSet& set, const std::string& name) {
  return set.find(name) != nullptr || (ends_with_weight(name) && set.find(sibling(name, ".qweight")) != nullptr);
}

Result<Rows> make_rows(const SafetensorsSet& set, const HfQuantization& quantization, const std::string& name,
                       std::vector<std::string>& used) {
  if (const SafeTensor* tensor = set.find(name)) return stored_rows(set, quantization, *tensor, used);
  if (!ends_with_weight(name) || set.find(sibling(name, ".qweight")) == nullptr) return Rows();
  PackedTensors packed{set.find(sibling(name, ".qweight")), set.find(sibling(name, ".qzeros")),
                       set.find(sibling(name, ".scales")), set.find(sibling(name, ".g_idx"))};
  for (const SafeTensor* part : {packed.codes, packed.zeros, packed.scales, packed.groups})
    if (part != nullptr) used.push_back(part->name);
  return packed_rows(set, quantization, packed);
}

}  // namespace tamis
