// From the architecture's table to rows: names, shapes, order; and the type of each tensor.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "convert/convert_state.h"
#include "models/recipe_facts.h"

namespace tamis {
namespace {

constexpr size_t kMaxWarnings = 8;

// Where checkpoints put the language model: alone, or inside a model that also sees.
struct Prefix {
  std::string_view body;  // in place of "model."
  std::string_view head;  // before "lm_head."
};
constexpr std::array<Prefix, 4> kPrefixes = {
    {{"model.", ""}, {"language_model.model.", "language_model."}, {"model.language_model.", ""}, {"", ""}}};

// Tensors that mean nothing to a converted model.
bool is_buffer(std::string_view name) {
  for (const std::string_view end : {".rotary_emb.inv_freq", ".attention.masked_bias", ".attention.bias"})
    if (name.ends_with(end)) return true;
  return false;
}

std::string with_number(std::string_view pattern, char mark, uint64_t number) {
  const size_t at = pattern.find(mark);
  if (at == pattern.npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), number, pattern.substr(at + 1));
}

const SafeTensor* find_embedding(const SafetensorsSet& set, const Prefix& prefix) {
  return set.find(std::string(prefix.body) + "embed_tokens.weight");
}

class Finder {
 public:
  Finder(const Hyper& hyper, ConvertPlan::State& state)
      : hyper_(hyper), arch_(state.config.arch()), state_(state), prefix_(kPrefixes[0]) {
    for (const Prefix& prefix : kPrefixes) {
      if (find_embedding(state.set, prefix) == nullptr) continue;
      prefix_ = prefix;
      break;
    }
  }

  Status run() {
    TAMIS_TRY(is_tied_, state_.config.flag("tie_word_embeddings", arch_.block.is_always_tied));
    TAMIS_TRY(factors_, rope_factors(state_.config, hyper_));
    for (const TensorSpec& spec : arch_.tensors)
      if (!spec.is_per_layer() && applies(spec)) TAMIS_TRY_STATUS(place(spec, 0));
    for (uint32_t i = 0; i < hyper_.n_layers; ++i)
      for (const TensorSpec& spec : arch_.tensors)
        if (spec.is_per_layer() && applies(spec)) TAMIS_TRY_STATUS(place(spec, i));
    report_unused();
    return {};
  }

 private:
  bool applies(const TensorSpec& spec) const {
    switch (spec.when) {
      case When::always: return true;
      case When::dense: return hyper_.n_expert == 0;
      case When::moe: return hyper_.n_expert > 0;
      case When::split_qkv: return !arch_.block.attn.is_fused_qkv;
      case When::fused_qkv: return arch_.block.attn.is_fused_qkv;
    }
    return false;
  }

  std::string hf_name(const TensorSpec& spec, uint32_t layer_idx, uint64_t expert_idx) const {
    std::string name = with_number(with_number(spec.hf_name, '%', layer_idx), '#', expert_idx);
    constexpr std::string_view body = "model.";
    if (name.starts_with(body)) return std::string(prefix_.body) + name.substr(body.size());
    return std::string(prefix_.head) + name;
  }

  Shape shape_of(const TensorSpec& spec, uint32_t layer_idx) const {
    Shape shape;
    for (const Dim dim : spec.dims)
      if (dim != Dim::none) shape.extents[shape.n_dims++] = hyper_.dim(dim, layer_idx);
    return shape;
  }

  Status place(const TensorSpec& spec, uint32_t layer_idx) {
    if (spec.role == Role::rope_factors) return place_factors(spec);
    if (spec.hf_name.empty()) return {};
    if (spec.slot == Slot::output && spec.part == Part::weight) {
      const std::string head = hf_name(spec, 0, 0);
      if (is_tied_) {
        if (has_rows(state_.set, head)) {
          mark_used(head);
          state_.warnings.push_back(head + " is not written: the configuration ties it to the embedding");
        }
        return {};
      }
      // Without the key, a checkpoint that has no output matrix has a tied one.
      if (!has_rows(state_.set, head) && state_.config.find("tie_word_embeddings") == nullptr) return {};
    }
    const bool is_needed = spec.is_required || spec.slot == Slot::output;
    if (!is_needed && !has_rows(state_.set, hf_name(spec, layer_idx, 0))) return {};
    const Shape shape = shape_of(spec, layer_idx);
    TAMIS_TRY(Rows rows, find_rows(spec, layer_idx, shape));
    add(tensor_name(spec.name, layer_idx), shape, in_file_order(spec, layer_idx, std::move(rows)));
    return {};
  }

  void mark_used(const std::string& name) {
    std::vector<std::string> used;
    if (make_rows(state_.set, state_.quantization, name, used)) used_.insert(used.begin(), used.end());
    used_.insert(name);
  }

  // One matrix of the shape's last two extents for each expert; one for everything else.
  Result<Rows> find_rows(const TensorSpec& spec, uint32_t layer_idx, const Shape& shape) {
    const bool is_stack = spec.hf_name.find('#') != spec.hf_name.npos;
    std::vector<Rows> parts;
    for (uint64_t e = 0; e < (is_stack ? shape[0] : 1); ++e) {
      const std::string name = hf_name(spec, layer_idx, e);
      std::vector<std::string> used;
      TAMIS_TRY(Rows rows, make_rows(state_.set, state_.quantization, name, used));
      const uint64_t n_rows = shape.n_rows() / (is_stack ? shape[0] : 1);
      if (rows == nullptr) return missing(name, tensor_name(spec.name, layer_idx), n_rows, shape.row_len());
      used_.insert(used.begin(), used.end());
      if (rows->row_len() != shape.row_len() || rows->n_rows() != n_rows)
        return fail(ErrorCode::shape, "{}: {}: got [{}, {}], expected [{}, {}] from config.json",
                    escape_for_display(folder()), escape_for_display(name), rows->n_rows(), rows->row_len(), n_rows,
                    shape.row_len());
      parts.push_back(std::move(rows));
    }
    return is_stack ? stack_rows(std::move(parts)) : std::move(parts[0]);
  }

  std::string folder() const { return state_.set.path(0).substr(0, state_.set.path(0).rfind('/')); }

  tl::unexpected<Error> missing(const std::string& hf, const std::string& gguf, uint64_t n_rows,
                                uint64_t n_cols) const {
    ErrorSite site;
    site.file = folder();
    site.section = "tensor";
    site.subject = escape_for_display(hf);
    site.got = fmt::format("no such tensor in {} file{}", state_.set.n_files(), state_.set.n_files() == 1 ? "" : "s");
    site.expected = n_rows == 1 ? fmt::format("one of {} elements, for {}", n_cols, gguf)
                                : fmt::format("one of shape [{}, {}], for {}", n_rows, n_cols, gguf);
    site.tag = "E_TENSOR_MISSING";
    return fail_at(ErrorCode::not_found, std::move(site));
  }

  // Q and K as RoPE on neighbours wants them, norms with their offset.
  Rows in_file_order(const TensorSpec& spec, uint32_t layer_idx, Rows rows) const {
    const LayerHyper& layer = hyper_.layers[layer_idx];
    const bool is_rotated = spec.slot == Slot::attn_q || spec.slot == Slot::attn_k;
    if (is_rotated && arch_.block.attn.rope == RopePairs::interleaved) {
      const uint64_t n_head = spec.slot == Slot::attn_q ? layer.n_head : layer.n_head_kv;
      if (spec.part == Part::bias) return as_row(permute_heads(as_column(std::move(rows)), n_head, false));
      return permute_heads(std::move(rows), n_head, false);
    }
    if (spec.role == Role::norm && arch_.hf_norm_offset != 0) return add_offset(std::move(rows), arch_.hf_norm_offset);
    return rows;
  }

  Status place_factors(const TensorSpec& spec) {
    std::vector<float>& values = spec.slot == Slot::rope_freqs  ? factors_.freqs
                                 : spec.slot == Slot::rope_long ? factors_.longer
                                                                : factors_.shorter;
    if (values.empty()) return {};
    const Shape shape{values.size()};
    add(std::string(spec.name), shape, rows_of(std::move(values)));
    return {};
  }

  void add(std::string name, const Shape& shape, Rows rows) {
    state_.tensors.push_back({std::move(name), rows->describe(), shape, DType::f32, 0, std::nullopt});
    state_.rows.push_back(std::move(rows));
  }

  // Other modules as one line each, the language model's own leftovers by name.
  void report_unused() {
    std::vector<std::pair<std::string, size_t>> modules;
    std::vector<std::string> names;
    for (const SafeTensor& tensor : state_.set.tensors()) {
      if (used_.contains(tensor.name) || is_buffer(tensor.name)) continue;
      const std::string module = other_module(tensor.name);
      if (module.empty()) {
        names.push_back(tensor.name);
        continue;
      }
      if (modules.empty() || modules.back().first != module) modules.emplace_back(module, 0);
      ++modules.back().second;
    }
    for (const auto& [module, n] : modules)
      state_.warnings.push_back(fmt::format("{}: {} tensors are not written: only the language model is converted",
                                            escape_for_display(module), n));
    for (size_t i = 0; i < names.size(); ++i) {
      if (i == kMaxWarnings) {
        state_.warnings.push_back(fmt::format("{} more tensors have no place", names.size() - i));
        break;
      }
      state_.warnings.push_back(fmt::format("tensor \"{}\" has no place in architecture {} and is not written",
                                            escape_for_display(names[i]), arch_.name));
    }
  }

  // "vision_tower" for a tensor of a part that is no language model; "" for others.
  static std::string other_module(std::string_view name) {
    for (const std::string_view part :
         {"vision_tower", "multi_modal_projector", "vision_model", "visual", "audio_tower"})
      if (const size_t at = name.find(part); at != name.npos && (at == 0 || name[at - 1] == '.'))
        return std::string(part);
    return "";
  }

  const Hyper& hyper_;
  const ArchSpec& arch_;
  ConvertPlan::State& state_;
  Prefix prefix_;
  bool is_tied_ = false;
  RopeFactors factors_;
  std::unordered_set<std::string> used_;
};

bool is_vector(const ConvertedTensor& tensor) { return tensor.shape.n_dims < 2; }

// Small tensors and routers stay float32 whatever is asked for, as in llama.cpp's converter.
DType float_choice(const ConvertPlan::State& state, size_t i, std::optional<DType> wanted) {
  const ConvertedTensor& tensor = state.tensors[i];
  if (is_vector(tensor) || !is_encodable(tensor.name, tensor.shape)) return DType::f32;
  if (wanted) return *wanted;
  return state.rows[i]->native_type().value_or(state.rows[i]->float_type());
}

uint32_t file_type_of(DType type) {
  for (const Recipe& recipe : all_recipes())
    if (recipe.base == type && recipe.name == dtype_name(type)) return recipe.file_type;
  return 0;
}

// What most weights have.
DType main_type(const std::vector<ConvertedTensor>& tensors) {
  std::vector<std::pair<DType, uint64_t>> counts;
  for (const ConvertedTensor& tensor : tensors) {
    const auto it = std::find_if(counts.begin(), counts.end(), [&](auto& row) { return row.first == tensor.type; });
    if (it == counts.end())
      counts.emplace_back(tensor.type, tensor.shape.n_elements());
    else
      it->second += tensor.shape.n_elements();
  }
  return std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
}

Status choose_by_recipe(const RecipeFacts& facts, const RecipeName& recipe, ConvertPlan::State& state) {
  std::vector<RecipeTensor> tensors;
  for (size_t i = 0; i < state.tensors.size(); ++i)
    tensors.push_back({state.tensors[i].name, state.tensors[i].shape,
                       is_vector(state.tensors[i]) || !is_encodable(state.tensors[i].name, state.tensors[i].shape)
                           ? DType::f32
                           : state.rows[i]->float_type()});
  RecipeOptions options = state.options.recipe;
  options.recipe = recipe;
  options.has_imatrix = state.options.imatrix != nullptr;
  TAMIS_TRY(const std::vector<TypeChoice> choices, choose_types(facts, tensors, options));
  for (size_t i = 0; i < choices.size(); ++i) {
    state.tensors[i].type = choices[i].type;
    if (!options.has_imatrix && needs_imatrix(state.tensors[i].name, choices[i].type, *recipe.recipe))
      return fail(ErrorCode::invalid_argument, "{} for {} needs an importance matrix (--imatrix)",
                  dtype_name(choices[i].type), state.tensors[i].name);
    if (choices[i].reason == TypeReason::fallback)
      state.warnings.push_back(fmt::format("{}: rows of {} fit no block of {}: {} instead", state.tensors[i].name,
                                           state.tensors[i].shape.row_len(), dtype_name(choices[i].wanted),
                                           dtype_name(choices[i].type)));
  }
  state.file_type = recipe.recipe->file_type;
  return {};
}

}  // namespace

Result<uint64_t> count_vocab(const ConvertPlan::State& state) {
  TAMIS_TRY(const auto given, state.config.uint("vocab_size"));
  if (given) return *given;
  for (const Prefix& prefix : kPrefixes)
    if (const SafeTensor* table = find_embedding(state.set, prefix); table != nullptr && table->shape.size() == 2)
      return table->shape[0];
  return state.config.bad("vocab_size", "no such key", "it, or a tensor model.embed_tokens.weight",
                          ErrorCode::not_found);
}

Status find_tensors(const Hyper& hyper, ConvertPlan::State& state) { return Finder(hyper, state).run(); }

Status choose_output_types(const RecipeFacts& facts, ConvertPlan::State& state) {
  const std::string& type = state.options.type;
  const std::optional<DType> named = dtype_from_name(type);
  const bool is_float = named == DType::f32 || named == DType::f16 || named == DType::bf16;
  if (type == "auto" || is_float) {
    for (size_t i = 0; i < state.tensors.size(); ++i)
      state.tensors[i].type = float_choice(state, i, type == "auto" ? std::nullopt : named);
    state.file_type = file_type_of(main_type(state.tensors));
  } else {
    const std::optional<RecipeName> recipe = find_recipe(type);
    if (!recipe || recipe->recipe == nullptr)
      return fail(ErrorCode::invalid_argument, "type \"{}\": expected auto, f32, f16, bf16 or a recipe such as Q4_K_M",
                  escape_for_display(type));
    TAMIS_TRY_STATUS(choose_by_recipe(facts, *recipe, state));
  }
  for (ConvertedTensor& tensor : state.tensors) {
    const auto n_bytes = dtype_bytes(tensor.type, tensor.shape.n_elements());
    if (!n_bytes)
      return fail(ErrorCode::invalid_argument, "{}: its rows are no whole blocks of {}", tensor.name,
                  dtype_name(tensor.type));
    tensor.size_bytes = *n_bytes;
  }
  return {};
}

}  // namespace tamis
