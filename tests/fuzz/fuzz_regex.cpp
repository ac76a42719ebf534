// fuzz: rooms=text,formats,base
// F9: regular expressions of structured output, as text or from snippets, then steps under their masks.
#include "tests/fuzz/grammar_walk.h"

namespace {

constexpr std::string_view kSnippets[] = {"a",   "b",     "ab",          "[a-c]", "[^a]", ".",       "\\d",    "\\w",
                                          "\\S", "(",     ")",           "(?:",   "|",    "*",       "+",      "?",
                                          "{2}", "{1,}",  "{0,1000000}", "^",     "$",    "\\u00e9", "[\\w-]", "\\p{L}",
                                          "(?=", "{3,1}", "\\\\",        "[",     "]",    "-"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tamis;
  if (size < 4) return 0;
  const std::span<const uint8_t> all(data, size);
  const size_t n_walk = std::min<size_t>(data[0] >> 3, size / 2);
  const auto grammar =
      Grammar::from_regex(fuzzing::build_text(all.subspan(n_walk), kSnippets), fuzzing::small_limits());
  if (grammar) fuzzing::walk(*grammar, all.first(n_walk));
  return 0;
}
