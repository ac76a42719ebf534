// Tensors and config.json of the way back, and writing the folder.
#include "convert/convert_back.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/checked.h"
#include "base/float16.h"
#include "formats/json.h"
#include "models/model.h"
#include "quants/registry.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kSlabElements = uint64_t{4} << 20;

// The number as it was written before it became float32: the shortest text that reads back the same float.
Json number(double value) {
  const std::string text = fmt::format("{}", static_cast<float>(value));
  double out = value;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return Json(out);
}

class Planner {
 public:
  Planner(const GgufFile& file, const ModelPlan& model, const ConvertBackOptions& options)
      : file_(file), model_(model), arch_(model.arch), hyper_(model.hyper), options_(options) {}

  Result<ConvertBackPlan> run() {
    out_.is_overwriting = options_.is_overwriting;
    out_.warnings = model_.warnings;
    for (const PlannedTensor& planned : model_.tensors) TAMIS_TRY_STATUS(add(planned));
    for (const BackTensor& tensor : out_.tensors) {
      uint64_t n_bytes = safe_type_bytes(tensor.type);
      for (const uint64_t extent : tensor.shape) n_bytes *= extent;
      out_.data_bytes += n_bytes;
    }
    TAMIS_TRY_STATUS(add_config());
    TAMIS_TRY_STATUS(add_tokenizer_files(file_, out_));
    return std::move(out_);
  }

 private:
  const TensorSpec* spec_of(const PlannedTensor& planned) const {
    for (const TensorSpec& spec : arch_.tensors)
      if (spec.slot == planned.slot && spec.part == planned.part) return &spec;
    return nullptr;
  }

  SafeType type_of(const GgufTensor& tensor) const {
    const DType type = options_.type.value_or(tensor.dtype);
    if (type == DType::f16) return SafeType::f16;
    return type == DType::bf16 ? SafeType::bf16 : SafeType::f32;
  }

  static std::string replaced(std::string text, char mark, uint64_t with) {
    if (const size_t at = text.find(mark); at != std::string::npos) text.replace(at, 1, std::to_string(with));
    return text;
  }

  Status add(const PlannedTensor& planned) {
    const GgufTensor& tensor = *planned.tensor;
    if (planned.role == Role::rope_factors) return {};  // config.json says them
    const TensorSpec* spec = spec_of(planned);
    if (spec == nullptr || spec->hf_name.empty())
      return file_.error_at_tensor(tensor, "no Hugging Face name", "a tensor that checkpoints have", "E_NO_HF_NAME");
    const std::string name = replaced(std::string(spec->hf_name), '%', planned.layer_idx);
    if (planned.role == Role::expert) return add_experts(planned, name);
    const std::pair<Slot, Dim> cuts[] = {
        {Slot::attn_q, Dim::q_width}, {Slot::attn_k, Dim::k_width}, {Slot::attn_v, Dim::v_width}};
    if (planned.slot != Slot::attn_qkv || arch_.block.attn.is_fused_qkv) {
      if (arch_.block.attn.is_fused_qkv && planned.role == Role::linear && planned.slot <= Slot::attn_v &&
          planned.slot >= Slot::attn_q)
        return file_.error_at_tensor(tensor, "a matrix of its own", "attn_qkv, as checkpoints have it", "E_NO_HF_NAME");
      return push(planned, name, planned.slot, 0, tensor.shape.n_rows());
    }
    uint64_t first = 0;
    for (const auto& [slot, dim] : cuts) {  // a fused matrix where checkpoints have three
      PlannedTensor piece = planned;
      piece.slot = slot;
      const uint64_t n = hyper_.dim(dim, planned.layer_idx);
      if (planned.part == Part::bias)
        return file_.error_at_tensor(tensor, "a fused bias", "q, k and v apart", "E_NO_HF_NAME");
      TAMIS_TRY_STATUS(
          push(planned, replaced(std::string(spec_of(piece)->hf_name), '%', planned.layer_idx), slot, first, n));
      first += n;
    }
    return {};
  }

  Status push(const PlannedTensor& planned, std::string name, Slot slot, uint64_t first, uint64_t n) {
    const GgufTensor& tensor = *planned.tensor;
    BackTensor out{std::move(name), type_of(tensor), {}, &tensor, first, n, 0, 0};
    if (tensor.shape.n_dims > 1) out.shape.push_back(n);
    out.shape.push_back(tensor.shape.row_len());
    const LayerHyper& layer = hyper_.layers[planned.layer_idx];
    if (arch_.block.attn.rope == RopePairs::interleaved && (slot == Slot::attn_q || slot == Slot::attn_k))
      out.n_head = slot == Slot::attn_q ? layer.n_head : layer.n_head_kv;
    if (planned.role == Role::norm) out.offset = -arch_.hf_norm_offset;
    out_.tensors.push_back(std::move(out));
    return {};
  }

  Status add_experts(const PlannedTensor& planned, const std::string& name) {
    const GgufTensor& tensor = *planned.tensor;
    const uint64_t n_experts = planned.expert_idx >= 0 ? 1 : hyper_.n_expert;
    const uint64_t n = tensor.shape.n_rows() / n_experts;
    for (uint64_t e = 0; e < n_experts; ++e) {
      const uint64_t idx = planned.expert_idx >= 0 ? static_cast<uint64_t>(planned.expert_idx) : e;
      out_.tensors.push_back(
          {replaced(name, '#', idx), type_of(tensor), {n, tensor.shape.row_len()}, &tensor, e * n, n, 0, 0});
    }
    return {};
  }

  tl::unexpected<Error> cannot(std::string_view what) const {
    return fail(ErrorCode::unsupported, "{}: config.json cannot say it: {}", escape_for_display(file_.path()), what);
  }

  Status add_config() {
    const LayerHyper& first = hyper_.layers[0];
    for (const LayerHyper& layer : hyper_.layers)
      if (layer.n_head != first.n_head || layer.n_head_kv != first.n_head_kv || layer.n_ff != first.n_ff)
        return cannot("layers of different sizes");
    if (hyper_.k_dim != hyper_.v_dim) return cannot("values narrower than keys");
    const bool is_mixture = hyper_.n_expert > 0;
    const HfClass* name = &arch_.hf_classes[0];
    for (const HfClass& one : arch_.hf_classes)
      if (one.is_mixture && is_mixture) name = &one;
    Json config = Json::object();
    config.set("architectures", Json(Json::Array{Json(name->name)})).set("model_type", name->model_type);
    const std::pair<const char*, uint64_t> sizes[] = {
        {"hidden_size", hyper_.n_embd},
        {"intermediate_size", first.n_ff != 0 ? first.n_ff : hyper_.n_ff_expert},
        {"num_hidden_layers", hyper_.n_layers},
        {"num_attention_heads", first.n_head},
        {"num_key_value_heads", first.n_head_kv},
        {"head_dim", hyper_.k_dim},
        {"vocab_size", hyper_.n_vocab},
        {"max_position_embeddings", hyper_.n_ctx_train}};
    for (const auto& [key, value] : sizes) config.set(key, Json(value));
    const std::string act = arch_.block.ffn.activation == Activation::silu ? "silu" : "gelu_pytorch_tanh";
    config.set("hidden_act", act).set("rms_norm_eps", number(hyper_.norm_eps));
    if (act != "silu") config.set("hidden_activation", act);
    config.set("tie_word_embeddings", is_output_tied(model_));
    if (hyper_.rope.rot_dim != hyper_.k_dim)
      config.set("partial_rotary_factor", static_cast<double>(hyper_.rope.rot_dim) / hyper_.k_dim);
    config.set("attention_bias", has_bias(Slot::attn_q)).set("mlp_bias", has_bias(Slot::ffn_up));
    add_experts_to(config);
    add_attention_to(config);
    TAMIS_TRY_STATUS(add_rope_to(config));
    out_.files.emplace_back("config.json", config.dump(2) + "\n");
    return {};
  }

  bool has_bias(Slot slot) const {
    return std::any_of(model_.tensors.begin(), model_.tensors.end(), [&](const PlannedTensor& planned) {
      return planned.slot == slot && planned.part == Part::bias;
    });
  }

  void add_experts_to(Json& config) const {
    if (hyper_.n_expert == 0) return;
    const bool is_only = arch_.block.moe.need == Need::required;
    config.set(is_only ? "num_experts" : "num_local_experts", Json(uint64_t{hyper_.n_expert}));
    config.set("num_experts_per_tok", Json(uint64_t{hyper_.n_expert_used}));
    if (!is_only) return;
    config.set("moe_intermediate_size", Json(uint64_t{hyper_.n_ff_expert})).set("decoder_sparse_step", 1);
    config.set("norm_topk_prob", arch_.block.moe.is_normalised).set("mlp_only_layers", Json::array());
  }

  void add_attention_to(Json& config) const {
    const BlockSpec& block = arch_.block;
    if (block.attn.window.is_used) {
      config.set("sliding_window", hyper_.window == 0 ? Json() : Json(uint64_t{hyper_.window}));
      Json types = Json::array();
      for (const LayerHyper& layer : hyper_.layers)
        types.push_back(layer.is_windowed ? "sliding_attention" : "full_attention");
      if (hyper_.window != 0) config.set("layer_types", std::move(types));
    }
    if (block.attn.has_softcap) config.set("attn_logit_softcapping", number(hyper_.attn_softcap));
    if (block.has_final_softcap)
      config.set("final_logit_softcapping", hyper_.final_softcap == 0 ? Json() : number(hyper_.final_softcap));
    if (block.attn.scale_by_embd_at_n_layers != 0)
      config.set("query_pre_attn_scalar",
                 std::round(1.0 / (static_cast<double>(hyper_.attention_scale) * hyper_.attention_scale)));
  }

  std::vector<float> factors(Slot slot) const {
    for (const PlannedTensor& planned : model_.tensors) {
      if (planned.slot != slot) continue;
      std::vector<float> values(planned.tensor->shape.n_elements());
      decode(planned.tensor->dtype, file_.data(*planned.tensor).data(), values);
      return values;
    }
    return {};
  }

  Status add_rope_to(Json& config) {
    const RopeHyper& rope = hyper_.rope;
    config.set("rope_theta", number(rope.freq_base));
    if (arch_.block.attn.window.default_freq_base > 0)
      config.set("rope_local_base_freq", number(rope.freq_base_windowed));
    Json scaling = Json::object();
    const std::vector<float> longer = factors(Slot::rope_long), shorter = factors(Slot::rope_short);
    if (!longer.empty() && !shorter.empty()) {
      Json long_list = Json::array(), short_list = Json::array();
      for (const float value : longer) long_list.push_back(number(value));
      for (const float value : shorter) short_list.push_back(number(value));
      scaling.set("type", "longrope")
          .set("long_factor", std::move(long_list))
          .set("short_factor", std::move(short_list));
      scaling.set("attention_factor", number(rope.attn_factor));
      config.set("original_max_position_embeddings", Json(uint64_t{rope.n_ctx_original}));
    } else if (const std::vector<float> freqs = factors(Slot::rope_freqs); !freqs.empty()) {
      TAMIS_TRY_STATUS(add_llama3(freqs, scaling));
    } else if (rope.scaling == RopeScaling::yarn) {
      scaling.set("rope_type", "yarn").set("factor", number(rope.factor));
      scaling.set("original_max_position_embeddings", Json(uint64_t{rope.n_ctx_original}));
      if (rope.yarn_beta_fast != 32) scaling.set("beta_fast", number(rope.yarn_beta_fast));
      if (rope.yarn_beta_slow != 1) scaling.set("beta_slow", number(rope.yarn_beta_slow));
    } else if (rope.factor != 1) {
      scaling.set("rope_type", "linear").set("factor", number(rope.factor));
    }
    if (!scaling.as_object().empty()) config.set("rope_scaling", std::move(scaling));
    return {};
  }

  // Llama 3's rule has four numbers; its published models share three of them.
  Status add_llama3(const std::vector<float>& freqs, Json& scaling) const {
    const double factor = *std::max_element(freqs.begin(), freqs.end()), low = 1, high = 4, original = 8192;
    for (size_t i = 0; i < freqs.size(); ++i) {
      const double wavelength = 2 * 3.14159265358979323846 *
                                std::pow(hyper_.rope.freq_base, 2.0 * static_cast<double>(i) / hyper_.rope.rot_dim);
      const double smooth = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
      const double expected = 1 / ((1 - smooth) / factor + smooth);
      if (std::fabs(freqs[i] / expected - 1) > 1e-5) return cannot("rope_freqs.weight of another rule than Llama 3's");
    }
    scaling.set("rope_type", "llama3")
        .set("factor", number(factor))
        .set("low_freq_factor", low)
        .set("high_freq_factor", high);
    scaling.set("original_max_position_embeddings", Json(static_cast<int64_t>(original)));
    return {};
  }

  const GgufFile& file_;
  const ModelPlan& model_;
  const ArchSpec& arch_;
  const Hyper& hyper_;
  const ConvertBackOptions& options_;
  ConvertBackPlan out_;
};

// Row `row` of the source is row to_row of the tensor.
uint64_t source_row(const BackTensor& tensor, uint64_t row) {
  if (tensor.n_head == 0) return row;
  const uint64_t n = tensor.n_rows, head_dim = n / tensor.n_head, half = head_dim / 2, i = row % head_dim;
  return row - i + i % half * 2 + i / half;
}

void append_values(SafeType type, std::span<const float> values, std::vector<std::byte>& out) {
  for (const float value : values) {
    const uint16_t narrow = type == SafeType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
    const auto bytes =
        type == SafeType::f32 ? std::as_bytes(std::span(&value, 1)) : std::as_bytes(std::span(&narrow, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
}

// A bias is permuted element by element, a matrix row by row.
Status write_tensor(const GgufFile& file, const BackTensor& tensor, SafetensorsWriter& writer,
                    const std::function<void(uint64_t)>& progress, const std::atomic<bool>* stop) {
  const GgufTensor& source = *tensor.source;
  const uint64_t row_len = source.shape.row_len(), row_bytes = source.size_bytes / source.shape.n_rows();
  const auto bytes = file.data(source);
  std::vector<float> row(row_len), ordered(row_len);
  std::vector<std::byte> slab;
  for (uint64_t r = 0; r < tensor.n_rows; ++r) {
    const bool is_vector = tensor.shape.size() == 1;
    const uint64_t from = tensor.first_row + (is_vector ? 0 : source_row(tensor, r));
    TAMIS_TRY_STATUS(decode_checked(source.dtype, bytes.subspan(from * row_bytes, row_bytes), row));
    if (is_vector && tensor.n_head != 0) {
      BackTensor column = tensor;
      column.n_rows = row_len;
      for (uint64_t i = 0; i < row_len; ++i) ordered[i] = row[source_row(column, i)];
      row = ordered;
    }
    for (float& value : row) value += tensor.offset;
    append_values(tensor.type, row, slab);
    if (slab.size() < kSlabElements && r + 1 < tensor.n_rows) continue;
    if (stop != nullptr && *stop) return fail(ErrorCode::cancelled, "stopped");
    if (file.size_changed()) return fail(ErrorCode::io, "{}: the file changed its size while it was read", file.path());
    TAMIS_TRY_STATUS(writer.write(slab));
    if (progress) progress(slab.size());
    slab.clear();
  }
  file.give_back(source);
  return {};
}

tl::unexpected<Error> folder_error(std::string_view what, const std::string& path, const std::error_code& error) {
  return tl::unexpected<Error>(
      with_file(Error{ErrorCode::io, fmt::format("cannot {}: {}", what, error.message()), nullptr}, path));
}

// A folder that goes away unless it is moved to its name.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

  // File by file into a folder that exists, as a whole otherwise.
  Status move_to(const std::string& target) {
    std::error_code error;
    if (!fs::exists(target, error)) {
      fs::rename(path_, target, error);
      if (error) return folder_error("rename to", target, error);
      path_.clear();
      return {};
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
      fs::rename(entry.path(), fs::path(target) / entry.path().filename(), error);
      if (error) return folder_error("rename to", target, error);
    }
    return {};
  }

 private:
  std::string path_;
};

}  // namespace

Result<ConvertBackPlan> plan_convert_back(const GgufFile& file, const ConvertBackOptions& options) {
  TAMIS_TRY(const ModelPlan model, plan_model(file));
  return Planner(file, model, options).run();
}

Status write_convert_back(const GgufFile& file, const ConvertBackPlan& plan, const std::string& path,
                          const std::function<void(uint64_t)>& progress, const std::atomic<bool>* stop) {
  std::error_code error;
  if (fs::exists(path, error) && !plan.is_overwriting)
    return fail(ErrorCode::invalid_argument, "{} exists already (use --force to overwrite)", path);
  if (path.empty() || path.ends_with('/'))
    return fail(ErrorCode::invalid_argument, "\"{}\": expected a folder's name, without '/' at its end", path);
  std::string name = path + ".XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    return folder_error("create", path, std::error_code(errno, std::generic_category()));
  fs::permissions(name,
                  fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read |
                      fs::perms::others_exec,
                  error);
  TemporaryFolder folder(name);
  SafetensorsWriter writer;
  for (const BackTensor& tensor : plan.tensors)
    TAMIS_TRY_STATUS(writer.add_tensor(tensor.name, tensor.type, tensor.shape));
  TAMIS_TRY_STATUS(writer.begin(folder.path() + "/model.safetensors", false));
  for (const BackTensor& tensor : plan.tensors) TAMIS_TRY_STATUS(write_tensor(file, tensor, writer, progress, stop));
  TAMIS_TRY_STATUS(writer.finish());
  for (const auto& [file_name, text] : plan.files)
    TAMIS_TRY_STATUS(write_text_file(folder.path() + "/" + file_name, text, false));
  return folder.move_to(path);
}

}  // namespace tamis
