// Asks the tables of recipe_table.cpp, tensor by tensor.
#include "convert/recipe.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "convert/recipe_table.h"

namespace tamis {
namespace {

constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}, {"MXFP4", "MXFP4_MOE"}};
constexpr std::string_view kCopy = "COPY";
constexpr std::string_view kPerLayerTable = "per_layer_token_embd.weight";

bool is_quantized(DType type) { return dtype_info(type).block_len > 1; }

TensorKind kind_of(std::string_view name) {
  for (const KindName& row : kind_names())
    if (row.is_whole ? name == row.part : name.find(row.part) != name.npos) return row.kind;
  return kOther;
}

// n/8 is a whole number, as in the stock recipes.
bool gets_more_bits(uint64_t i, uint64_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

// The stock order: tensors outside layers first, then layer by layer; by name within.
std::vector<size_t> stock_order(std::span<const RecipeTensor> tensors, bool is_file_order) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (is_file_order) return order;
  const auto key = [&](size_t i) {
    const auto layer = layer_number(tensors[i].name);
    return std::pair(layer ? int64_t{*layer} : int64_t{-1}, tensors[i].name);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

class Chooser {
 public:
  Chooser(const RecipeFacts& facts, std::span<const RecipeTensor> tensors, const RecipeOptions& options)
      : facts_(facts), options_(options), recipe_(*options.recipe.recipe) {
    for (const RecipeTensor& tensor : tensors) {
      const TensorKind kind = kind_of(tensor.name);
      n_values_ += (kind & kValues) != 0;
      is_tied_ = is_tied_ && kind != kOutput;
    }
  }

  Result<TypeChoice> choose(const RecipeTensor& tensor) {
    const TypeChoice kept{tensor.dtype, tensor.dtype, TypeReason::kept};
    if (options_.recipe.is_copy || !is_encodable(tensor.name, tensor.shape)) return kept;
    const TensorKind kind = kind_of(tensor.name);
    if (kind == kOutput && options_.leaves_output) return kept;
    if (kind == kTokenEmbd && options_.token_embd_type) return by_hand(tensor, *options_.token_embd_type);
    if (kind == kOutput && options_.output_type) return by_hand(tensor, *options_.output_type);
    if (!is_quantized(recipe_.base)) return TypeChoice{recipe_.base, recipe_.base, TypeReason::recipe};
    TypeChoice choice{recipe_.base, recipe_.base, TypeReason::recipe};
    std::optional<size_t> asked;
    if (options_.overrides != nullptr) {
      TAMIS_TRY(asked, options_.overrides->find(tensor.name));
    }
    if (asked) {
      choice = {options_.overrides->type(*asked), options_.overrides->type(*asked), TypeReason::by_hand};
    } else if (options_.is_pure) {
      choice.reason = TypeReason::pure;
    } else {
      choice.type = choice.wanted = by_rules(tensor, kind);
    }
    return with_fallback(tensor, choice);
  }

 private:
  struct Place {
    uint64_t i = 0, n = 0;
  };

  static Result<TypeChoice> by_hand(const RecipeTensor& tensor, DType type) {
    if (tensor.shape.row_len() % dtype_info(type).block_len != 0)
      return fail(ErrorCode::invalid_argument, "{}: rows of {} are no whole blocks of {} ({})",
                  escape_for_display(tensor.name), tensor.shape.row_len(), dtype_name(type),
                  dtype_info(type).block_len);
    return TypeChoice{type, type, TypeReason::by_hand};
  }

  // Which of its kind the tensor is. Stock counts those that came to the table, own recipes go by the layer's number.
  Place place_of(const RecipeTensor& tensor, TensorKind kind) {
    const auto layer = layer_number(tensor.name);
    if (options_.recipe.is_own) return {layer.value_or(0), facts_.n_layers};
    if ((kind & kValues) != 0) return {n_seen_values_++, n_values_};
    uint64_t* seen = kind == kFfnDown   ? &n_seen_down_
                     : kind == kFfnGate ? &n_seen_gate_
                     : kind == kFfnUp   ? &n_seen_up_
                                        : nullptr;
    if (seen == nullptr) return {};
    const uint64_t counted = (*seen)++;
    const bool counts = (recipes_counting_experts() >> recipe_.file_type & 1) != 0;
    return {facts_.n_expert > 1 && layer && !counts ? *layer : counted, facts_.n_layers};
  }

  When conditions(const RecipeTensor& tensor, Place place) const {
    const auto [i, n] = place;
    const bool has_gqa4 = facts_.heads_per_kv() >= 4;
    When out = options_.has_imatrix ? kImatrix : kNoImatrix;
    const auto add = [&](Condition bit, bool holds) {
      if (holds) out |= bit;
    };
    add(kGqa4, has_gqa4);
    add(kGqa4OrExperts4, has_gqa4 || facts_.n_expert >= 4);
    add(facts_.n_expert == 8 ? kExperts8 : kNotExperts8, true);
    add(kFirst2, i < 2);
    add(kFirst4, i < 4);
    add(kFirstEighth, i < n / 8);
    add(kFirstSixteenth, i < n / 16);
    add(kMoreBits, gets_more_bits(i, n));
    add(kMiddle, i >= n / 8 && i < 7 * n / 8);
    add(facts_.is_falcon ? kFalcon : kNotFalcon, true);
    add(kStacked, n_real_dims(tensor.shape) > 2);
    add(kRagged, tensor.shape.row_len() % dtype_info(recipe_.base).block_len != 0);
    add(kOwn, options_.recipe.is_own);
    add(kPerLayer, tensor.name == kPerLayerTable);
    return out;
  }

  DType by_rules(const RecipeTensor& tensor, TensorKind kind) {
    if (kind == kTokenEmbd && is_tied_ && !(options_.recipe.is_own && tensor.name == kPerLayerTable)) kind = kOutput;
    if (kind == kOutput && options_.output_type) return *options_.output_type;
    const When holds = conditions(tensor, place_of(tensor, kind));
    DType type = recipe_.base;
    for (const Rule& rule : recipe_rules()) {
      if ((rule.recipes >> recipe_.file_type & 1) == 0 || (rule.kinds & kind) == 0 || (rule.when & ~holds) != 0)
        continue;
      type = rule.type;
      break;
    }
    const bool may_lift = facts_.is_70b && !(facts_.n_expert == 8) && !(options_.recipe.is_own && kind == kAttnQkv) &&
                          (recipes_counting_experts() >> recipe_.file_type & 1) == 0;
    if (!may_lift) return type;
    for (const Lift& lift : lifts_of_70b())
      if ((lift.kinds & kind) != 0 && lift.from == type) return lift.to;
    return type;
  }

  TypeChoice with_fallback(const RecipeTensor& tensor, TypeChoice choice) const {
    const auto fits = [&](DType type) { return tensor.shape.row_len() % dtype_info(type).block_len == 0; };
    if (fits(choice.type)) return choice;
    choice.reason = TypeReason::fallback;
    choice.type = DType::f16;
    for (const Fallback& row : shape_fallbacks()) {
      if (row.wanted != choice.wanted) continue;
      if (!options_.recipe.is_own) {
        // Rows of a stock fallback that do not fit either are F16; Q1_0's own is Q2_0, whose fallback is next.
        choice.type = fits(row.stock) ? row.stock : fits(row.own[1]) ? row.own[1] : DType::f16;
        if (row.wanted != DType::q1_0 && !fits(row.stock)) choice.type = DType::f16;
        return choice;
      }
      for (const DType type : row.own)
        if (fits(type)) {
          choice.type = type;
          return choice;
        }
    }
    return choice;
  }

  const RecipeFacts& facts_;
  const RecipeOptions& options_;
  const Recipe& recipe_;
  uint64_t n_values_ = 0;
  bool is_tied_ = true;
  uint64_t n_seen_values_ = 0, n_seen_down_ = 0, n_seen_gate_ = 0, n_seen_up_ = 0;
};

}  // namespace

std::string RecipeName::name() const {
  if (is_copy) return std::string(kCopy);
  return std::string(recipe->name) + (is_own ? "+" : "");
}

std::optional<RecipeName> find_recipe(std::string_view text) {
  RecipeName out;
  std::string wanted;
  for (const char c : text) wanted += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  if (wanted == kCopy) return RecipeName{&all_recipes().front(), false, true};
  if (wanted.ends_with('+')) {
    out.is_own = true;
    wanted.pop_back();
  }
  for (const auto& [alias, name] : kAliases)
    if (wanted == alias) wanted = name;
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  const bool is_number = error == std::errc() && end == wanted.data() + wanted.size();
  for (const Recipe& recipe : all_recipes())
    if (recipe.name == wanted || (is_number && recipe.file_type == number)) {
      out.recipe = &recipe;
      return out;
    }
  return std::nullopt;
}

Result<std::vector<TypeChoice>> choose_types(const RecipeFacts& facts, std::span<const RecipeTensor> tensors,
                                             const RecipeOptions& options) {
  Chooser chooser(facts, tensors, options);
  std::vector<TypeChoice> out(tensors.size());
  for (const size_t i : stock_order(tensors, options.is_file_order)) {
    TAMIS_TRY(out[i], chooser.choose(tensors[i]));
  }
  return out;
}

bool is_encodable(std::string_view name, const Shape& shape) {
  if (n_real_dims(shape) < 2 || !name.ends_with("weight")) return false;
  const auto parts = kept_name_parts();
  return std::none_of(parts.begin(), parts.end(), [&](std::string_view part) { return name.find(part) != name.npos; });
}

bool needs_imatrix(std::string_view name, DType type, const Recipe& recipe) {
  if ((kind_of(name) & (kOutput | kTokenEmbd)) != 0) return false;
  if (type == DType::q2_k) return recipe.name == "Q2_K_S";
  const auto types = types_needing_imatrix();
  return std::find(types.begin(), types.end(), type) != types.end();
}

std::optional<uint32_t> layer_number(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return number;
}

uint32_t n_real_dims(const Shape& shape) {
  uint32_t first = 0;
  while (first < shape.n_dims && shape[first] == 1) ++first;
  return shape.n_dims - first;
}

}  // namespace tamis
