// .npy files: ours read back, NumPy's own bytes read, and every broken header refused with its place.
#include "formats/npy.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace tamis {
namespace {

std::string npy(std::string dict, std::string_view values, uint8_t major = 1) {
  dict.resize((dict.size() + 10 + 64) / 64 * 64 - 11, ' ');
  dict += '\n';
  std::string out = std::string("\x93NUMPY", 6) + static_cast<char>(major) + '\0';
  out += static_cast<char>(dict.size() & 0xff);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict + std::string(values);
}

Result<NpyMatrix> parse(std::string_view bytes) {
  MemorySource source(std::as_bytes(std::span(bytes)));
  return read_npy(source);
}

std::string floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

TEST(Npy, ReadsWhatNumpyWrites) {
  // np.save of np.float32([[1, 2, 3], [4, 5, 6]]), NumPy 1.24: keys in alphabetical order, padded to 128 bytes.
  const auto matrix =
      parse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", floats({1, 2, 3, 4, 5, 6})));
  ASSERT_TRUE(matrix.has_value()) << matrix.error().to_string();
  EXPECT_EQ(matrix->n_rows, 2u);
  EXPECT_EQ(matrix->n_cols, 3u);
  EXPECT_EQ(matrix->values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  const auto row = parse(npy("{'shape': (2,), 'descr':'<f4', 'fortran_order':False}", floats({7, 8})));
  ASSERT_TRUE(row.has_value()) << row.error().to_string();
  EXPECT_EQ(row->n_rows, 1u);
  EXPECT_EQ(row->values, (std::vector<float>{7, 8}));
}

TEST(Npy, RefusesEverythingElse) {
  const std::string values = floats({1, 2, 3, 4});
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  ASSERT_TRUE(parse(npy(good, values)).has_value());
  const std::string bad_dicts[] = {
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }",
      "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }",
      "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905, 4), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2",
      "{'descr': '<f4', 'fortran_order': False, }",
      "",
  };
  for (const std::string& dict : bad_dicts) {
    const auto matrix = parse(npy(dict, values));
    ASSERT_FALSE(matrix.has_value()) << dict;
    EXPECT_EQ(matrix.error().code, ErrorCode::format) << dict;
  }
  EXPECT_FALSE(parse(npy(good, values, 2)).has_value());
}

TEST(Npy, RefusesEveryCut) {
  const std::string whole = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", floats({1, 2}));
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(parse(whole.substr(0, n)).has_value()) << n;
  EXPECT_FALSE(parse(whole + "x").has_value());
}

TEST(Npy, WritesWhatItReads) {
  const std::string path = testing::TempDir() + "tamis_npy_test.npy";
  std::remove(path.c_str());
  {
    auto writer = NpyWriter::create(path, 3, 2, false);
    ASSERT_TRUE(writer.has_value()) << writer.error().to_string();
    ASSERT_TRUE(writer->write_rows(std::vector<float>{1, 2}).has_value());
    EXPECT_FALSE(writer->commit().has_value()) << "rows are missing";
    ASSERT_TRUE(writer->write_rows(std::vector<float>{3, 4, 5, 6}).has_value());
    EXPECT_FALSE(writer->write_rows(std::vector<float>{7, 8}).has_value()) << "one row too many";
    ASSERT_TRUE(writer->commit().has_value());
  }
  const auto matrix = read_npy(path);
  ASSERT_TRUE(matrix.has_value()) << matrix.error().to_string();
  EXPECT_EQ(matrix->n_rows, 3u);
  EXPECT_EQ(matrix->values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(NpyWriter::create(path, 1, 1, false).has_value()) << "nothing is overwritten unasked";
  std::remove(path.c_str());
}

TEST(Npy, HeaderIsAlignedTo64) {
  const std::string path = testing::TempDir() + "tamis_npy_align.npy";
  for (const uint64_t n_rows : {uint64_t{0}, uint64_t{9}, uint64_t{123456789}, uint64_t{12345678901}}) {
    auto writer = NpyWriter::create(path, n_rows, 0, true);
    ASSERT_TRUE(writer.has_value());
    ASSERT_TRUE(writer->commit().has_value());
    const auto text = read_text_file(path, 4096);
    ASSERT_TRUE(text.has_value());
    EXPECT_EQ(text->size() % 64, 0u);
    EXPECT_EQ(text->back(), '\n');
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace tamis
