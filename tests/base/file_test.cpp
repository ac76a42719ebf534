// Files: mapped and read alike, written all or nothing.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/sparse_memory.h"
#include "tests/base/temporary_dir.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_.file(name); }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()));
  }
  const test::TemporaryDir dir_;
};

TEST_F(Files, AMappedFileReadsTheSameBothWays) {
  write("f", "hello world");
  const auto file = MappedFile::open(path("f"));
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->size_bytes(), 11u);
  EXPECT_EQ(static_cast<char>((*file)->mapped()[6]), 'w');
  std::byte buffer[8];
  EXPECT_EQ(*(*file)->read_at(6, buffer), 5u);  // fewer only at the end
  EXPECT_EQ(std::string(reinterpret_cast<char*>(buffer), 5), "world");
  EXPECT_EQ(*(*file)->read_at(11, buffer), 0u);
  EXPECT_FALSE((*file)->size_changed());
  fs::resize_file(path("f"), 3);
  EXPECT_TRUE((*file)->size_changed());
}

TEST_F(Files, AnEmptyFileHasNoBytes) {
  write("f", "");
  const auto file = MappedFile::open(path("f"));
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->mapped().empty());
}

TEST_F(Files, OnlyRegularFilesAreOpened) {
  EXPECT_EQ(MappedFile::open(path("none")).error().code, ErrorCode::not_found);
  EXPECT_EQ(MappedFile::open(dir_.path()).error().code, ErrorCode::io);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(path("fifo")).error().code, ErrorCode::io);  // and does not wait for a writer
  EXPECT_EQ(MappedFile::open("/dev/null").error().code, ErrorCode::io);
}

TEST_F(Files, AnAtomicFileAppearsOnlyWhenCommitted) {
  {
    auto file = AtomicFile::create(path("f"), false);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("half"));
    EXPECT_FALSE(file_exists(path("f")));
  }
  EXPECT_EQ(n_files(), 0u);
  auto file = AtomicFile::create(path("f"), false);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write("head____"));
  ASSERT_TRUE(file->write(std::string(3 << 20, 'x')));  // larger than any buffer
  EXPECT_EQ(file->offset(), 8u + (3u << 20));
  const std::byte patch[] = {std::byte{'P'}, std::byte{'Q'}};
  ASSERT_TRUE(file->write_at(4, patch));
  ASSERT_TRUE(file->write("tail"));
  ASSERT_TRUE(file->commit());
  const std::string all = read("f");
  EXPECT_EQ(all.size(), 12u + (3u << 20));
  EXPECT_EQ(all.substr(0, 9), "headPQ__x");
  EXPECT_EQ(all.substr(all.size() - 5), "xtail");
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(Files, NothingIsOverwrittenUnasked) {
  write("f", "old");
  EXPECT_EQ(AtomicFile::create(path("f"), false).error().code, ErrorCode::invalid_argument);
  // The name may also appear while the file is being written.
  auto late = AtomicFile::create(path("g"), false);
  ASSERT_TRUE(late);
  ASSERT_TRUE(late->write("new"));
  write("g", "theirs");
  EXPECT_FALSE(late->commit());
  EXPECT_EQ(read("g"), "theirs");
  ASSERT_TRUE(write_text_file(path("f"), "new", true));
  EXPECT_EQ(read("f"), "new");
}

TEST_F(Files, ADirectoryThatIsNotThereIsAnError) { EXPECT_FALSE(AtomicFile::create(path("no/f"), true)); }

TEST_F(Files, ReadingTextIsCapped) {
  write("f", std::string(100, 'x'));
  EXPECT_EQ(read_text_file(path("f"), 100)->size(), 100u);
  EXPECT_EQ(read_text_file(path("f"), 99).error().code, ErrorCode::invalid_argument);
}

// A range of memory forgotten leaves what lies around it; parts of pages stay.
TEST(SparseMemory, ForgetsWholePages) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto memory = SparseMemory::create(4 * page);
  ASSERT_TRUE(memory.has_value());
  const std::span<std::byte> bytes = (*memory)->bytes();
  std::fill(bytes.begin(), bytes.end(), std::byte{7});
  (*memory)->forget(page - 1, page + 2);
  for (uint64_t i = 0; i < 4 * page; ++i) ASSERT_EQ(bytes[i], std::byte{i / page == 1 ? uint8_t{0} : uint8_t{7}}) << i;
  (*memory)->forget(2 * page + 1, page - 1);
  EXPECT_EQ(bytes[2 * page + 1], std::byte{7});
  (*memory)->forget(2 * page, 2 * page);
  EXPECT_TRUE(std::all_of(bytes.begin() + static_cast<ptrdiff_t>(page), bytes.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

}  // namespace
}  // namespace tamis
