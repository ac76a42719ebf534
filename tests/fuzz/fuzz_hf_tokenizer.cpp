// fuzz: rooms=convert,models,engine,text,compute,quants,formats,base
// Any bytes as tokenizer.model (first byte even) or tokenizer.json with one more JSON as tokenizer_config.json (after
// the first zero byte): an error, or a vocabulary with a type for every token; SentencePiece also reads back what it
// writes.
#include <cstdlib>
#include <string_view>

#include "convert/hf_sentencepiece.h"
#include "convert/hf_tokenizer.h"

namespace {

void check_sentencepiece(std::string_view bytes) {
  const auto model = tamis::read_sentencepiece(bytes);
  if (!model) return;
  const std::string again = tamis::write_sentencepiece(*model);
  const auto second = tamis::read_sentencepiece(again);
  if (!second || tamis::write_sentencepiece(*second) != again) std::abort();
}

void check_vocab(const tamis::HfTokenizerFiles& files) {
  if (!files.has_vocab()) return;
  const auto vocab = tamis::read_hf_vocab(files, {});
  if (!vocab) return;
  if (vocab->tokens.size() != vocab->types.size()) std::abort();
  if (!vocab->scores.empty() && vocab->scores.size() != vocab->tokens.size()) std::abort();
  for (const auto& [key, id] : vocab->ids)
    if (id >= vocab->tokens.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  tamis::HfTokenizerFiles files;
  if (data[0] % 2 == 0) {
    check_sentencepiece(rest);
    files.sentencepiece = std::string(rest);
    check_vocab(files);
    return 0;
  }
  const size_t at = rest.find('\0');
  auto tokenizer = tamis::Json::parse(rest.substr(0, at), 32);
  if (!tokenizer || !tokenizer->is_object()) return 0;
  files.tokenizer = std::move(*tokenizer);
  if (at != rest.npos)
    if (auto config = tamis::Json::parse(rest.substr(at + 1), 32); config && config->is_object())
      files.tokenizer_config = std::move(*config);
  check_vocab(files);
  return 0;
}
