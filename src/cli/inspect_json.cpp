// `tamis inspect --json`, --tensors --json and --kv.
#include <cmath>

#include "cli/inspect.h"
#include "cli/parse.h"

namespace tamis::cli {
namespace {

constexpr uint32_t kMaxArrayDepth = 4;

Json value_json(const GgufValue& value, uint32_t depth) {
  if (const auto text = value.as_string()) return Json(*text);
  if (const auto flag = value.as_bool()) return Json(*flag);
  if (const auto whole = value.as_int()) return Json(*whole);
  if (const auto whole = value.as_uint()) return Json(*whole);
  if (const auto real = value.as_float()) return Json(*real);
  Json items = Json::array();
  if (const auto array = value.as_array(); array && depth < kMaxArrayDepth)
    for (const GgufValue& item : array->values()) items.push_back(value_json(item, depth + 1));
  return items;
}

std::string type_text(const GgufValue& value) {
  const auto array = value.as_array();
  if (!array) return std::string(gguf_type_name(value.type()));
  return fmt::format("[{}]", gguf_type_name(array->element_type()));
}

Json optional_json(const std::optional<bool>& value) { return value ? Json(*value) : Json(); }

Json share_json(const Share& share) {
  Json out = Json::object();
  out.set("tensors", Json(share.n_tensors)).set("parameters", Json(share.n_params)).set("bytes", Json(share.n_bytes));
  return out.set("bits_per_weight", share.bits_per_weight());
}

Json types_json(const TypeShares& types) {
  Json out = Json::array();
  for (const TypeShare& type : types) {
    Json row = share_json(type.share);
    out.push_back(row.set("type", dtype_name(type.dtype)));
  }
  return out;
}

Json tokenizer_json(const TokenizerFacts& tokenizer) {
  if (tokenizer.model.empty()) return Json();
  Json special = Json::object();
  for (const SpecialTokenFact& token : tokenizer.special) {
    Json row = Json::object();
    special.set(token.name, row.set("id", Json(token.id)).set("text", token.text));
  }
  Json out = Json::object();
  out.set("model", tokenizer.model)
      .set("pre", tokenizer.pre)
      .set("tokens", Json(tokenizer.n_tokens))
      .set("merges", Json(tokenizer.n_merges));
  out.set("special", std::move(special))
      .set("add_bos", optional_json(tokenizer.add_bos))
      .set("add_eos", optional_json(tokenizer.add_eos));
  return out.set("add_space_prefix", optional_json(tokenizer.add_space_prefix));
}

Json templates_json(const std::vector<TemplateFacts>& templates) {
  Json out = Json::array();
  for (const TemplateFacts& source : templates) {
    Json row = Json::object();
    row.set("name", source.name).set("bytes", static_cast<int64_t>(source.source.size()));
    row.set("problem", source.problem.empty() ? Json() : Json(source.problem)).set("system", source.has_system);
    row.set("tools", source.has_tools).set("tool_calls", source.has_tool_calls).set("thinking", source.has_thinking);
    row.set("images", source.has_images).set("generation_prompt", source.has_generation_prompt);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

Json summary_json(const GgufFile& file, const ModelFacts& facts, const Hashes* hashes) {
  Json paths = Json::array();
  for (uint32_t i = 0; i < file.n_shards(); ++i) paths.push_back(file.path(i));
  Json hyper = Json::object();
  for (const HyperFact& fact : facts.hyper) hyper.set(fact.name, fact.value);
  Json groups = Json::array();
  for (const GroupShare& group : facts.groups) {
    Json row = share_json(group.share);
    groups.push_back(row.set("group", group.name).set("types", types_json(group.types)));
  }
  Json out = Json::object();
  out.set("schema", 1)
      .set("files", std::move(paths))
      .set("version", int64_t{file.version()})
      .set("alignment", Json(file.alignment()));
  out.set("file_bytes", Json(file.size_bytes()))
      .set("metadata_bytes", Json(file.metadata_bytes()))
      .set("name", facts.name);
  out.set("architecture", facts.architecture.empty() ? Json() : Json(facts.architecture))
      .set("configuration", std::move(hyper));
  out.set("file_type", facts.type_label.empty() ? Json() : Json(facts.type_label)).set("license", facts.license);
  out.set("parameters", Json(facts.total.n_params)).set("active_parameters", Json(facts.n_active_params));
  out.set("tensor_bytes", Json(facts.total.n_bytes)).set("bits_per_weight", facts.total.bits_per_weight());
  out.set("kv_bytes_per_token_f16", facts.kv_bytes_per_token ? Json(*facts.kv_bytes_per_token) : Json())
      .set("tied_output", facts.is_tied);
  out.set("types", types_json(facts.types)).set("groups", std::move(groups));
  out.set("tokenizer", tokenizer_json(facts.tokenizer)).set("chat_templates", templates_json(facts.templates));
  if (hashes != nullptr) {
    Json files = Json::array();
    for (const std::string& hash : hashes->files) files.push_back(hash);
    out.set("sha256", std::move(files)).set("tensors_sha256", hashes->tensors);
  }
  Json warnings = Json::array();
  for (const std::string& warning : file.warnings()) warnings.push_back(warning);
  return out.set("warnings", std::move(warnings));
}

Json tensors_json(const GgufFile& file) {
  Json rows = Json::array();
  for (const GgufTensor& tensor : file.tensors()) {
    Json shape = Json::array();
    for (uint32_t i = 0; i < tensor.shape.n_dims; ++i) shape.push_back(Json(tensor.shape[i]));
    Json row = Json::object();
    row.set("name", tensor.name).set("shape", std::move(shape)).set("type", dtype_name(tensor.dtype));
    row.set("offset", Json(tensor.file_offset)).set("bytes", Json(tensor.size_bytes));
    if (file.n_shards() > 1) row.set("shard", int64_t{tensor.shard_idx});
    rows.push_back(std::move(row));
  }
  Json out = Json::object();
  return out.set("schema", 1).set("tensors", std::move(rows));
}

namespace {

tl::unexpected<Error> no_such_key(const GgufFile& file, std::string_view key) {
  std::vector<std::string_view> keys;
  for (const GgufKv& kv : file.kvs()) keys.push_back(kv.key);
  const std::string_view near = nearest(key, keys);
  const std::string hint = near.empty() ? std::string() : fmt::format("; did you mean {}?", escape_for_display(near));
  return tl::unexpected<Error>(
      with_file(Error{ErrorCode::not_found, fmt::format("no key \"{}\"{}", escape_for_display(key), hint), nullptr},
                file.path()));
}

}  // namespace

Result<std::string> kv_text(const GgufFile& file, std::string_view key, const Style& style) {
  if (!key.empty()) {
    const GgufValue* value = file.find(key);
    if (value == nullptr) return no_such_key(file, key);
    const auto text = value->as_string();  // the raw text, so that it can go into a file
    return text ? std::string(*text) + "\n" : value_text(*value, 4096) + "\n";
  }
  Table table({Align::left, Align::left, Align::left}, "");
  for (const GgufKv& kv : file.kvs())
    table.add({style.paint(Color::cyan, escape_for_display(kv.key)), style.dim(type_text(kv.value)),
               value_text(kv.value, 70)});
  return table.text();
}

Result<Json> kv_json(const GgufFile& file, std::string_view key) {
  if (!key.empty() && file.find(key) == nullptr) return no_such_key(file, key);
  Json rows = Json::array();
  for (const GgufKv& kv : file.kvs()) {
    if (!key.empty() && kv.key != key) continue;
    Json row = Json::object();
    row.set("key", kv.key).set("type", type_text(kv.value)).set("offset", Json(kv.value.offset()));
    rows.push_back(row.set("value", value_json(kv.value, 0)));
  }
  Json out = Json::object();
  return out.set("schema", 1).set("kv", std::move(rows));
}

}  // namespace tamis::cli
