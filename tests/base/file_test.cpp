// ByteReader and files: nothing is read past the end, nothing half-written appears under its final name.
#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/bytes.h"

namespace tamis {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(ByteReader, ReadsLittleEndianNumbersAndViews) {
  ByteReader reader(bytes_of(std::string_view("\x01\x02\x03\x04"
                                              "abcdef",
                                              10)),
                    100);
  EXPECT_EQ(reader.read<uint32_t>().value(), 0x04030201u);
  EXPECT_EQ(reader.offset(), 104u);
  EXPECT_EQ(reader.take_text(2).value(), "ab");
  EXPECT_TRUE(reader.skip(1));
  EXPECT_EQ(reader.take(3).value().size(), 3u);
  EXPECT_EQ(reader.bytes_left(), 0u);
  EXPECT_TRUE(reader.take(0));
}

TEST(ByteReader, RefusesToPassTheEndAndSaysWhere) {
  for (const uint64_t n : {uint64_t{4}, uint64_t{1} << 32, UINT64_MAX, UINT64_MAX - 100}) {
    ByteReader reader(bytes_of("abc"), 50);
    for (const Error& error : {reader.take(n).error(), reader.take_text(n).error(), reader.skip(n).error()}) {
      EXPECT_EQ(error.code, ErrorCode::format);
      EXPECT_EQ(error.site->byte_offset, 50u);
      EXPECT_THAT(error.to_string(), HasSubstr("byte 50 (0x32): got 3 bytes left"));
    }
    EXPECT_EQ(reader.bytes_left(), 3u) << "a refused read moves nothing";
  }
  ByteReader reader(bytes_of("abc"));
  EXPECT_FALSE(reader.read<uint64_t>());
  EXPECT_TRUE(reader.read<uint8_t>());
  EXPECT_FALSE(reader.read<float>());
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tamis-files-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path(std::string_view name) const { return (directory_ / name).string(); }
  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) names.push_back(entry.path().filename());
    return names;
  }

  std::filesystem::path directory_;
};

TEST_F(Files, MapsWhatIsThere) {
  ASSERT_TRUE(write_text_file(path("a"), "hello", false));
  const auto file = MappedFile::open(path("a")).value();
  EXPECT_EQ(file->size_bytes(), 5u);
  EXPECT_EQ(std::memcmp(file->mapped().data(), "hello", 5), 0);
  std::byte buffer[8];
  EXPECT_EQ(file->read_at(3, buffer).value(), 2u);
  EXPECT_EQ(file->read_at(5, buffer).value(), 0u);
  EXPECT_EQ(file->read_at(500, buffer).value(), 0u);
  EXPECT_FALSE(file->size_changed());
  ASSERT_EQ(truncate(path("a").c_str(), 2), 0);
  EXPECT_TRUE(file->size_changed());
}

TEST_F(Files, OpenSaysWhatIsWrongWithAPath) {
  EXPECT_EQ(MappedFile::open(path("none")).error().code, ErrorCode::not_found);
  EXPECT_THAT(MappedFile::open(directory_.string()).error().to_string(), HasSubstr("is a directory"));
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::open(path("fifo")).error().to_string(), HasSubstr("not a regular file"))
      << "and does not wait for a writer";
  std::ofstream(path("empty"));
  EXPECT_EQ(MappedFile::open(path("empty")).value()->mapped().size(), 0u);
}

TEST_F(Files, ASparseFileOf40GigabytesOpensWithoutReadingIt) {
  std::ofstream(path("big"));
  ASSERT_EQ(truncate(path("big").c_str(), off_t{40} << 30), 0);
  const auto file = MappedFile::open(path("big")).value();
  EXPECT_EQ(file->size_bytes(), uint64_t{40} << 30);
  EXPECT_EQ(file->mapped()[(size_t{40} << 30) - 1], std::byte{0});
}

TEST_F(Files, NothingAppearsWithoutCommit) {
  {
    AtomicFile file = AtomicFile::create(path("out"), false).value();
    ASSERT_TRUE(file.write("half"));
    EXPECT_FALSE(file_exists(path("out")));
  }
  EXPECT_THAT(listing(), ::testing::IsEmpty()) << "the temporary is gone too";
}

TEST_F(Files, WritesPatchesAndCommits) {
  AtomicFile file = AtomicFile::create(path("out"), false).value();
  ASSERT_TRUE(file.write("0123"));
  ASSERT_TRUE(file.write(std::string(3 << 20, 'x')));  // past the buffer
  ASSERT_TRUE(file.write_at(1, bytes_of("AB")));
  ASSERT_TRUE(file.write("end"));
  EXPECT_EQ(file.offset(), 4u + (3u << 20) + 3u);
  AtomicFile moved = std::move(file);
  ASSERT_TRUE(moved.commit());
  const std::string text = read_text_file(path("out"), 10 << 20).value();
  EXPECT_EQ(text.substr(0, 4), "0AB3");
  EXPECT_EQ(text.substr(text.size() - 4), "xend");
  EXPECT_EQ(listing(), std::vector<std::string>{"out"});
}

TEST_F(Files, NeverOverwritesUnasked) {
  ASSERT_TRUE(write_text_file(path("out"), "first", false));
  EXPECT_EQ(write_text_file(path("out"), "second", false).error().code, ErrorCode::invalid_argument);
  AtomicFile racing = AtomicFile::create(path("late"), false).value();
  ASSERT_TRUE(write_text_file(path("late"), "theirs", false));
  EXPECT_FALSE(racing.commit()) << "the name was taken while we wrote";
  EXPECT_EQ(read_text_file(path("late"), 100).value(), "theirs");
  ASSERT_TRUE(write_text_file(path("out"), "second", true));
  EXPECT_EQ(read_text_file(path("out"), 100).value(), "second");
  EXPECT_FALSE(AtomicFile::create(path("no/such/directory"), false));
}

TEST_F(Files, ReadingTextIsCapped) {
  ASSERT_TRUE(write_text_file(path("a"), "12345", false));
  EXPECT_EQ(read_text_file(path("a"), 5).value(), "12345");
  EXPECT_EQ(read_text_file(path("a"), 4).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(read_text_file(path("none"), 4).error().code, ErrorCode::not_found);
  EXPECT_FALSE(read_text_file(directory_.string(), 4));
}

}  // namespace
}  // namespace tamis
