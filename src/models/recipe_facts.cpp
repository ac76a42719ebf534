// Reading of the recipes' facts from metadata.
#include "models/recipe_facts.h"

#include <algorithm>
#include <limits>
#include <string>

namespace tamis {
namespace {

// A count, or the first of an array of counts (one a layer); `absent` when there is none.
Result<uint32_t> first_count(const GgufFile& file, const std::string& key, uint32_t absent) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return absent;
  std::optional<uint64_t> number = value->as_uint();
  if (const auto array = value->as_array()) number = array->size() == 0 ? absent : array->uint_at(0);
  if (!number || *number > std::numeric_limits<uint32_t>::max())
    return file.error_at_key(key, std::string(gguf_type_name(value->type())), "a count, or one for each layer",
                             "E_KV_TYPE");
  return static_cast<uint32_t>(*number);
}

}  // namespace

Result<RecipeFacts> read_recipe_facts(const GgufFile& file) {
  TAMIS_TRY(const std::string_view architecture, file.get_string("general.architecture"));
  const std::string prefix = std::string(architecture) + ".";
  RecipeFacts facts;
  TAMIS_TRY(facts.n_layers, first_count(file, prefix + "block_count", 0));
  TAMIS_TRY(facts.n_head, first_count(file, prefix + "attention.head_count", 0));
  TAMIS_TRY(facts.n_head_kv, first_count(file, prefix + "attention.head_count_kv", facts.n_head));
  TAMIS_TRY(facts.n_expert, first_count(file, prefix + "expert_count", 0));
  set_recipe_exceptions(architecture, facts);
  return facts;
}

void set_recipe_exceptions(std::string_view architecture, RecipeFacts& facts) {
  constexpr uint32_t kLayersOf70B = 80;
  facts.is_falcon = architecture == "falcon";
  const bool is_grouped = architecture == "llama" && facts.n_head != facts.n_head_kv;
  facts.is_70b = facts.n_layers == kLayersOf70B && (is_grouped || architecture == "qwen2");
}

}  // namespace tamis
