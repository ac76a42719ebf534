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
  return tamis::fuzzing::compile_and_walk(data, size, kSnippets, tamis::Grammar::from_gbnf);
}
