// fuzz: rooms=convert,models,engine,text,compute,quants,formats,base
// Any bytes as an edit "KEY=TYPE:VALUE" (first byte even), or as patterns "RE=TYPE" with a name to look for between
// zero bytes: an error, or an edit that a file can carry and gives back, or patterns that are found or not, in bounded
// time.
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/metadata_edit.h"
#include "convert/recipe_pattern.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_edit(std::string_view text) {
  const auto edit = tamis::parse_kv_edit(text);
  if (!edit) return require(!edit.error().message.empty());
  require(edit->value.has_value() && text.substr(0, edit->key.size()) == edit->key);
  tamis::GgufWriter writer;
  if (!writer.add(edit->key, *edit->value)) return;  // a key that GGUF does not allow, or an alignment
  const std::string bytes = writer.header();
  const auto file = tamis::GgufFile::open(std::make_shared<tamis::MemorySource>(std::as_bytes(std::span(bytes))));
  if (!file) return;  // a text longer than readers take, or split keys of a set that is not there
  const tamis::GgufValue* value = file->find(edit->key);
  require(value != nullptr && value->type() == edit->value->type());
  const auto raw = value->raw();
  require(std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size()) == edit->value->bytes());
}

void check_patterns(std::string_view text) {
  std::vector<std::string> words;
  while (words.size() < 8) {
    const size_t at = text.find('\0');
    words.emplace_back(text.substr(0, at));
    if (at == text.npos) break;
    text.remove_prefix(at + 1);
  }
  const std::string name = words.back();
  words.pop_back();
  const auto types = tamis::TensorTypes::parse(words);
  if (!types) return require(!types.error().message.empty());
  require(types->size() == words.size());
  const auto found = types->find(name);
  if (found && *found) require(**found < types->size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    check_edit(rest);
  } else {
    check_patterns(rest);
  }
  return 0;
}
