// The plan: names after pruning, types by recipe, importance by name, metadata, sizes.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "base/checked.h"
#include "convert/quantize.h"
#include "formats/shards.h"
#include "models/recipe_facts.h"

namespace tamis {
namespace {

constexpr uint32_t kQuantizationVersion = 2;

// Layer numbers after some were taken out.
class Pruning {
 public:
  static Result<Pruning> create(const GgufFile& file, const std::vector<uint32_t>& pruned) {
    Pruning out;
    if (pruned.empty()) return out;
    TAMIS_TRY(const std::string_view architecture, file.get_string("general.architecture"));
    out.key_prefix_ = std::string(architecture) + ".";
    std::set<uint32_t> there;
    for (const GgufTensor& tensor : file.tensors())
      if (const auto layer = layer_number(tensor.name)) there.insert(*layer);
    for (const uint32_t layer : pruned)
      if (!there.contains(layer))
        return fail(ErrorCode::invalid_argument, "layer {} cannot be pruned: the model has {} layers", layer,
                    there.size());
    for (const uint32_t layer : there) {
      const bool is_pruned = std::find(pruned.begin(), pruned.end(), layer) != pruned.end();
      out.kept_.push_back(!is_pruned);
      if (!is_pruned) out.renumbered_[layer] = static_cast<uint32_t>(out.renumbered_.size());
    }
    if (out.renumbered_.empty()) return fail(ErrorCode::invalid_argument, "no layer would be left");
    return out;
  }

  // The tensor's new name; nothing when its layer is gone.
  std::optional<std::string> name_of(std::string_view name) const {
    const auto layer = layer_number(name);
    if (kept_.empty() || !layer) return std::string(name);
    const auto found = renumbered_.find(*layer);
    if (found == renumbered_.end()) return std::nullopt;
    return fmt::format("blk.{}{}", found->second, name.substr(name.find('.', 4)));
  }

  // block_count, and arrays that hold a value for each layer.
  void edit(const GgufFile& file, std::vector<KvEdit>& edits) const {
    if (kept_.empty()) return;
    edits.push_back({key_prefix_ + "block_count", GgufEncoded::number(static_cast<uint32_t>(renumbered_.size()))});
    for (const GgufKv& kv : file.kvs()) {
      const auto array = kv.value.as_array();
      if (!kv.key.starts_with(key_prefix_) || !array || array->size() != kept_.size()) continue;
      std::vector<GgufEncoded> values;
      const auto all = array->values();
      for (size_t i = 0; i < all.size(); ++i)
        if (kept_[i]) values.push_back(GgufEncoded::copy(all[i]));
      edits.push_back({std::string(kv.key), GgufEncoded::array(array->element_type(), values)});
    }
  }

 private:
  std::string key_prefix_;
  std::vector<bool> kept_;  // by old number; empty: nothing is pruned
  std::map<uint32_t, uint32_t> renumbered_;
};

class Planner {
 public:
  Planner(const GgufFile& source, const QuantizeOptions& options) : plan_{source, options, {}, {}, {}, {}, {}} {}

  Result<QuantizePlan> plan(const std::string& out_path) {
    TAMIS_TRY(pruning_, Pruning::create(plan_.source, plan_.options.pruned_layers));
    TAMIS_TRY_STATUS(choose());
    TAMIS_TRY_STATUS(match_imatrix());
    TAMIS_TRY_STATUS(lay_out(out_path));
    warn();
    return std::move(plan_);
  }

 private:
  Status choose() {
    const auto& options = plan_.options;
    for (size_t i = 0; i < plan_.source.tensors().size(); ++i) {
      const GgufTensor& tensor = plan_.source.tensors()[i];
      auto name = pruning_.name_of(tensor.name);
      if (name) plan_.tensors.push_back({i, *std::move(name), tensor.shape, tensor.dtype, {}, 0, nullptr});
    }
    std::vector<RecipeTensor> tensors;
    for (const QuantizedTensor& tensor : plan_.tensors) tensors.push_back({tensor.name, tensor.shape, tensor.from});
    RecipeFacts facts;
    if (!options.recipe.is_copy) {
      TAMIS_TRY(facts, read_recipe_facts(plan_.source));
    }
    RecipeOptions recipe{options.recipe,          options.imatrix != nullptr, options.is_pure,
                         options.leaves_output,   options.keeps_split,        options.output_type,
                         options.token_embd_type, &options.overrides};
    TAMIS_TRY(const std::vector<TypeChoice> choices, choose_types(facts, tensors, recipe));
    for (size_t i = 0; i < choices.size(); ++i) {
      QuantizedTensor& tensor = plan_.tensors[i];
      tensor.choice = choices[i];
      const auto bytes = dtype_bytes(choices[i].type, tensor.shape.n_elements());
      if (!bytes)
        return fail(ErrorCode::shape, "{}: {} values are no whole blocks of {}", escape_for_display(tensor.name),
                    tensor.shape.n_elements(), dtype_name(choices[i].type));
      tensor.size_bytes = *bytes;
      if (auto allowed = check_change(tensor); !allowed && !plan_.refusal) plan_.refusal = std::move(allowed).error();
    }
    return {};
  }

  Status check_change(const QuantizedTensor& tensor) const {
    if (tensor.from == tensor.choice.type) return {};
    const std::string name = escape_for_display(tensor.name);
    if (!has_encoder(tensor.choice.type))
      return fail(ErrorCode::unsupported, "{}: nothing here encodes {}", name, dtype_name(tensor.choice.type));
    if (dtype_info(tensor.from).block_len > 1 && !plan_.options.allows_requantize)
      return fail(ErrorCode::invalid_argument,
                  "{} is {} already: encoding it again as {} loses more than a float source would (--allow-requantize "
                  "does it all the same)",
                  name, dtype_name(tensor.from), dtype_name(tensor.choice.type));
    return {};
  }

  Status match_imatrix() {
    const Imatrix* imatrix = plan_.options.imatrix;
    if (imatrix != nullptr) TAMIS_TRY_STATUS(check_names(*imatrix));
    for (QuantizedTensor& tensor : plan_.tensors) {
      if (tensor.from == tensor.choice.type || dtype_info(tensor.choice.type).block_len == 1) continue;
      if (imatrix != nullptr) {
        const auto found = imatrix->entries.find(plan_.source.tensors()[tensor.source].name);
        if (found != imatrix->entries.end()) {
          TAMIS_TRY_STATUS(check_entry(tensor, found->second));
          find_correlations(tensor, found->first);
        }
      }
      const bool is_needed = needs_imatrix(tensor.name, tensor.choice.type, *plan_.options.recipe.recipe);
      if (is_needed && tensor.importance == nullptr && plan_.missing_imatrix.empty())
        plan_.missing_imatrix =
            fmt::format("{} as {}", escape_for_display(tensor.name), dtype_name(tensor.choice.type));
    }
    if (plan_.options.method != EncodeMethod::hessian) return {};
    if (imatrix == nullptr)
      return fail(ErrorCode::invalid_argument, "--method hessian needs --imatrix F, made with tamis imatrix --hessian");
    if (imatrix->correlations.empty())
      return tl::unexpected<Error>(with_file(
          Error{ErrorCode::invalid_argument,
                "--method hessian needs the correlations of inputs, which tamis imatrix --hessian adds", nullptr},
          plan_.options.imatrix_path));
    const auto n_without = std::ranges::count_if(plan_.tensors, [](const QuantizedTensor& tensor) {
      const bool is_encoded = tensor.from != tensor.choice.type && dtype_info(tensor.choice.type).block_len > 1;
      return is_encoded && tensor.correlations == nullptr;
    });
    if (n_without > 0)
      plan_.warnings.push_back(
          fmt::format("{} tensor{} encoded as with --method fast: no correlations of {} inputs, or a type of vectors",
                      n_without, n_without == 1 ? " is" : "s are", n_without == 1 ? "its" : "their"));
    return {};
  }

  // What the method hessian needs of a tensor, where the imatrix has it and the type has codes to move.
  void find_correlations(QuantizedTensor& tensor, const std::string& name) {
    const auto& all = plan_.options.imatrix->correlations;
    const auto found = all.find(name);
    if (plan_.options.method != EncodeMethod::hessian || found == all.end() || tensor.importance == nullptr) return;
    const bool fits = tensor.shape.n_matrices() == 1 && found->second->n_cols() == tensor.shape.row_len();
    if (fits && has_feedback_encoder(tensor.choice.type)) tensor.correlations = found->second;
  }

  Status check_names(const Imatrix& imatrix) {
    const auto warning =
        check_imatrix_names(imatrix, [&](std::string_view name) { return plan_.source.find_tensor(name) != nullptr; });
    if (!warning) return tl::unexpected<Error>(with_file(warning.error(), plan_.options.imatrix_path));
    if (!warning->empty()) plan_.warnings.push_back(*warning);
    return {};
  }

  // An expert that calibration never chose weighs 1: said once a tensor.
  Status check_entry(QuantizedTensor& tensor, const ImatrixEntry& entry) {
    const uint64_t n_cols = tensor.shape.row_len(), n_mat = tensor.shape.n_matrices();
    const auto fits = imatrix_importance(entry, tensor.name, n_mat, n_cols, 0);
    if (!fits && tensor.name.find("token_embd") != std::string::npos) {
      plan_.warnings.push_back(fits.error().message + "; it is encoded without");
      return {};
    }
    if (!fits) return tl::unexpected<Error>(with_file(fits.error(), plan_.options.imatrix_path));
    tensor.importance = &entry;
    std::string unseen;
    size_t n_unseen = 0;
    for (uint64_t mat = 0; mat < entry.n_mat(); ++mat)
      if (entry.counts[mat] == 0 && ++n_unseen <= 8) unseen += fmt::format("{}{}", unseen.empty() ? "" : ", ", mat);
    if (n_unseen > 0)
      plan_.warnings.push_back(fmt::format("{}: calibration never chose expert{} {}{}: weighted evenly",
                                           escape_for_display(tensor.name), n_unseen == 1 ? "" : "s", unseen,
                                           n_unseen > 8 ? fmt::format(" and {} more", n_unseen - 8) : ""));
    return {};
  }

  std::vector<KvEdit> edits() const {
    const auto& options = plan_.options;
    std::vector<KvEdit> out;
    for (const std::string_view key : {kSplitNo, kSplitCount, kSplitTensors}) out.push_back({std::string(key), {}});
    pruning_.edit(plan_.source, out);
    if (!options.recipe.is_copy) {
      out.push_back({"general.quantization_version", GgufEncoded::number(kQuantizationVersion)});
      out.push_back({"general.file_type", GgufEncoded::number(options.recipe.recipe->file_type)});
    }
    if (options.imatrix != nullptr) {
      out.push_back({"quantize.imatrix.file", GgufEncoded::text(options.imatrix_path)});
      if (!options.imatrix->datasets.empty())
        out.push_back({"quantize.imatrix.dataset", GgufEncoded::text(options.imatrix->datasets.front())});
      const auto n = static_cast<uint32_t>(options.imatrix->entries.size());
      out.push_back({"quantize.imatrix.entries_count", GgufEncoded::number(n)});
      if (options.imatrix->n_chunks > 0)
        out.push_back({"quantize.imatrix.chunks_count", GgufEncoded::number(options.imatrix->n_chunks)});
    }
    out.insert(out.end(), options.kv_overrides.begin(), options.kv_overrides.end());
    return out;
  }

  Status lay_out(const std::string& out_path) {
    const GgufFile& source = plan_.source;
    const bool is_split = plan_.options.keeps_split && source.n_shards() > 1;
    const uint32_t n_files = is_split ? source.n_shards() : 1;
    std::string prefix = out_path;
    if (prefix.ends_with(".gguf")) prefix.resize(prefix.size() - 5);
    for (uint32_t i = 0; i < n_files; ++i) {
      QuantizedFile file;
      file.path = is_split ? shard_path(prefix, i, n_files) : out_path;
      TAMIS_TRY_STATUS(check_path(file.path));
      TAMIS_TRY_STATUS(declare(file, i, is_split));
      plan_.files.push_back(std::move(file));
    }
    return {};
  }

  Status declare(QuantizedFile& file, uint32_t shard_idx, bool is_split) const {
    const GgufFile& source = plan_.source;
    GgufWriter& writer = file.writer;
    if (shard_idx == 0) {
      TAMIS_TRY_STATUS(add_edited(writer, source, edits()));
    } else {
      TAMIS_TRY_STATUS(writer.add_all(source, [](std::string_view key) { return key == "general.alignment"; }));
    }
    if (is_split) {
      TAMIS_TRY_STATUS(writer.add(kSplitNo, GgufEncoded::number(static_cast<uint16_t>(shard_idx))));
      TAMIS_TRY_STATUS(writer.add(kSplitCount, GgufEncoded::number(static_cast<uint16_t>(source.n_shards()))));
      TAMIS_TRY_STATUS(writer.add_i32(kSplitTensors, static_cast<int32_t>(plan_.tensors.size())));
    }
    const auto shard_of = [&](const QuantizedTensor& tensor) {
      return is_split ? source.tensors()[tensor.source].shard_idx : 0;
    };
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      const QuantizedTensor& tensor = plan_.tensors[i];
      if (shard_of(tensor) != shard_idx) continue;
      file.tensors.push_back(i);
      TAMIS_TRY_STATUS(writer.add_tensor(tensor.name, tensor.choice.type, tensor.shape));
    }
    file.size_bytes = writer.header().size() + writer.data_bytes();
    return {};
  }

  Status check_path(const std::string& path) const {
    std::error_code error;
    for (uint32_t i = 0; i < plan_.source.n_shards(); ++i)
      if (std::filesystem::equivalent(plan_.source.path(i), path, error))
        return fail(ErrorCode::invalid_argument, "{} would be written over the model it is made from", path);
    return {};
  }

  void warn() {
    const TensorTypes& overrides = plan_.options.overrides;
    std::vector<bool> is_used(overrides.size());
    for (const QuantizedTensor& tensor : plan_.tensors) {
      if (tensor.choice.reason == TypeReason::kept && !is_encodable(tensor.name, tensor.shape)) continue;
      if (const auto found = overrides.find(tensor.name); found && *found) is_used[**found] = true;
    }
    for (size_t i = 0; i < overrides.size(); ++i)
      if (!is_used[i])
        plan_.warnings.push_back(
            fmt::format("--tensor-type \"{}\" matches no tensor that is encoded, or an earlier one "
                        "matches all of them",
                        escape_for_display(overrides.pattern(i))));
    const bool is_float = dtype_info(plan_.options.recipe.recipe->base).block_len == 1;
    if (overrides.size() > 0 && (is_float || plan_.options.recipe.is_copy))
      plan_.warnings.push_back(fmt::format("--tensor-type does nothing for {}", plan_.options.recipe.name()));
    std::map<std::pair<DType, DType>, size_t> fallbacks;
    for (const QuantizedTensor& tensor : plan_.tensors)
      if (tensor.choice.reason == TypeReason::fallback) ++fallbacks[{tensor.choice.wanted, tensor.choice.type}];
    for (const auto& [types, n] : fallbacks)
      plan_.warnings.push_back(fmt::format("{} tensor{} as {}: rows are no whole blocks of {}", n, n == 1 ? "" : "s",
                                           dtype_name(types.second), dtype_name(types.first)));
  }

  QuantizePlan plan_;
  Pruning pruning_;
};

}  // namespace

uint64_t QuantizePlan::size_bytes() const {
  uint64_t sum = 0;
  for (const QuantizedFile& file : files) sum += file.size_bytes;
  return sum;
}

uint64_t QuantizePlan::tensor_bytes() const {
  uint64_t sum = 0;
  for (const QuantizedTensor& tensor : tensors) sum += tensor.size_bytes;
  return sum;
}

uint64_t QuantizePlan::n_params() const {
  uint64_t sum = 0;
  for (const QuantizedTensor& tensor : tensors) sum += tensor.shape.n_elements();
  return sum;
}

Result<QuantizePlan> plan_quantize(const GgufFile& source, const QuantizeOptions& options,
                                   const std::string& out_path) {
  return Planner(source, options).plan(out_path);
}

}  // namespace tamis
