// fuzz: rooms=formats,base
// F3: a valid file made from the input is accepted strictly; with 1 to 4 fields changed it is accepted and sound, or
// refused with a place and a reason.
#include <cstddef>
#include <memory>
#include <vector>

#include "tests/fuzz/gguf_maker.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tamis;
  using namespace tamis::fuzzing;
  Draw draw(data, size);
  const bool is_strict = draw.byte() % 2 != 0;
  const bool is_edited = draw.byte() % 16 != 0;
  GgufMaker maker(draw);
  const std::string& made = maker.make();
  const std::string& text = is_edited ? maker.edit() : made;
  // A heap block of exactly the size, so that one byte too far is noticed.
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(text.data()),
                                     reinterpret_cast<const std::byte*>(text.data()) + text.size());
  const auto file =
      GgufFile::open(std::make_shared<MemorySource>(bytes), {.mode = is_strict ? GgufMode::strict : GgufMode::load});
  require(is_edited || file.has_value());
  if (file) check_accepted(*file);
  if (!file) check_refused(file.error());
  return 0;
}
