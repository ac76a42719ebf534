// fuzz: rooms=text,formats,base
// F10: JSON Schemas, as text or from snippets, then steps under their masks.
#include "tests/fuzz/grammar_walk.h"

namespace {

constexpr std::string_view kSnippets[] = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          ":",
                                          "\"a\"",
                                          "\"b\"",
                                          "1",
                                          "-2.5",
                                          "1e300",
                                          "true",
                                          "false",
                                          "null",
                                          "{}",
                                          "\"type\":",
                                          "\"object\"",
                                          "\"string\"",
                                          "\"integer\"",
                                          "\"number\"",
                                          "\"array\"",
                                          "\"properties\":{\"a\":",
                                          "\"required\":[\"a\"]",
                                          "\"additionalProperties\":",
                                          "\"patternProperties\":{\"^x\":",
                                          "\"items\":",
                                          "\"prefixItems\":[",
                                          "\"minItems\":",
                                          "\"maxItems\":",
                                          "\"minLength\":",
                                          "\"maxLength\":1000000000",
                                          "\"pattern\":\"^[a-z]+$\"",
                                          "\"pattern\":\"a.b\"",
                                          "\"format\":\"date\"",
                                          "\"minimum\":",
                                          "\"maximum\":",
                                          "\"exclusiveMinimum\":",
                                          "\"multipleOf\":3",
                                          "\"enum\":[",
                                          "\"const\":",
                                          "\"anyOf\":[",
                                          "\"oneOf\":[",
                                          "\"allOf\":[",
                                          "\"$ref\":\"#\"",
                                          "\"$ref\":\"#/$defs/a\"",
                                          "\"$defs\":{\"a\":",
                                          "\"minProperties\":1",
                                          "\"maxProperties\":2",
                                          "\"nullable\":true"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tamis;
  if (size < 4) return 0;
  const std::span<const uint8_t> all(data, size);
  const size_t n_walk = std::min<size_t>(data[0] >> 3, size / 2);
  const auto grammar =
      Grammar::from_json_schema(fuzzing::build_text(all.subspan(n_walk), kSnippets), fuzzing::small_limits());
  if (grammar) fuzzing::walk(*grammar, all.first(n_walk));
  return 0;
}
