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
  return tamis::fuzzing::compile_and_walk(data, size, kSnippets, tamis::Grammar::from_regex);
}
