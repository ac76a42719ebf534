// fuzz: rooms=formats,base
// F2: the same bytes delivered in pieces of 1 to 7 must give the same file, or the same error word for word.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "tests/fuzz/gguf_properties.h"

namespace {

using namespace tamis;

class ShortReads final : public ByteSource {
 public:
  explicit ShortReads(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size_bytes() const override { return bytes_.size(); }
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
    if (offset >= bytes_.size()) return size_t{0};
    next_ = next_ % 7 + 1;
    const size_t n = std::min({out.size(), next_, static_cast<size_t>(bytes_.size() - offset)});
    std::memcpy(out.data(), bytes_.data() + offset, n);
    return n;
  }
  std::span<const std::byte> mapped() const override { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  size_t next_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tamis::fuzzing;
  if (size > 4096) return 0;  // a few hundred reads say it all
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const GgufOptions options{.mode = size % 2 == 0 ? GgufMode::load : GgufMode::strict};
  const auto whole = GgufFile::open(std::make_shared<MemorySource>(bytes), options);
  const auto pieces = GgufFile::open(std::make_shared<ShortReads>(bytes), options);
  require(whole.has_value() == pieces.has_value());
  if (!whole) {
    require(whole.error().to_string() == pieces.error().to_string());
    return 0;
  }
  require(check_accepted(*whole) == check_accepted(*pieces));
  require(whole->warnings() == pieces->warnings());
  return 0;
}
