// fuzz: rooms=text,formats,base
// F9: GBNF grammars, as text or from snippets, then steps under their masks. Whatever the grammar, it compiles or is
// refused within its limits, and mask and acceptance agree.
#include "tests/fuzz/grammar_walk.h"

namespace {

constexpr std::string_view kSnippets[] = {"root ::= ",
                                          "a ::= ",
                                          "b ::= ",
                                          "\n",
                                          "a ",
                                          "b ",
                                          "root ",
                                          "\"a\" ",
                                          "\"\" ",
                                          "\"abc\" ",
                                          "[a-z] ",
                                          "[^\"] ",
                                          ". ",
                                          "(",
                                          ") ",
                                          "| ",
                                          "* ",
                                          "+ ",
                                          "? ",
                                          "{2} ",
                                          "{0,3} ",
                                          "{1,} ",
                                          "{5,1000000000} ",
                                          "\"\\u00e9\" ",
                                          "# x\n",
                                          "[0-9]",
                                          "\"{\" ",
                                          "\"}\" "};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tamis;
  if (size < 4) return 0;
  const std::span<const uint8_t> all(data, size);
  const size_t n_walk = std::min<size_t>(data[0] >> 3, size / 2);
  const auto grammar = Grammar::from_gbnf(fuzzing::build_text(all.subspan(n_walk), kSnippets), fuzzing::small_limits());
  if (grammar) fuzzing::walk(*grammar, all.first(n_walk));
  return 0;
}
