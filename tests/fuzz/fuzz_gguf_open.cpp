// fuzz: rooms=formats,base
// F1: any bytes as a GGUF file, in both modes. What is accepted keeps all promises; what strict reading accepts,
// loading does too.
#include <cstddef>
#include <memory>

#include "tests/fuzz/gguf_properties.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tamis;
  using namespace tamis::fuzzing;
  auto source = std::make_shared<MemorySource>(std::span(reinterpret_cast<const std::byte*>(data), size));
  const auto loaded = GgufFile::open(source, {.mode = GgufMode::load});
  if (!loaded) {
    check_refused(loaded.error());
    if (size % 16 == 0) require(!GgufFile::open(source, {.mode = GgufMode::strict}));
    return 0;
  }
  const uint64_t digest = check_accepted(*loaded);
  const auto strict = GgufFile::open(source, {.mode = GgufMode::strict});
  if (strict) require(check_accepted(*strict) == digest);
  if (!strict) check_refused(strict.error());
  return 0;
}
