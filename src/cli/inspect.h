// The parts of `tamis inspect`: each turns an open file into text. inspect.cpp chooses.
#pragma once

#include <string>

#include "cli/model_facts.h"
#include "cli/style.h"
#include "formats/gguf.h"
#include "formats/json.h"

namespace tamis::cli {

// Identity of the contents, for --hash. `tensors` does not depend on metadata, order or alignment: SHA-256 over every
// tensor's name, type, shape and bytes, by name.
struct Hashes {
  std::vector<std::string> files;  // SHA-256 of each shard
  std::string tensors;
};
Result<Hashes> hash_file(const GgufFile& file);

std::string summary_text(const GgufFile& file, const ModelFacts& facts, const Hashes* hashes, const Style& style);
Json summary_json(const GgufFile& file, const ModelFacts& facts, const Hashes* hashes);

std::string tensors_text(const GgufFile& file, const Style& style);
Json tensors_json(const GgufFile& file);

// `key` "" = all. Errors: not_found, with a suggestion.
Result<std::string> kv_text(const GgufFile& file, std::string_view key, const Style& style);
Result<Json> kv_json(const GgufFile& file, std::string_view key);

// A page that needs nothing but a browser: tables and SVG plots, in light and dark.
std::string html_page(const GgufFile& file, const ModelFacts& facts);

struct Difference {
  Json json;         // {"schema":1,"kv":[…],"tensors":[…]}
  std::string text;  // "" when nothing differs
  uint64_t n_kv = 0, n_tensors = 0;
};
// Metadata by key, tensors by name; bytes of tensors of one type and shape are compared. Errors: cancelled.
Result<Difference> diff_files(const GgufFile& a, const GgufFile& b, const Style& style);

}  // namespace tamis::cli
