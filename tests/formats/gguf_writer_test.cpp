// What GgufWriter writes is what GgufFile reads, and nothing appears under the final name before it is complete.
#include "formats/gguf_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/formats/gguf_builder.h"

namespace tamis {
namespace {

using namespace tamis::testing;

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

#define EXPECT_OK(expression)                          \
  do {                                                 \
    const Status status = (expression);                \
    EXPECT_TRUE(status) << status.error().to_string(); \
  } while (0)

TEST(GgufWriter, RewritesTheBaseFileByteForByte) {
  const RawGguf raw = build_gguf(base_kvs(), base_tensors());
  const auto file = open_bytes(raw.bytes);
  ASSERT_TRUE(file);
  GgufWriter writer;
  EXPECT_OK(writer.add_all(*file));
  for (const GgufTensor& tensor : file->tensors())
    EXPECT_OK(writer.add_tensor(tensor.name, tensor.dtype, tensor.shape));
  EXPECT_EQ(writer.header(), raw.bytes.substr(0, raw.at.at("data")));

  const TemporaryDir dir;
  EXPECT_OK(writer.begin(dir.file("m.gguf"), false));
  for (const GgufTensor& tensor : file->tensors()) EXPECT_OK(writer.write(file->data(tensor)));
  EXPECT_OK(writer.finish());
  EXPECT_EQ(read_bytes(dir.file("m.gguf")), raw.bytes);
}

TEST(GgufWriter, EncodesEveryValueTypeAsTheBuilderDoes) {
  GgufWriter writer;
  const std::vector<RawKv> expected = {{"u8", 0, le<uint8_t>(200)},
                                       {"i8", 1, le<int8_t>(-3)},
                                       {"u16", 2, le<uint16_t>(65535)},
                                       {"i16", 3, le<int16_t>(-300)},
                                       {"u32", 4, le<uint32_t>(1u << 31)},
                                       {"i32", 5, le<int32_t>(-1)},
                                       {"f32", 6, le(0.1f)},
                                       {"bool", 7, le<uint8_t>(1)},
                                       {"str", 8,
                                        str("a\0b"
                                            "é")},
                                       {"u64", 10, le(~uint64_t{0})},
                                       {"i64", 11, le<int64_t>(-1)},
                                       {"f64", 12, le(0.1)},
                                       kv_strs("strs", {"x", "", "yz"}),
                                       kv_arr("f32s", 6, 2, le(1.0f) + le(2.0f)),
                                       kv_arr("empty", 4, 0, ""),
                                       kv_arr("nested", 9, 2, u32(4) + u64(1) + u32(7) + u32(8) + u64(1) + str("q"))};
  EXPECT_OK(writer.add("u8", GgufEncoded::number<uint8_t>(200)));
  EXPECT_OK(writer.add("i8", GgufEncoded::number<int8_t>(-3)));
  EXPECT_OK(writer.add("u16", GgufEncoded::number<uint16_t>(65535)));
  EXPECT_OK(writer.add("i16", GgufEncoded::number<int16_t>(-300)));
  EXPECT_OK(writer.add_u32("u32", 1u << 31));
  EXPECT_OK(writer.add_i32("i32", -1));
  EXPECT_OK(writer.add_f32("f32", 0.1f));
  EXPECT_OK(writer.add_bool("bool", true));
  EXPECT_OK(writer.add_string("str",
                              "a\0b"
                              "é"));
  EXPECT_OK(writer.add_u64("u64", ~uint64_t{0}));
  EXPECT_OK(writer.add("i64", GgufEncoded::number<int64_t>(-1)));
  EXPECT_OK(writer.add("f64", GgufEncoded::number(0.1)));
  EXPECT_OK(writer.add_strings("strs", std::vector<std::string>{"x", "", "yz"}));
  EXPECT_OK(writer.add_numbers<float>("f32s", std::vector<float>{1, 2}));
  EXPECT_OK(writer.add_numbers<uint32_t>("empty", {}));
  const GgufEncoded inner[] = {GgufEncoded::numbers<uint32_t>(std::vector<uint32_t>{7}),
                               GgufEncoded::texts(std::vector<std::string>{"q"})};
  EXPECT_OK(writer.add("nested", GgufEncoded::array(GgufType::array, inner)));
  EXPECT_EQ(writer.header(), build_gguf(expected, {}).bytes);
}

TEST(GgufWriter, PadsToTheAlignmentTheKeySays) {
  const TemporaryDir dir;
  GgufWriter writer;
  EXPECT_OK(writer.add_u32("general.alignment", 128));
  EXPECT_OK(writer.add_tensor("a", DType::f32, {3}));
  EXPECT_OK(writer.add_tensor("b", DType::i8, {1, 129}));
  EXPECT_EQ(writer.tensor_offset(1), 128u);
  EXPECT_EQ(writer.data_bytes(), 128u + 256u);
  EXPECT_OK(writer.begin(dir.file("m.gguf"), false));
  for (const char c : std::string("123456789abc"))
    EXPECT_OK(writer.write(as_bytes(std::string_view(&c, 1))));  // in pieces
  EXPECT_OK(writer.write(as_bytes(std::string(129, 'b'))));
  EXPECT_OK(writer.finish());
  const auto file = GgufFile::open(dir.file("m.gguf"), {.mode = GgufMode::strict});
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->alignment(), 128u);
  EXPECT_EQ(file->find_tensor("b")->shape, (Shape{1, 129}));
  const auto a = file->data(*file->find_tensor("a"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(a.data()), a.size()), "123456789abc");
}

TEST(GgufWriter, RefusesWhatCannotBeRead) {
  GgufWriter writer;
  EXPECT_OK(writer.add_u32("k", 1));
  EXPECT_FALSE(writer.add_u32("", 1));
  EXPECT_FALSE(writer.add_u32("k\xc3\xa9", 1));
  EXPECT_FALSE(writer.add_u32(std::string_view("k\0x", 3), 1));
  EXPECT_FALSE(writer.add_u32(std::string(65536, 'k'), 1));
  EXPECT_FALSE(writer.add_i32("general.alignment", 32));
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 1u << 21})
    EXPECT_FALSE(writer.add_u32("general.alignment", alignment));
  EXPECT_FALSE(writer.add_tensor("", DType::f32, {1}));
  EXPECT_FALSE(writer.add_tensor(std::string(65, 't'), DType::f32, {1}));
  EXPECT_FALSE(writer.add_tensor("t", DType::f32, {}));
  EXPECT_FALSE(writer.add_tensor("t", DType::f32, {2, 0}));
  EXPECT_FALSE(writer.add_tensor("t", DType::q8_0, {32, 33}));
  EXPECT_FALSE(writer.add_tensor("t", DType::f32, {uint64_t{1} << 62, 4}));
  EXPECT_OK(writer.add_tensor("t", DType::f32, {1}));
  EXPECT_FALSE(writer.add_u32("general.alignment", 64));  // too late
}

TEST(GgufWriterFaults, B04_RefusesARepeatedNameOrKey) {
  GgufWriter writer;
  EXPECT_OK(writer.add_tensor("a.weight", DType::f32, {8}));
  const Status tensor = writer.add_tensor("a.weight", DType::f32, {4});
  ASSERT_FALSE(tensor);
  EXPECT_NE(tensor.error().message.find("a.weight"), std::string::npos);
  EXPECT_OK(writer.add_u32("k", 1));
  const Status key = writer.add_string("k", "2");
  ASSERT_FALSE(key);
  EXPECT_NE(key.error().message.find("\"k\""), std::string::npos);
}

TEST(GgufWriter, NothingAppearsUntilAllIsWritten) {
  const TemporaryDir dir;
  {
    GgufWriter writer;
    EXPECT_OK(writer.add_tensor("a", DType::i8, {4}));
    EXPECT_OK(writer.begin(dir.file("m.gguf"), false));
    EXPECT_FALSE(writer.write(as_bytes("12345")));  // one too many
    EXPECT_OK(writer.write(as_bytes("12")));
    EXPECT_FALSE(writer.finish());
    EXPECT_FALSE(file_exists(dir.file("m.gguf")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  write_bytes(dir.file("m.gguf"), "there already");
  GgufWriter writer;
  EXPECT_FALSE(writer.begin(dir.file("m.gguf"), false));
  EXPECT_EQ(read_bytes(dir.file("m.gguf")), "there already");
}

}  // namespace
}  // namespace tamis
