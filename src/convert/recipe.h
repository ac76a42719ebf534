// Recipes: which tensor of a model gets which type. A recipe is rows of the tables in recipe_table.cpp; this is how
// they are asked. Stock names choose as llama.cpp does, tensor by tensor, its defects too; a name that ends in "+"
// ("Q4_K_M+") is the same recipe with these put right:
//   - fused attn_qkv has rules of its own, and is no longer lifted as if it were attn_v alone;
//   - "the first layers" are counted by the layer's number, whatever --tensor-type took out of the count;
//   - rows that no block of 256 divides get the type nearest in size, where stock goes up (Q4_K is IQ4_NL, not Q5_0);
//   - per_layer_token_embd, a table looked up and never multiplied, is never below Q4_K.
// Source: quantization.md §1.2–1.5.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/shape.h"
#include "convert/recipe_pattern.h"
#include "models/recipe_facts.h"

namespace tamis {

struct Recipe {
  std::string_view name;   // "Q4_K_M"
  uint32_t file_type = 0;  // general.file_type
  DType base = DType::f32;
  std::string_view note;  // one line of help
};

std::span<const Recipe> all_recipes();

// What a TYPE of the command line stands for.
struct RecipeName {
  const Recipe* recipe = nullptr;
  bool is_own = false;   // "…+"
  bool is_copy = false;  // COPY: every tensor keeps its type
  std::string name() const;
};

// A recipe's name in any letter case, its number, an alias (Q4_K is Q4_K_M) or COPY; nothing for anything else.
std::optional<RecipeName> find_recipe(std::string_view text);

// A tensor as the output will name it.
struct RecipeTensor {
  std::string_view name;
  Shape shape;
  DType dtype = DType::f32;
};

struct RecipeOptions {
  RecipeName recipe;
  bool has_imatrix = false;
  bool is_pure = false;        // base for every tensor that is encoded at all
  bool leaves_output = false;  // output.weight keeps its type
  bool is_file_order = false;  // count layers in the order of the file (shards are kept), not of their numbers
  std::optional<DType> output_type, token_embd_type;
  const TensorTypes* overrides = nullptr;  // patterns asked for by hand; may be null
};

enum class TypeReason : uint8_t { kept, recipe, pure, by_hand, fallback };

struct TypeChoice {
  DType type = DType::f32;
  DType wanted = DType::f32;  // before the shape's fallback
  TypeReason reason = TypeReason::kept;
};

// The type of every tensor, in the order given. Errors: invalid_argument when a type asked for by hand does not divide
// a tensor's rows (--output-tensor-type, --token-embedding-type); the match limit of a pattern.
Result<std::vector<TypeChoice>> choose_types(const RecipeFacts& facts, std::span<const RecipeTensor> tensors,
                                             const RecipeOptions& options);

// Whether a recipe may touch the tensor at all: two dimensions or more, a "….weight", and none of the small or fragile
// ones (norms, routers, convolutions, positions).
bool is_encodable(std::string_view name, const Shape& shape);

// Too few bits to be of use without importance: an error without an imatrix.
bool needs_imatrix(std::string_view name, DType type, const Recipe& recipe);

// The layer's number of "blk.12.…"; nothing for other names.
std::optional<uint32_t> layer_number(std::string_view name);

// Extents above 1, as the recipes count dimensions: a column of 1 makes no matrix.
uint32_t n_real_dims(const Shape& shape);

}  // namespace tamis
