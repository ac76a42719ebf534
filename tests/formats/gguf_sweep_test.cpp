// Sweeps over one small valid file: cut at every byte, every bit flipped, every aligned word set to the numbers that
// break readers; and the same bytes through a source that delivers little, fails or ends early.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/formats/gguf_builder.h"

namespace tamis {
namespace {

using namespace tamis::testing;

std::string base_bytes() { return build_gguf(base_kvs(), base_tensors()).bytes; }

// Reads everything a caller could ask for.
void touch(const GgufFile& file) {
  for (const GgufKv& kv : file.kvs()) {
    (void)kv.value.as_uint(), (void)kv.value.as_float(), (void)kv.value.as_string();
    const auto array = kv.value.as_array();
    EXPECT_EQ(array ? array->values().size() : 0, array ? array->size() : 0);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    const auto data = file.data(tensor);
    EXPECT_EQ(data.size(), tensor.size_bytes);
    EXPECT_GE(static_cast<int>(data.front()) + static_cast<int>(data.back()), 0);
  }
}

void expect_accepted_or_explained(const std::string& bytes) {
  for (const GgufMode mode : {GgufMode::load, GgufMode::strict}) {
    const auto file = open_bytes(bytes, mode);
    if (file) {
      touch(*file);
      continue;
    }
    ASSERT_TRUE(file.error().site && file.error().site->has_offset) << file.error().to_string();
    EXPECT_LE(file.error().site->byte_offset, bytes.size());
    EXPECT_FALSE(file.error().site->tag.empty());
  }
}

TEST(GgufSweep, EveryCutIsRefusedAtTheFieldItCuts) {
  const std::string whole = base_bytes();
  const RawGguf raw = build_gguf(base_kvs(), base_tensors());
  const uint64_t needed = whole.size() - 16;  // the last tensor's padding may be missing
  for (uint64_t n = 0; n < needed; ++n) {
    for (const GgufMode mode : {GgufMode::load, GgufMode::strict}) {
      const auto file = open_bytes(whole.substr(0, n), mode);
      ASSERT_FALSE(file) << n;
      const uint64_t offset = file.error().site->byte_offset;
      const std::string& tag = file.error().site->tag;
      // A count that too few bytes follow is refused at the count; otherwise the error stands at the field the cut goes
      // through, and in tensor data at the cut itself.
      if (tag == "E_COUNT") continue;
      ASSERT_EQ(tag, "E_TRUNCATED") << n;
      EXPECT_LE(offset, n);
      EXPECT_GE(offset + 32, n)
          << file.error().to_string();  // a count and three string lengths, the longest checked at once
      if (n >= raw.at.at("data")) {
        EXPECT_EQ(offset, n);
      }
    }
  }
  for (uint64_t n = needed; n <= whole.size(); ++n) EXPECT_TRUE(open_bytes(whole.substr(0, n))) << n;
}

TEST(GgufSweep, EveryFlippedBitIsAcceptedOrExplained) {
  const std::string whole = base_bytes();
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    SCOPED_TRACE(bit);
    expect_accepted_or_explained(flipped);
  }
}

TEST(GgufSweep, EveryWordAtABoundaryValueIsAcceptedOrExplained) {
  const std::string whole = base_bytes();
  constexpr uint64_t kValues[] = {0,
                                  1,
                                  (uint64_t{1} << 31) - 1,
                                  uint64_t{1} << 31,
                                  0xffffffff,
                                  (uint64_t{1} << 63) - 1,
                                  uint64_t{1} << 63,
                                  ~uint64_t{0}};
  for (const uint64_t value : kValues) {
    for (const size_t width : {4u, 8u}) {
      // Fields of a GGUF file are not aligned, so every offset is tried and not only the multiples of the width.
      for (size_t at = 0; at + width <= whole.size(); ++at) {
        SCOPED_TRACE(at);
        expect_accepted_or_explained(std::string(whole).replace(at, width, u64(value).substr(0, width)));
      }
    }
  }
}

TEST(GgufSweep, ShortReadsChangeNothing) {
  const std::string whole = base_bytes();
  for (size_t n = 1; n <= 7; ++n) {
    const auto source = std::make_shared<TestSource>(whole);
    source->max_read_bytes = n;
    const auto file = GgufFile::open(source, {.mode = GgufMode::strict});
    ASSERT_TRUE(file) << file.error().to_string();
    touch(*file);
    EXPECT_EQ(file->tensors().size(), 3u);
  }
}

TEST(GgufSweep, AFailingReadIsAnIoErrorWhicheverItIs) {
  const std::string whole = base_bytes();
  int64_t n_reads = 0;
  for (int64_t k = 0;; ++k) {
    const auto source = std::make_shared<TestSource>(whole);
    source->max_read_bytes = 7;
    source->fail_at_read = k;
    const auto file = GgufFile::open(source, {.mode = GgufMode::strict});
    if (file) {
      n_reads = k;
      break;
    }
    EXPECT_EQ(file.error().code, ErrorCode::io) << file.error().to_string();
  }
  EXPECT_GE(n_reads, 348 / 7);
}

TEST(GgufSweep, AFileThatEndsEarlierThanItsSizeSaysIsAnIoError) {
  for (const uint64_t n : {0u, 10u, 100u, 340u}) {
    const auto source = std::make_shared<TestSource>(base_bytes().substr(0, n));
    source->hidden_growth = 512 - n;
    const auto file = GgufFile::open(source);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::io);
    EXPECT_EQ(file.error().site->tag, "E_FILE_SHRANK");
    EXPECT_EQ(file.error().site->byte_offset, n);
  }
}

TEST(GgufSweep, AFileThatShrinksLaterSaysSo) {
  const TemporaryDir dir;
  write_bytes(dir.file("m.gguf"), base_bytes());
  const auto file = GgufFile::open(dir.file("m.gguf"));
  ASSERT_TRUE(file);
  EXPECT_EQ(*file->get_string("general.architecture"), "llama");
  ASSERT_EQ(::truncate(dir.file("m.gguf").c_str(), 100), 0);
  EXPECT_TRUE(file->size_changed());
  EXPECT_EQ(*file->get_string("general.architecture"), "llama");  // metadata was read, not mapped
}

// 40 GB of holes: opening reads the metadata and nothing else.
TEST(GgufSweep, ASparseFileOf40GbIsOpenedByItsMetadataAlone) {
  class CountingSource final : public ByteSource {
   public:
    explicit CountingSource(std::shared_ptr<MappedFile> file) : file_(std::move(file)) {}
    uint64_t size_bytes() const override { return file_->size_bytes(); }
    Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
      auto n = file_->read_at(offset, out);
      if (n) bytes_read += *n;
      return n;
    }
    uint64_t bytes_read = 0;

   private:
    std::shared_ptr<MappedFile> file_;
  };

  const TemporaryDir dir;
  const std::string path = dir.file("sparse.gguf");
  RawGguf raw = build_gguf(base_kvs(), {{"w", 0, {1024, 1}}}, {.has_data = false});
  const uint64_t n_rows = 10'000'000;
  write_bytes(path, raw.with("ne1:w", u64(n_rows)));
  const uint64_t size = raw.at.at("data") + n_rows * 4096;
  if (::truncate(path.c_str(), static_cast<off_t>(size)) != 0)
    GTEST_SKIP() << "this file system has no sparse files of 40 GB";
  const auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped) << mapped.error().to_string();
  const auto source = std::make_shared<CountingSource>(*mapped);
  const auto file = GgufFile::open(source, {.mode = GgufMode::strict});
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->find_tensor("w")->size_bytes, n_rows * 4096);
  EXPECT_LT(source->bytes_read, uint64_t{1} << 20);
  ASSERT_TRUE(GgufFile::open(path));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);  // still holes
}

}  // namespace
}  // namespace tamis
