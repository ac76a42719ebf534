// Special tokens from tokenizer_config.json, config.json, generation_config.json and the post-processor; the files of
// a folder; and the keys of all of it.
#include "convert/hf_special.h"

#include <array>
#include <unordered_map>

#include "text/tokenizer_models.h"

namespace tamis {
namespace {

constexpr uint64_t kMaxJsonBytes = uint64_t{256} << 20;
constexpr uint32_t kJsonDepth = 32;

struct Kind {
  std::string_view name;  // in tokenizer_config.json: NAME_token; in config.json: NAME_token_id
  std::string_view key;   // tokenizer.ggml.KEY
};
constexpr std::array<Kind, 7> kKinds = {{
    {"bos", "bos_token_id"},
    {"eos", "eos_token_id"},
    {"unk", "unknown_token_id"},
    {"sep", "seperator_token_id"},  // GGUF's spelling
    {"pad", "padding_token_id"},
    {"cls", "cls_token_id"},
    {"mask", "mask_token_id"},
}};

Result<Json> read_json(const std::string& folder, std::string_view name) {
  const std::string path = folder + "/" + std::string(name);
  if (!file_exists(path)) return Json();
  TAMIS_TRY(const std::string text, read_text_file(path, kMaxJsonBytes));
  Result<Json> json = Json::parse(text, kJsonDepth);
  if (!json) return tl::unexpected<Error>(with_file(json.error(), path));
  if (!json->is_object()) return tl::unexpected<Error>(with_file({ErrorCode::format, "no JSON object", nullptr}, path));
  return json;
}

Result<std::optional<std::string>> read_whole(const std::string& folder, std::string_view name) {
  const std::string path = folder + "/" + std::string(name);
  if (!file_exists(path)) return std::optional<std::string>();
  TAMIS_TRY(std::string text, read_text_file(path, kMaxJsonBytes));
  return std::optional<std::string>(std::move(text));
}

// "bos_token": "<s>", or an object with "content".
std::string_view token_text(const Json& object, const std::string& key) {
  const Json* value = object.find(key);
  if (value != nullptr && value->is_object()) value = value->find("content");
  return value != nullptr && value->is_string() ? std::string_view(value->as_string()) : std::string_view();
}

// A number, or the first of several.
std::optional<uint64_t> id_of(const Json& object, const std::string& key) {
  const Json* value = object.find(key);
  if (value != nullptr && value->is_array() && !value->as_array().empty()) value = &value->as_array().front();
  if (value == nullptr || !value->is_int() || value->as_int() < 0) return std::nullopt;
  return static_cast<uint64_t>(value->as_int());
}

class SpecialReader {
 public:
  SpecialReader(const HfTokenizerFiles& files, HfVocab& vocab) : files_(files), vocab_(vocab) {
    for (size_t i = vocab.tokens.size(); i-- > 0;) by_text_[vocab.tokens[i]] = i;
  }

  Status run() {
    for (const Kind& kind : kKinds)
      if (const auto id = find(kind)) vocab_.ids.emplace_back(kind.key, static_cast<uint32_t>(*id));
    if (const Json* steps = files_.tokenizer.find("post_processor")) read_post_processor(*steps);
    set_flag("add_bos_token", vocab_.add_bos);
    set_flag("add_eos_token", vocab_.add_eos);
    return read_templates();
  }

 private:
  std::optional<uint64_t> find(const Kind& kind) {
    const std::string name(kind.name);
    if (const std::string_view text = token_text(files_.tokenizer_config, name + "_token"); !text.empty()) {
      const auto it = by_text_.find(text);
      if (it != by_text_.end()) return it->second;
      vocab_.warnings.push_back(fmt::format("tokenizer_config.json: {}_token \"{}\" is no token of the vocabulary",
                                            name, escape_for_display(text)));
    }
    for (const Json* file : {&files_.config, &files_.generation_config}) {
      const auto id = id_of(*file, name + "_token_id");
      if (id && *id < vocab_.tokens.size()) return id;
    }
    return std::nullopt;
  }

  void set_flag(std::string_view key, std::optional<bool>& flag) const {
    const Json* value = files_.tokenizer_config.find(key);
    if (value != nullptr && value->is_bool()) flag = value->as_bool();
  }

  std::optional<uint32_t> special_id(std::string_view key) const {
    for (const auto& [name, id] : vocab_.ids)
      if (name == key) return id;
    return std::nullopt;
  }

  bool is_token(const Json& step, std::string_view key) const {
    const Json* special = step.find("SpecialToken");
    const Json* text = special == nullptr ? nullptr : special->find("id");
    const auto id = special_id(key);
    return id && text != nullptr && text->is_string() && text->as_string() == vocab_.tokens[*id];
  }

  // TemplateProcessing says which special tokens stand around a text; without any, byte-level BPE adds none.
  void read_post_processor(const Json& step) {
    if (const Json* parts = step.find("processors"); parts != nullptr && parts->is_array())
      for (const Json& part : parts->as_array()) read_post_processor(part);
    const Json* single = step.find("single");
    if (single == nullptr || !single->is_array() || single->as_array().empty()) return;
    vocab_.add_bos = is_token(single->as_array().front(), "bos_token_id");
    vocab_.add_eos = single->as_array().size() > 1 && is_token(single->as_array().back(), "eos_token_id");
  }

  Status read_templates() {
    const Json* given = files_.tokenizer_config.find("chat_template");
    if (given == nullptr) given = files_.chat_template_json.find("chat_template");
    if (files_.chat_template) {
      vocab_.chat_templates.emplace_back("", *files_.chat_template);
    } else if (given != nullptr && given->is_string()) {
      vocab_.chat_templates.emplace_back("", given->as_string());
    } else if (given != nullptr && given->is_array()) {
      for (const Json& one : given->as_array()) {
        const Json* name = one.find("name");
        const Json* text = one.find("template");
        if (name == nullptr || text == nullptr || !name->is_string() || !text->is_string())
          return fail(ErrorCode::format, "tokenizer_config.json: chat_template: expected objects of name and template");
        std::string key;
        for (const char c : name->as_string()) key += c > ' ' && c < 127 ? c : '_';
        vocab_.chat_templates.emplace_back(key == "default" ? "" : key, text->as_string());
      }
    }
    return {};
  }

  const HfTokenizerFiles& files_;
  HfVocab& vocab_;
  std::unordered_map<std::string_view, uint64_t> by_text_;
};

Status add_templates(const HfVocab& vocab, GgufWriter& writer) {
  std::vector<std::string> names;
  for (const auto& [name, text] : vocab.chat_templates)
    if (!name.empty()) names.push_back(name);
  if (!names.empty()) TAMIS_TRY_STATUS(writer.add_strings("tokenizer.chat_templates", names));
  for (const auto& [name, text] : vocab.chat_templates)
    TAMIS_TRY_STATUS(writer.add_string("tokenizer.chat_template" + (name.empty() ? "" : "." + name), text));
  return {};
}

}  // namespace

Result<HfTokenizerFiles> HfTokenizerFiles::read(const std::string& folder, const Json& config) {
  HfTokenizerFiles files;
  files.config = config;
  TAMIS_TRY(files.tokenizer, read_json(folder, "tokenizer.json"));
  TAMIS_TRY(files.tokenizer_config, read_json(folder, "tokenizer_config.json"));
  TAMIS_TRY(files.added_tokens, read_json(folder, "added_tokens.json"));
  TAMIS_TRY(files.generation_config, read_json(folder, "generation_config.json"));
  TAMIS_TRY(files.chat_template_json, read_json(folder, "chat_template.json"));
  TAMIS_TRY(files.sentencepiece, read_whole(folder, "tokenizer.model"));
  TAMIS_TRY(files.chat_template, read_whole(folder, "chat_template.jinja"));
  return files;
}

Status read_special_tokens(const HfTokenizerFiles& files, HfVocab& vocab) { return SpecialReader(files, vocab).run(); }

Status add_vocab_keys(const HfVocab& vocab, GgufWriter& writer) {
  const std::string prefix = "tokenizer.ggml.";
  TAMIS_TRY_STATUS(writer.add_string(prefix + "model", vocab.model));
  TAMIS_TRY_STATUS(writer.add_string(prefix + "pre", vocab.pre));
  TAMIS_TRY_STATUS(writer.add_strings(prefix + "tokens", vocab.tokens));
  if (!vocab.scores.empty())
    TAMIS_TRY_STATUS(writer.add_numbers(prefix + "scores", std::span<const float>(vocab.scores)));
  std::vector<int32_t> types;
  for (const TokenType type : vocab.types) types.push_back(static_cast<int32_t>(type));
  TAMIS_TRY_STATUS(writer.add_numbers(prefix + "token_type", std::span<const int32_t>(types)));
  if (vocab.model == kByteLevelBpe) TAMIS_TRY_STATUS(writer.add_strings(prefix + "merges", vocab.merges));
  for (const auto& [key, id] : vocab.ids) TAMIS_TRY_STATUS(writer.add_u32(prefix + std::string(key), id));
  const std::pair<std::string_view, std::optional<bool>> flags[] = {
      {"add_bos_token", vocab.add_bos}, {"add_eos_token", vocab.add_eos}, {"add_space_prefix", vocab.add_space_prefix}};
  for (const auto& [key, flag] : flags)
    if (flag) TAMIS_TRY_STATUS(writer.add_bool(prefix + std::string(key), *flag));
  if (vocab.model == kSentencePieceUnigram) {
    TAMIS_TRY_STATUS(writer.add_bool(prefix + "remove_extra_whitespaces", vocab.removes_extra_whitespaces));
    if (!vocab.charsmap.empty())
      TAMIS_TRY_STATUS(writer.add_numbers(
          prefix + "precompiled_charsmap",
          std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(vocab.charsmap.data()), vocab.charsmap.size())));
  }
  return add_templates(vocab, writer);
}

}  // namespace tamis
