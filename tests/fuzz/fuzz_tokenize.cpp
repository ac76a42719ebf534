// fuzz: rooms=text,formats,base sources=tests/text/vocab_files.cpp
// F7: any bytes through six fixed vocabularies. Ids are tokens; no control token comes from text that is not parsed for
// them; the bytes come back where the model promises it; words are those of a backtracking reference.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/log.h"
#include "tests/text/backtrack.h"
#include "tests/text/vocab_files.h"
#include "text/pretokenizer.h"

namespace {

using namespace tamis;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Vocabulary {
  std::shared_ptr<const Tokenizer> tokenizer;
  bool gives_bytes_back;
};

const std::vector<Vocabulary>& vocabularies() {
  static const std::vector<Vocabulary> all = [] {
    set_log_level(LogLevel::quiet);
    const std::vector<std::pair<std::string, float>> pieces = {{"\xe2\x96\x81", -1},
                                                               {"a", -2},
                                                               {"b", -2},
                                                               {"ab", -3},
                                                               {"\xe2\x96\x81"
                                                                "a",
                                                                -4},
                                                               {"th", -3},
                                                               {"t", -2},
                                                               {"h", -2}};
    std::vector<Vocabulary> made;
    for (const char* pre : {"gpt-2", "qwen2", "gpt-4o"})
      made.push_back({*testing::bpe_vocab(pre, testing::common_merges()).tokenizer(), true});
    made.push_back({*testing::spm_vocab(pieces).tokenizer(), true});
    made.push_back({*testing::wordpiece_vocab({"\xe2\x96\x81"
                                               "a",
                                               "b",
                                               "\xe2\x96\x81"
                                               "!",
                                               "ab"})
                         .tokenizer(),
                    false});
    made.push_back({*testing::unigram_vocab(pieces).tokenizer(), false});
    return made;
  }();
  return all;
}

void check_words(std::string_view pre, std::string_view text) {
  if (text.size() > 48) return;
  const PreTokenizerRow* row = find_pre_tokenizer(pre);
  if (row == nullptr || row->rule->patterns.size() != 1) return;
  static std::vector<std::pair<std::string_view, RegexProgram>> programs;
  static std::vector<std::pair<std::string_view, SplitAutomaton>> automata;
  size_t k = 0;
  while (k < programs.size() && programs[k].first != pre) ++k;
  if (k == programs.size()) {
    programs.emplace_back(row->name, *parse_split_regex(row->rule->patterns[0]));
    automata.emplace_back(row->name, *SplitAutomaton::compile(row->rule->patterns[0]));
  }
  std::u32string characters;
  std::vector<size_t> offsets = {0}, ends;
  for (size_t i = 0; i < text.size();) {
    const unicode::Char c = unicode::char_at(text, i);
    characters += c.code_point;
    offsets.push_back(i += c.length);
  }
  SplitScratch scratch;
  automata[k].second.split(text, 0, text.size(), ends, scratch);
  require(ends == testing::backtracking_split(programs[k].second, characters, offsets));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 4096) return 0;
  const Vocabulary& vocabulary = vocabularies()[data[0] % vocabularies().size()];
  const EncodeOptions options{.add_special = (data[1] & 1) != 0, .parse_special = (data[1] & 2) != 0};
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Tokenizer& tokenizer = *vocabulary.tokenizer;
  const auto ids = tokenizer.encode(text, options);
  for (size_t k = 0; k < ids.size(); ++k) {
    require(ids[k] >= 0 && static_cast<size_t>(ids[k]) < tokenizer.n_vocab());
    if (!options.add_special && !options.parse_special)
      require(tokenizer.token_type(ids[k]) != TokenType::control || ids[k] == 1);
  }
  if (!options.add_special && vocabulary.gives_bytes_back && text.find("\xe2\x96\x81") == std::string::npos &&
      (tokenizer.model_name() == "gpt2" || !options.parse_special)) {
    std::string storage;
    const bool is_nfc = tokenizer.pre_name() == "qwen2" && !options.parse_special;
    if (tokenizer.pre_name() != "qwen2")
      require(tokenizer.decode(ids, true) == text);
    else if (is_nfc && text.find("<tool>") == std::string::npos)
      require(tokenizer.decode(ids, true) == unicode::to_nfc(text, storage));
  }
  check_words(tokenizer.pre_name(), text);
  return 0;
}
