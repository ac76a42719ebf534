// Facts about a model from its metadata and tensor table. Numbers in the file are claims: none sizes an allocation
// here.
#include "cli/model_facts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "base/checked.h"
#include "text/chat_template.h"

namespace tamis::cli {
namespace {

// Source: llama.h, enum llama_ftype (the number says how the file was made, not what each tensor is).
constexpr std::pair<uint64_t, std::string_view> kFileTypes[] = {
    {0, "F32"},     {1, "F16"},     {2, "Q4_0"},       {3, "Q4_1"},       {7, "Q8_0"},     {8, "Q5_0"},
    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"},    {12, "Q3_K_M"},    {13, "Q3_K_L"},  {14, "Q4_K_S"},
    {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},    {18, "Q6_K"},      {19, "IQ2_XXS"}, {20, "IQ2_XS"},
    {21, "Q2_K_S"}, {22, "IQ3_XS"}, {23, "IQ3_XXS"},   {24, "IQ1_S"},     {25, "IQ4_NL"},  {26, "IQ3_S"},
    {27, "IQ3_M"},  {28, "IQ2_S"},  {29, "IQ2_M"},     {30, "IQ4_XS"},    {31, "IQ1_M"},   {32, "BF16"},
    {36, "TQ1_0"},  {37, "TQ2_0"},  {38, "MXFP4_MOE"}, {1024, "guessed"},
};

constexpr std::array<std::string_view, 9> kGroups = {"embedding",   "attention", "feed-forward", "experts", "router",
                                                     "state space", "norms",     "output",       "other"};

std::string file_type_name(uint64_t number) {
  for (const auto& [id, name] : kFileTypes)
    if (id == number) return std::string(name);
  return fmt::format("unknown ({})", number);
}

std::string text_of(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  const auto text = value == nullptr ? std::nullopt : value->as_string();
  return text ? std::string(*text) : std::string();
}

std::optional<uint64_t> uint_of(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  return value == nullptr ? std::nullopt : value->as_uint();
}

std::optional<bool> bool_of(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  return value == nullptr ? std::nullopt : value->as_bool();
}

// A number, or for a list of one a layer "4…8".
std::string number_text(const GgufValue& value) {
  if (const auto whole = value.as_int()) return fmt::format("{}", *whole);
  if (const auto real = value.as_float())
    return std::abs(*real) < 1e15 && *real == std::trunc(*real) ? fmt::format("{:.0f}", *real)
                                                                : fmt::format("{:g}", *real);
  const auto array = value.as_array();
  if (!array || array->size() == 0) return "";
  std::optional<int64_t> low, high;
  for (uint64_t i = 0; i < array->size(); ++i) {
    const auto item = array->int_at(i);
    if (!item) return "";
    low = low ? std::min(*low, *item) : *item;
    high = high ? std::max(*high, *item) : *item;
  }
  return *low == *high ? fmt::format("{}", *low) : fmt::format("{}…{}", *low, *high);
}

std::vector<HyperFact> gather_hyper(const GgufFile& file, const std::string& architecture) {
  static constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {"block_count", "layers"},
      {"embedding_length", "width"},
      {"feed_forward_length", "feed-forward"},
      {"expert_count", "experts"},
      {"expert_used_count", "experts used"},
      {"expert_feed_forward_length", "expert feed-forward"},
      {"attention.head_count", "heads"},
      {"attention.head_count_kv", "KV heads"},
      {"attention.key_length", "head size"},
      {"attention.sliding_window", "window"},
      {"context_length", "context"},
      {"rope.freq_base", "rope base"},
      {"vocab_size", "vocabulary"},
  };
  std::vector<HyperFact> out;
  for (const auto& [key, name] : kKeys) {
    const GgufValue* value = file.find(fmt::format("{}.{}", architecture, key));
    std::string text = value == nullptr ? "" : number_text(*value);
    if (!text.empty()) out.push_back({std::string(name), std::move(text)});
  }
  return out;
}

// Bytes of keys and values of one position at 16 bits each, from GGUF's keys. Nothing when they are absent or absurd.
std::optional<uint64_t> kv_bytes(const GgufFile& file, const std::string& architecture) {
  auto key = [&](std::string_view name) { return fmt::format("{}.{}", architecture, name); };
  const auto n_layers = uint_of(file, key("block_count")), width = uint_of(file, key("embedding_length"));
  const auto n_heads = uint_of(file, key("attention.head_count"));
  if (!n_layers || *n_layers > 4096) return std::nullopt;
  auto key_len = uint_of(file, key("attention.key_length")), value_len = uint_of(file, key("attention.value_length"));
  if (!key_len && n_heads && *n_heads > 0 && width) key_len = *width / *n_heads;
  if (!value_len) value_len = key_len;
  if (!key_len || !value_len || *key_len > 65536 || *value_len > 65536) return std::nullopt;
  uint64_t n_kv_heads = 0;  // over all layers
  const GgufValue* per_layer = file.find(key("attention.head_count_kv"));
  if (const auto array = per_layer == nullptr ? std::nullopt : per_layer->as_array()) {
    for (uint64_t i = 0; i < array->size(); ++i) n_kv_heads += std::min<uint64_t>(array->uint_at(i).value_or(0), 65536);
  } else {
    const auto n = per_layer == nullptr ? n_heads : per_layer->as_uint();
    if (!n || *n > 65536) return std::nullopt;
    n_kv_heads = *n * *n_layers;
  }
  return n_kv_heads * (*key_len + *value_len) * 2;
}

TokenizerFacts gather_tokenizer(const GgufFile& file) {
  TokenizerFacts out;
  out.model = text_of(file, "tokenizer.ggml.model");
  out.pre = text_of(file, "tokenizer.ggml.pre");
  std::vector<std::string_view> tokens;
  if (const auto array = file.get_array("tokenizer.ggml.tokens", GgufType::string))
    tokens = array->strings().value_or(tokens);
  out.n_tokens = tokens.size();
  if (const auto array = file.get_array("tokenizer.ggml.merges", GgufType::string)) out.n_merges = array->size();
  out.has_scores = file.find("tokenizer.ggml.scores") != nullptr;
  for (const GgufKv& kv : file.kvs()) {
    constexpr std::string_view kPrefix = "tokenizer.ggml.", kSuffix = "_token_id";
    if (!kv.key.starts_with(kPrefix) || !kv.key.ends_with(kSuffix) || kv.key.size() < kPrefix.size() + kSuffix.size())
      continue;
    const auto id = kv.value.as_uint();
    if (!id) continue;
    const std::string_view name = kv.key.substr(kPrefix.size(), kv.key.size() - kPrefix.size() - kSuffix.size());
    out.special.push_back({std::string(name), *id, *id < tokens.size() ? std::string(tokens[*id]) : std::string()});
  }
  out.add_bos = bool_of(file, "tokenizer.ggml.add_bos_token");
  out.add_eos = bool_of(file, "tokenizer.ggml.add_eos_token");
  out.add_space_prefix = bool_of(file, "tokenizer.ggml.add_space_prefix");
  return out;
}

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word_char(text[at - 1]);
    const bool ends = at + word.size() == text.size() || !is_word_char(text[at + word.size()]);
    if (begins && ends) return true;
  }
  return false;
}

TemplateFacts template_facts(std::string name, std::string_view source) {
  TemplateFacts out;
  out.name = std::move(name);
  out.source = source;
  if (const auto parsed = ChatTemplate::parse(source); !parsed) out.problem = parsed.error().message;
  out.has_system = has_word(source, "system");
  out.has_tools = has_word(source, "tools");
  out.has_tool_calls = has_word(source, "tool_calls");
  out.has_thinking = has_word(source, "think") || has_word(source, "enable_thinking") ||
                     has_word(source, "reasoning_content") || has_word(source, "thinking");
  out.has_images = has_word(source, "image") || has_word(source, "image_url");
  out.has_generation_prompt = has_word(source, "add_generation_prompt");
  return out;
}

std::vector<TemplateFacts> gather_templates(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::vector<TemplateFacts> out;
  for (const GgufKv& kv : file.kvs()) {
    const auto source = kv.value.as_string();
    if (!source || !kv.key.starts_with(kKey)) continue;
    const std::string_view rest = kv.key.substr(kKey.size());
    if (rest.empty() || rest[0] == '.')
      out.push_back(template_facts(std::string(rest.empty() ? rest : rest.substr(1)), *source));
  }
  return out;
}

void gather_tensors(const GgufFile& file, ModelFacts& facts) {
  std::array<GroupShare, kGroups.size()> groups;
  for (size_t i = 0; i < kGroups.size(); ++i) groups[i].name = kGroups[i];
  std::map<uint64_t, LayerRow> layers;
  for (const GgufTensor& tensor : file.tensors()) {
    facts.total.add(tensor);
    add_to(facts.types, tensor);
    const auto at = std::find(kGroups.begin(), kGroups.end(), tensor_group(tensor.name));
    GroupShare& group = groups[static_cast<size_t>(at - kGroups.begin())];
    group.share.add(tensor);
    add_to(group.types, tensor);
    if (const auto layer = layer_of(tensor.name)) {
      layers[*layer].layer_idx = *layer;
      layers[*layer].tensors.push_back(&tensor);
    }
  }
  for (GroupShare& group : groups)
    if (group.share.n_tensors > 0) facts.groups.push_back(std::move(group));
  for (auto& [idx, row] : layers) facts.layers.push_back(std::move(row));
}

uint64_t active_params(const ModelFacts& facts) {
  uint64_t n_expert_params = 0;
  for (const GroupShare& group : facts.groups)
    if (group.name == "experts") n_expert_params = group.share.n_params;
  if (facts.n_experts == 0 || facts.n_experts_used >= facts.n_experts) return facts.total.n_params;
  return facts.total.n_params - n_expert_params + n_expert_params / facts.n_experts * facts.n_experts_used;
}

std::string array_text(const GgufArray& array, size_t max_bytes) {
  std::string out = fmt::format("[{} × {}]", gguf_type_name(array.element_type()), array.size());
  std::string_view separator = " ";
  if (const auto strings = array.element_type() == GgufType::string ? array.strings() : std::nullopt) {
    for (std::string_view item : *strings) {
      if (out.size() > max_bytes) return out + ", …";
      out += fmt::format("{}\"{}\"", separator, escape_for_display(item, 40));
      separator = ", ";
    }
    return out;
  }
  if (array.element_type() == GgufType::array) return out;
  for (uint64_t i = 0; i < array.size(); ++i) {
    if (out.size() > max_bytes) return out + ", …";
    const auto whole = array.int_at(i);
    const auto unsigned_whole = array.uint_at(i);
    const std::string text = whole            ? fmt::format("{}", *whole)
                             : unsigned_whole ? fmt::format("{}", *unsigned_whole)
                                              : fmt::format("{:.7g}", array.float_at(i).value_or(0));
    out += fmt::format("{}{}", separator, text);
    separator = ", ";
  }
  return out;
}

}  // namespace

void Share::add(const GgufTensor& tensor) {
  ++n_tensors;
  n_params += tensor.shape.n_elements();
  n_bytes += tensor.size_bytes;
}

double Share::bits_per_weight() const {
  return n_params == 0 ? 0 : static_cast<double>(n_bytes) * 8 / static_cast<double>(n_params);
}

void add_to(TypeShares& types, const GgufTensor& tensor) {
  auto at = std::find_if(types.begin(), types.end(), [&](const TypeShare& type) { return type.dtype == tensor.dtype; });
  if (at == types.end()) at = types.insert(types.end(), {tensor.dtype, {}});
  at->share.add(tensor);
  std::stable_sort(types.begin(), types.end(),
                   [](const TypeShare& a, const TypeShare& b) { return a.share.n_bytes > b.share.n_bytes; });
}

std::optional<uint64_t> layer_of(std::string_view tensor_name) {
  if (!tensor_name.starts_with("blk.")) return std::nullopt;
  uint64_t layer = 0;
  const char* begin = tensor_name.data() + 4;
  const auto [end, error] = std::from_chars(begin, tensor_name.data() + tensor_name.size(), layer);
  if (error != std::errc() || end == tensor_name.data() + tensor_name.size() || *end != '.') return std::nullopt;
  return layer;
}

std::string_view tensor_group(std::string_view name) {
  if (layer_of(name)) name = name.substr(name.find('.', 4) + 1);
  auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name.starts_with("token_embd.") || name.starts_with("position_embd.") || name.starts_with("token_types."))
    return "embedding";
  if (has("_norm") || has("norm.")) return "norms";
  if (name.starts_with("output.") || name.starts_with("cls")) return "output";
  if (has("ffn_gate_inp") || has("exp_probs_b")) return "router";
  if (has("_exps.") || has("_shexp.")) return has("_shexp.") ? "feed-forward" : "experts";
  if (name.starts_with("ffn_")) return "feed-forward";
  if (name.starts_with("attn_")) return "attention";
  if (name.starts_with("ssm_") || name.starts_with("time_mix") || name.starts_with("channel_mix")) return "state space";
  return "other";
}

std::string value_text(const GgufValue& value, size_t max_bytes) {
  if (const auto text = value.as_string()) return fmt::format("\"{}\"", escape_for_display(*text, max_bytes));
  if (const auto flag = value.as_bool()) return *flag ? "true" : "false";
  if (const auto whole = value.as_int()) return fmt::format("{}", *whole);
  if (const auto whole = value.as_uint()) return fmt::format("{}", *whole);
  if (const auto real = value.as_float()) return fmt::format("{:.7g}", *real);
  if (const auto array = value.as_array()) return array_text(*array, max_bytes);
  return "";
}

ModelFacts gather_facts(const GgufFile& file) {
  ModelFacts facts;
  facts.name = text_of(file, "general.name");
  if (facts.name.empty()) facts.name = file.path().substr(file.path().rfind('/') + 1);
  facts.architecture = text_of(file, "general.architecture");
  if (const auto number = uint_of(file, "general.file_type")) facts.type_label = file_type_name(*number);
  facts.license = text_of(file, "general.license");
  facts.size_label = text_of(file, "general.size_label");
  facts.hyper = gather_hyper(file, facts.architecture);
  facts.n_experts = uint_of(file, facts.architecture + ".expert_count").value_or(0);
  facts.n_experts_used = uint_of(file, facts.architecture + ".expert_used_count").value_or(0);
  facts.context_length = uint_of(file, facts.architecture + ".context_length").value_or(0);
  facts.kv_bytes_per_token = kv_bytes(file, facts.architecture);
  gather_tensors(file, facts);
  facts.n_active_params = active_params(facts);
  facts.is_tied = file.find_tensor("token_embd.weight") != nullptr && file.find_tensor("output.weight") == nullptr;
  facts.tokenizer = gather_tokenizer(file);
  facts.templates = gather_templates(file);
  return facts;
}

}  // namespace tamis::cli
