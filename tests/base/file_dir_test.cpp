// Files by plain names: whole or not at all, links not followed, nothing left behind.
#include "base/file_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/base/full_disk.h"
#include "tests/base/temporary_dir.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;

class FileDirTest : public testing::Test {
 protected:
  FileDir open() {
    auto opened = FileDir::open(path());
    EXPECT_TRUE(opened) << opened.error().to_string();
    return *std::move(opened);
  }
  const std::string& path() const { return dir_.path(); }
  size_t n_entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(path()), {})); }
  static Status write(const FileDir& dir, const std::string& name, std::string_view text) {
    TAMIS_TRY(auto file, dir.create(name));
    TAMIS_TRY_STATUS(file.write_at(0, std::as_bytes(std::span(text))));
    return file.commit();
  }
  static std::string read(const FileDir& dir, const std::string& name) {
    const auto file = dir.read(name);
    if (!file) return "error " + std::string(error_code_name(file.error().code));
    std::string out((*file)->size_bytes() + 5, '?');
    const auto n = (*file)->read_at(0, std::as_writable_bytes(std::span(out)));
    EXPECT_TRUE(n);
    out.resize(*n);
    return out;
  }

  test::TemporaryDir dir_;
};

TEST_F(FileDirTest, NamesAreNames) {
  for (const char* const good : {"a", "a.b", "A-b_9", "-", "a..b"}) EXPECT_TRUE(FileDir::is_name(good)) << good;
  for (const char* const bad : {"", ".", "..", ".a", "a/b", "/a", "a b", "a\\b", "a\n", "\xc3\xa4", "a:b", "~"})
    EXPECT_FALSE(FileDir::is_name(bad)) << bad;
  EXPECT_FALSE(FileDir::is_name(std::string_view("a\0b", 3)));
  EXPECT_TRUE(FileDir::is_name(std::string(FileDir::kMaxNameBytes, 'a')));
  EXPECT_FALSE(FileDir::is_name(std::string(FileDir::kMaxNameBytes + 1, 'a')));
}

TEST_F(FileDirTest, AFileIsThereAsAWholeOrNotAtAll) {
  const FileDir dir = open();
  EXPECT_EQ(read(dir, "a"), "error not_found");
  ASSERT_TRUE(write(dir, "a", "first"));
  {
    auto half = dir.create("a");
    ASSERT_TRUE(half);
    ASSERT_TRUE(half->write_at(0, std::as_bytes(std::span(std::string_view("second")))));
    EXPECT_EQ(read(dir, "a"), "first");
  }
  EXPECT_EQ(n_entries(), 1U) << "nothing of it stays";
  ASSERT_TRUE(write(dir, "a", "third"));
  EXPECT_EQ(read(dir, "a"), "third");
  ASSERT_TRUE(write(dir, std::string(FileDir::kMaxNameBytes, 'b'), "long"));
  EXPECT_EQ(*dir.bytes_but("a"), 4U);
  EXPECT_EQ(*dir.bytes_but("none"), 9U);
  ASSERT_TRUE(dir.remove("a"));
  EXPECT_EQ(read(dir, "a"), "error not_found");
  EXPECT_EQ(dir.remove("a").error().code, ErrorCode::not_found);
}

TEST_F(FileDirTest, WhatWasHalfWrittenByAKilledProgramGoes) {
  std::ofstream(path() + "/.writing.a") << "half";
  std::ofstream(path() + "/.other") << "whole";
  const FileDir dir = open();
  EXPECT_EQ(n_entries(), 1U);
  EXPECT_FALSE(FileDir::open(path() + "/none"));
  EXPECT_FALSE(FileDir::open(path() + "/.other")) << "no directory";
}

TEST_F(FileDirTest, OneUsesItAtATime) {
  {
    const FileDir dir = open();
    auto half = dir.create("a");
    ASSERT_TRUE(half);
    const auto second = FileDir::open(path());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::io);
    EXPECT_NE(second.error().to_string().find("is used by another process"), std::string::npos);
    EXPECT_NE(second.error().to_string().find(path()), std::string::npos);
    EXPECT_EQ(*dir.bytes_but("a"), 0U);  // which lists it by a descriptor of its own
    EXPECT_FALSE(FileDir::open(path()));
    ASSERT_TRUE(half->write_at(0, std::as_bytes(std::span(std::string_view("whole")))));
    EXPECT_TRUE(half->commit()) << "nothing of it was swept away";
  }
  EXPECT_EQ(read(open(), "a"), "whole") << "free again";
}

TEST_F(FileDirTest, LinksLeadNowhere) {
  const FileDir dir = open();
  const test::TemporaryDir outside;
  const std::string target = outside.file("target");
  std::ofstream(target) << "mine";
  fs::create_symlink(target, path() + "/link");
  fs::create_symlink(outside.file("new"), path() + "/.writing.fresh");
  fs::create_directory(path() + "/folder");
  EXPECT_EQ(read(dir, "link"), "error invalid_argument");
  EXPECT_EQ(read(dir, "folder"), "error invalid_argument");
  ASSERT_TRUE(write(dir, "link", "theirs"));
  EXPECT_EQ(read(dir, "link"), "theirs");
  ASSERT_TRUE(write(dir, "fresh", "theirs"));
  EXPECT_FALSE(fs::exists(outside.file("new")));
  std::string text;
  std::getline(std::ifstream(target), text);
  EXPECT_EQ(text, "mine");
  EXPECT_FALSE(write(dir, "folder", "theirs"));
  EXPECT_FALSE(dir.remove("folder"));
}

TEST_F(FileDirTest, AFullDiskLeavesWhatWasThere) {
  const FileDir dir = open();
  ASSERT_TRUE(write(dir, "a", "first"));
  const test::FullDisk full(8);
  const Status written = write(dir, "a", "longer than eight bytes");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(read(dir, "a"), "first");
  EXPECT_EQ(n_entries(), 1U);
}

}  // namespace
}  // namespace tamis
