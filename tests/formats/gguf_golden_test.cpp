// A file written by the PyPI package gguf 0.19 (tests/golden/make_gguf.py), read here value by value, and written again
// from those values byte by byte.
#include <gtest/gtest.h>

#include "formats/gguf_writer.h"
#include "tests/formats/gguf_builder.h"

namespace tamis {
namespace {

using namespace tamis::testing;

const std::string kPath = TAMIS_SOURCE_DIR "/tests/golden/gguf_package.gguf";
constexpr std::string_view kText("Größe\0x", 9);

TEST(GgufGolden, ReadsWhatThePackageWrote) {
  const auto file = GgufFile::open(kPath, {.mode = GgufMode::strict});
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_TRUE(file->warnings().empty());
  EXPECT_EQ(file->alignment(), 64u);
  EXPECT_EQ(*file->get_uint("test.uint8"), 200u);
  EXPECT_EQ(file->find("test.int8")->as_int(), -3);
  EXPECT_EQ(*file->get_uint("test.uint16"), 65535u);
  EXPECT_EQ(file->find("test.int16")->as_int(), -300);
  EXPECT_EQ(*file->get_uint("test.uint32"), 1u << 31);
  EXPECT_EQ(file->find("test.int32")->as_int(), -1);
  EXPECT_EQ(*file->get_float("test.float32"), 0.5);
  EXPECT_EQ(*file->get_bool("test.bool"), true);
  EXPECT_EQ(*file->get_string("test.string"), kText);
  EXPECT_EQ(*file->get_uint("test.uint64"), ~uint64_t{0});
  EXPECT_EQ(file->find("test.int64")->as_int(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*file->get_float("test.float64"), 0.1);
  EXPECT_EQ(*file->get_array("test.strings", GgufType::string)->strings(),
            (std::vector<std::string_view>{"a", "", "ß"}));
  EXPECT_EQ(file->get_array("test.ints", GgufType::i32)->int_at(1), -2);
  EXPECT_EQ(file->get_array("test.bytes", GgufType::u8)->uint_at(2), 255u);
  const auto nested = file->get_array("test.nested", GgufType::array);
  ASSERT_TRUE(nested);
  EXPECT_EQ(nested->values()[0].as_array()->int_at(1), 2);
  EXPECT_EQ(nested->values()[1].as_array()->int_at(0), 3);

  ASSERT_EQ(file->tensors().size(), 4u);
  EXPECT_EQ(file->find_tensor("f32")->shape, (Shape{2, 3}));
  EXPECT_EQ(file->find_tensor("f16")->shape, (Shape{2, 2, 1}));
  EXPECT_EQ(file->find_tensor("q8_0")->dtype, DType::q8_0);
  float value = 0;
  std::memcpy(&value, file->data(*file->find_tensor("f32")).data() + 4 * 4, 4);
  EXPECT_EQ(value, 4.0f);
  EXPECT_EQ(static_cast<int8_t>(file->data(*file->find_tensor("i8"))[0]), -3);
}

TEST(GgufGolden, WritesWhatThePackageWrote) {
  const auto file = GgufFile::open(kPath);
  ASSERT_TRUE(file);
  GgufWriter writer;
  const auto number = [&]<class T>(std::string_view key, T value) {
    return writer.add(key, GgufEncoded::number(value));
  };
  bool is_ok = bool(writer.add_string("general.architecture", "llama")) && writer.add_u32("general.alignment", 64) &&
               number("test.uint8", uint8_t{200}) && number("test.int8", int8_t{-3}) &&
               number("test.uint16", uint16_t{65535}) && number("test.int16", int16_t{-300}) &&
               number("test.uint32", uint32_t{1} << 31) && number("test.int32", int32_t{-1}) &&
               number("test.float32", 0.5f) && number("test.bool", true) && writer.add_string("test.string", kText) &&
               number("test.uint64", ~uint64_t{0}) && number("test.int64", std::numeric_limits<int64_t>::min()) &&
               number("test.float64", 0.1) &&
               writer.add_strings("test.strings", std::vector<std::string>{"a", "", "ß"}) &&
               writer.add_numbers<int32_t>("test.ints", std::vector<int32_t>{1, -2, 3}) &&
               writer.add_numbers<float>("test.floats", std::vector<float>{0.25f, -1.0f});
  const bool bools[] = {true, false};
  const uint8_t bytes[] = {0, 1, 255};
  const GgufEncoded inner[] = {GgufEncoded::numbers<int32_t>(std::vector<int32_t>{1, 2}),
                               GgufEncoded::numbers<int32_t>(std::vector<int32_t>{3})};
  is_ok = is_ok && writer.add_numbers<bool>("test.bools", bools) && writer.add_numbers<uint8_t>("test.bytes", bytes) &&
          writer.add("test.nested", GgufEncoded::array(GgufType::array, inner));
  is_ok = is_ok && writer.add_tensor("f32", DType::f32, {2, 3}) && writer.add_tensor("f16", DType::f16, {2, 2, 1}) &&
          writer.add_tensor("i8", DType::i8, {5}) && writer.add_tensor("q8_0", DType::q8_0, {2, 64});
  ASSERT_TRUE(is_ok);

  const TemporaryDir dir;
  ASSERT_TRUE(writer.begin(dir.file("m.gguf"), false));
  for (const GgufTensor& tensor : file->tensors()) ASSERT_TRUE(writer.write(file->data(tensor)));
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(read_bytes(dir.file("m.gguf")), read_bytes(kPath));
}

}  // namespace
}  // namespace tamis
