// The rows of recipe_table.cpp: rules as data.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "convert/recipe.h"

namespace tamis {

// Sets of recipes: bit n is general.file_type n.
using RecipeSet = uint64_t;

// Kinds of tensors, told by parts of their names; a set of them in a rule.
using KindSet = uint16_t;
enum TensorKind : KindSet {
  kOther = 1 << 0,
  kOutput = 1 << 1,  // and token_embd of a model without output.weight
  kTokenEmbd = 1 << 2,
  kAttnQ = 1 << 3,
  kAttnK = 1 << 4,
  kAttnV = 1 << 5,
  kAttnQkv = 1 << 6,
  kAttnKvB = 1 << 7,
  kAttnOutput = 1 << 8,
  kFfnUp = 1 << 9,
  kFfnGate = 1 << 10,
  kFfnDown = 1 << 11,
};
inline constexpr KindSet kValues = kAttnV | kAttnQkv | kAttnKvB;  // counted as one row of tensors
inline constexpr KindSet kAnyKind = 0xffff;

// What must hold beside: all of the bits of a rule. i counts tensors of one kind by layer, n is their number.
using When = uint32_t;
enum Condition : When {
  kAlways = 0,
  kGqa4 = 1 << 0,            // 4 heads or more share a key head
  kGqa4OrExperts4 = 1 << 1,  // or there are 4 experts or more
  kExperts8 = 1 << 2,        // exactly 8
  kNotExperts8 = 1 << 3,
  kImatrix = 1 << 4,
  kNoImatrix = 1 << 5,
  kFirst2 = 1 << 6,          // i < 2
  kFirst4 = 1 << 7,          // i < 4
  kFirstEighth = 1 << 8,     // i < n/8
  kFirstSixteenth = 1 << 9,  // i < n/16
  kMoreBits = 1 << 10,       // i < n/8, or i >= 7n/8, or (i − n/8) mod 3 = 2
  kMiddle = 1 << 11,         // n/8 <= i < 7n/8
  kFalcon = 1 << 12,
  kNotFalcon = 1 << 13,
  kStacked = 1 << 14,   // three dimensions: experts
  kRagged = 1 << 15,    // rows are no whole blocks of the recipe's base
  kOwn = 1 << 16,       // recipes of the "+" names only
  kPerLayer = 1 << 17,  // per_layer_token_embd
};

struct Rule {
  RecipeSet recipes;
  KindSet kinds;
  When when;
  DType type;
};
std::span<const Rule> recipe_rules();  // the first that matches; base where none does

// Recipes that count ffn_down one by one even where layers of experts tell their number.
RecipeSet recipes_counting_experts();

// Types lifted after the rules.
struct Lift {
  KindSet kinds;
  DType from, to;
};
std::span<const Lift> lifts_of_70b();

// Where rows are no whole blocks of `wanted`: what stock takes (then F16), and what "+" names take, the first whose
// blocks fit (then F16). A type without a row: F16, and stock refuses.
struct Fallback {
  DType wanted, stock;
  std::array<DType, 3> own;
};
std::span<const Fallback> shape_fallbacks();

struct KindName {
  std::string_view part;  // of the name
  bool is_whole;          // it is the whole name
  TensorKind kind;
};
std::span<const KindName> kind_names();  // the first that matches

std::span<const std::string_view> kept_name_parts();  // tensors that are never encoded
std::span<const DType> types_needing_imatrix();

}  // namespace tamis
