// Safetensors: what is written is read back; every cut and every broken header is refused with its place; shard sets.
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

namespace tamis {
namespace {

namespace fs = std::filesystem;

std::string file_bytes(std::string header, std::string_view data) {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), sizeof n) + header + std::string(data);
}

Result<std::vector<SafeTensor>> parse(std::string_view bytes) {
  MemorySource source(std::as_bytes(std::span(bytes)));
  return read_safetensors_header(source, "x.safetensors");
}

std::string good_file() {
  return file_bytes(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})",
                    std::string(14, 'x'));
}

class SafetensorsFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::path(testing::TempDir()) / ("safetensors-" + std::to_string(std::hash<std::string>()(name())));
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  void TearDown() override { fs::remove_all(path_); }
  static std::string name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }
  std::string at(const std::string& file) const { return (path_ / file).string(); }

  void write(const std::string& file, const std::string& tensor, float value) const {
    SafetensorsWriter writer;
    const uint64_t shape[] = {1};
    ASSERT_TRUE(writer.add_tensor(tensor, SafeType::f32, shape).has_value());
    ASSERT_TRUE(writer.begin(at(file), false).has_value());
    ASSERT_TRUE(writer.write(std::as_bytes(std::span(&value, 1))).has_value());
    ASSERT_TRUE(writer.finish().has_value());
  }

  fs::path path_;
};

TEST(Safetensors, ReadsTypesShapesAndRanges) {
  const auto tensors = parse(good_file());
  ASSERT_TRUE(tensors.has_value()) << tensors.error().to_string();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].shape, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ((*tensors)[1].type, SafeType::bf16);
  EXPECT_EQ((*tensors)[1].n_elements(), 3u);
  EXPECT_EQ((*tensors)[1].offset, good_file().size() - 6);
}

TEST(Safetensors, EveryCutIsRefused) {
  const std::string good = good_file();
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(parse(std::string_view(good).substr(0, n)).has_value()) << n;
  EXPECT_FALSE(parse(good + "x").has_value()) << "bytes after the last tensor";
}

TEST(Safetensors, RefusesBrokenHeaders) {
  const auto one = [](std::string entry, size_t n_data) {
    return file_bytes("{\"a\":" + entry + "}", std::string(n_data, 'x'));
  };
  ASSERT_TRUE(parse(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4)).has_value());
  const std::string bad[] = {
      one(R"({"dtype":"F31","shape":[1],"data_offsets":[0,4]})", 4),
      one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4),
      one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4),
      one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})", 4),
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4),
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[1,5]})", 5),
      one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})", 4),
      one(R"({"dtype":"F32","shape":[1]})", 4),
      one(R"({"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,4]})", 4),
      one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0),
      one(R"({"dtype":"F32","shape":[[[1]]],"data_offsets":[0,4]})", 4),
      one("7", 0),
      file_bytes("[]", ""),
      file_bytes("{", ""),
      file_bytes(R"({"__metadata__":{"a":1}})", ""),
      // a hole, an overlap, and one name twice
      file_bytes(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
          "xxx"),
      file_bytes(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          "xxx"),
      file_bytes(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          "xx"),
  };
  for (const std::string& bytes : bad) EXPECT_FALSE(parse(bytes).has_value()) << bytes.substr(8);
  std::string huge = good_file();
  const uint64_t n = UINT64_MAX;
  std::memcpy(huge.data(), &n, sizeof n);
  EXPECT_FALSE(parse(huge).has_value());
}

TEST(Safetensors, ErrorsNameFileAndTensor) {
  const auto tensors = parse(file_bytes(R"({"some.weight":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", "x"));
  ASSERT_FALSE(tensors.has_value());
  EXPECT_EQ(tensors.error().code, ErrorCode::unsupported);
  EXPECT_NE(tensors.error().to_string().find("x.safetensors"), std::string::npos);
  EXPECT_NE(tensors.error().to_string().find("some.weight"), std::string::npos);
}

TEST(Safetensors, DecodesEightBitFloats) {
  // From the tables of arXiv:2209.05433: 0x38 is 1 in E4M3 (bias 7), 0x7e its largest, 448; 0x01 its smallest, 2^-9.
  const uint8_t e4m3[] = {0x00, 0x38, 0xb8, 0x7e, 0x01, 0x08, 0x7f};
  float values[7];
  ASSERT_TRUE(decode_safe_values(SafeType::f8_e4m3, std::as_bytes(std::span(e4m3)), values).has_value());
  const float expected[] = {0, 1, -1, 448, 0x1p-9f, 0x1p-6f};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(values[i], expected[i]) << i;
  EXPECT_TRUE(std::isnan(values[6]));
  const uint8_t e5m2[] = {0x3c, 0x7b, 0x01};
  ASSERT_TRUE(decode_safe_values(SafeType::f8_e5m2, std::as_bytes(std::span(e5m2)), std::span(values, 3)).has_value());
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 57344);
  EXPECT_EQ(values[2], 0x1p-16f);
  const int32_t words[] = {1};
  EXPECT_FALSE(decode_safe_values(SafeType::i32, std::as_bytes(std::span(words)), std::span(values, 1)).has_value());
}

TEST_F(SafetensorsFolder, WriterAndReaderAgree) {
  SafetensorsWriter writer;
  const uint64_t shape[] = {2, 2};
  const float values[] = {1, 2, 3, 4};
  const uint16_t halves[] = {0x3c00, 0xbc00, 0, 1};
  ASSERT_TRUE(writer.add_tensor("w \"1\"", SafeType::f32, shape).has_value());
  ASSERT_TRUE(writer.add_tensor("h", SafeType::f16, shape).has_value());
  EXPECT_FALSE(writer.add_tensor("h", SafeType::f16, shape).has_value());
  ASSERT_TRUE(writer.begin(at("m.safetensors"), false).has_value());
  ASSERT_TRUE(writer.write(std::as_bytes(std::span(values))).has_value());
  EXPECT_FALSE(fs::exists(at("m.safetensors"))) << "not before finish()";
  ASSERT_TRUE(writer.write(std::as_bytes(std::span(halves))).has_value());
  EXPECT_FALSE(writer.write(std::as_bytes(std::span(halves))).has_value());
  ASSERT_TRUE(writer.finish().has_value());
  const auto set = SafetensorsSet::open(path_.string());
  ASSERT_TRUE(set.has_value()) << set.error().to_string();
  const SafeTensor* tensor = set->find("w \"1\"");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->offset % 8, 0u);
  EXPECT_EQ(std::memcmp(set->data(*tensor).data(), values, sizeof values), 0);
  float out[4];
  ASSERT_TRUE(decode_safe_values(SafeType::f16, set->data(*set->find("h")), out).has_value());
  EXPECT_EQ(out[1], -1);
}

TEST_F(SafetensorsFolder, ShardsAreOneSet) {
  write("model-00001-of-00002.safetensors", "a", 1);
  EXPECT_EQ(SafetensorsSet::open(path_.string()).error().code, ErrorCode::not_found) << "a shard is missing";
  write("model-00002-of-00002.safetensors", "b", 2);
  const auto without_index = SafetensorsSet::open(path_.string());
  ASSERT_TRUE(without_index.has_value()) << without_index.error().to_string();
  EXPECT_EQ(without_index->tensors().size(), 2u);
  const auto index = [&](const std::string& map) {
    fs::remove(at("model.safetensors.index.json"));
    EXPECT_TRUE(write_text_file(at("model.safetensors.index.json"), "{\"weight_map\":" + map + "}", false).has_value());
    return SafetensorsSet::open(path_.string());
  };
  const std::string one = "model-00001-of-00002.safetensors", two = "model-00002-of-00002.safetensors";
  const auto set = index("{\"a\":\"" + one + "\",\"b\":\"" + two + "\"}");
  ASSERT_TRUE(set.has_value()) << set.error().to_string();
  float value = 0;
  std::memcpy(&value, set->data(*set->find("b")).data(), sizeof value);
  EXPECT_EQ(value, 2);
  const auto missing = index("{\"a\":\"" + one + "\",\"c\":\"" + two + "\"}");
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().to_string().find("\"c\""), std::string::npos) << missing.error().to_string();
  EXPECT_FALSE(index("{\"a\":\"../" + one + "\"}").has_value());
  EXPECT_FALSE(index("{\"a\":\"model-00003-of-00003.safetensors\"}").has_value());
  EXPECT_FALSE(index("[]").has_value());
}

TEST_F(SafetensorsFolder, OneNameInTwoShardsIsRefused) {
  write("model-00001-of-00002.safetensors", "a", 1);
  write("model-00002-of-00002.safetensors", "a", 2);
  EXPECT_FALSE(SafetensorsSet::open(path_.string()).has_value());
}

TEST_F(SafetensorsFolder, FoldersWithoutWeights) {
  const auto set = SafetensorsSet::open(path_.string());
  ASSERT_FALSE(set.has_value());
  EXPECT_EQ(set.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace tamis
