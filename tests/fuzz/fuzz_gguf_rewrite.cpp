// fuzz: rooms=formats,base
// F4: what strict reading accepts can be written again, and what is written reads as the same file.
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "formats/gguf_writer.h"
#include "tests/fuzz/gguf_maker.h"

namespace {

using namespace tamis;
using namespace tamis::fuzzing;

std::vector<std::byte> rewrite(const GgufFile& file) {
  GgufWriter writer;
  require(writer.add_all(file).has_value());
  for (const GgufTensor& tensor : file.tensors())
    require(writer.add_tensor(tensor.name, tensor.dtype, tensor.shape).has_value());
  const std::string header = writer.header();
  std::vector<std::byte> out(header.size() + writer.data_bytes());
  std::memcpy(out.data(), header.data(), header.size());
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const auto data = file.data(file.tensors()[i]);
    std::memcpy(out.data() + header.size() + writer.tensor_offset(i), data.data(), data.size());
  }
  return out;
}

void require_same(const GgufFile& a, const GgufFile& b) {
  require(check_accepted(a) == check_accepted(b));
  require(a.kvs().size() == b.kvs().size() && a.tensors().size() == b.tensors().size() &&
          a.alignment() == b.alignment());
  for (size_t i = 0; i < a.tensors().size(); ++i) {
    const auto left = a.data(a.tensors()[i]), right = b.data(b.tensors()[i]);
    require(left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size()) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Odd first byte: the rest is a file. Even: the rest is what a file is made from.
  if (size == 0) return 0;
  std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1,
                               reinterpret_cast<const std::byte*>(data) + size);
  if (data[0] % 2 == 0) {
    Draw draw(data + 1, size - 1);
    GgufMaker maker(draw);
    const std::string& made = maker.make();
    const std::string& text = data[0] % 4 == 0 ? maker.edit() : made;
    bytes.assign(reinterpret_cast<const std::byte*>(text.data()),
                 reinterpret_cast<const std::byte*>(text.data()) + text.size());
  }
  const GgufOptions strict{.mode = GgufMode::strict, .follow_shards = false};
  const auto file = GgufFile::open(std::make_shared<MemorySource>(bytes), strict);
  if (!file) return 0;
  const std::vector<std::byte> again = rewrite(*file);
  const auto read = GgufFile::open(std::make_shared<MemorySource>(again), strict);
  require(read.has_value());
  require_same(*file, *read);
  require(rewrite(*read) == again);
  return 0;
}
