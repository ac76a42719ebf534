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
  return tamis::fuzzing::compile_and_walk(data, size, kSnippets, tamis::Grammar::from_json_schema);
}
