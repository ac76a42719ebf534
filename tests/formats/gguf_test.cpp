// What a right file gives: values of every type, shapes the right way round, lookups that refuse the wrong type.
#include <gtest/gtest.h>

#include "tests/formats/gguf_builder.h"

namespace tamis {
namespace {

using namespace tamis::testing;

TEST(Gguf, ReadsTheBaseFile) {
  const RawGguf raw = build_gguf(base_kvs(), base_tensors());
  ASSERT_EQ(raw.bytes.size(), 512u);
  const auto file = open_bytes(raw.bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32u);
  EXPECT_EQ(file->kvs().size(), 6u);
  EXPECT_EQ(file->size_bytes(), 512u);
  EXPECT_EQ(file->data_offset(), raw.at.at("data"));
  EXPECT_EQ(file->metadata_bytes(), raw.at.at("pad"));
  EXPECT_EQ(file->n_shards(), 1u);
  EXPECT_TRUE(file->warnings().empty());
  EXPECT_EQ(*file->get_string("general.architecture"), "llama");
  EXPECT_EQ(*file->get_bool("t.b"), true);
  EXPECT_EQ(*file->get_float("t.f"), 1.5);
  const auto strings = file->get_array("t.as", GgufType::string);
  ASSERT_TRUE(strings);
  EXPECT_EQ(*strings->strings(), (std::vector<std::string_view>{"a", "bb", ""}));
  const auto numbers = file->get_array("t.ai", GgufType::i16);
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->int_at(1), -2);
  EXPECT_EQ(numbers->uint_at(1), std::nullopt);  // -2 is no unsigned number
  EXPECT_EQ(numbers->int_at(3), std::nullopt);
}

TEST(Gguf, ShapesAreSlowestFirst) {
  const auto file = open_bytes(build_gguf({}, {{"w", 8, {64, 3, 2}}}).bytes);
  ASSERT_TRUE(file);
  const GgufTensor& tensor = file->tensors()[0];
  EXPECT_EQ(tensor.shape, (Shape{2, 3, 64}));
  EXPECT_EQ(tensor.dtype, DType::q8_0);
  EXPECT_EQ(tensor.size_bytes, 2u * 3 * 2 * 34);
  EXPECT_EQ(file->find_tensor("w"), &tensor);
  EXPECT_EQ(file->find_tensor("v"), nullptr);
  const auto data = file->data(tensor);
  ASSERT_EQ(data.size(), tensor.size_bytes);
  EXPECT_EQ(static_cast<int>(data[3]), 21);  // the builder's pattern: 7 i mod 64
}

TEST(Gguf, KeysRememberWhereTheyStand) {
  const RawGguf raw = build_gguf(base_kvs(), base_tensors());
  const auto file = open_bytes(raw.bytes);
  ASSERT_TRUE(file);
  for (const GgufKv& kv : file->kvs()) {
    const std::string key(kv.key);
    EXPECT_EQ(kv.key_offset(), raw.at.at("key:" + key));
    EXPECT_EQ(kv.value.offset(), raw.at.at("type:" + key) + 4);
  }
  for (const GgufTensor& tensor : file->tensors())
    EXPECT_EQ(tensor.info_offset, raw.at.at("tname:" + std::string(tensor.name)));
}

TEST(Gguf, GettersConvertOnlyWithinTheirKind) {
  const auto file = open_bytes(build_gguf({kv_u32("u", 0xffffffffu),
                                           kv_i32("i", -1),
                                           kv_f64("f", 0.5),
                                           kv_bool("b", true),
                                           kv_str("s", "x"),
                                           {"u8", 0, le<uint8_t>(255)},
                                           {"i8", 1, le<int8_t>(-128)},
                                           {"u64", 10, le(~uint64_t{0})},
                                           {"f32", 6, le(0.25f)}},
                                          {})
                                   .bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->find("u")->as_uint(), 0xffffffffu);
  EXPECT_EQ(file->find("u")->as_int(), int64_t{0xffffffff});
  EXPECT_EQ(file->find("i")->as_int(), -1);
  EXPECT_EQ(file->find("i")->as_uint(), std::nullopt);
  EXPECT_EQ(file->find("u8")->as_int(), 255);
  EXPECT_EQ(file->find("i8")->as_int(), -128);
  EXPECT_EQ(file->find("u64")->as_uint(), ~uint64_t{0});
  EXPECT_EQ(file->find("u64")->as_int(), std::nullopt);
  EXPECT_EQ(file->find("f32")->as_float(), 0.25);
  EXPECT_EQ(file->find("f")->as_uint(), std::nullopt);
  EXPECT_EQ(file->find("u")->as_float(), std::nullopt);
  EXPECT_EQ(file->find("b")->as_uint(), std::nullopt);
  EXPECT_EQ(file->find("s")->as_bool(), std::nullopt);
  EXPECT_EQ(file->find("s")->as_array(), std::nullopt);

  const auto missing = file->get_uint("nope");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  const auto wrong = file->get_uint("s");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::format);
  EXPECT_EQ(wrong.error().site->byte_offset, file->find("s")->offset());
  EXPECT_EQ(wrong.error().site->index, 4);
  EXPECT_EQ(wrong.error().site->subject, "s");
  EXPECT_FALSE(file->get_array("s", GgufType::u32));
}

TEST(Gguf, ArraysAreReadOnlyAsWhatTheyWereDeclared) {
  const auto file = open_bytes(build_gguf({kv_arr("a", 0, 3, "abc")}, {}).bytes);
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->get_array("a", GgufType::u8));
  const auto as_floats = file->get_array("a", GgufType::f32);
  ASSERT_FALSE(as_floats);
  EXPECT_EQ(as_floats.error().site->got, "an array of u8");
  EXPECT_EQ(file->get_array("a", GgufType::u8)->float_at(0), std::nullopt);
  EXPECT_EQ(file->get_array("a", GgufType::u8)->strings(), std::nullopt);
}

// An array of `depth` arrays around three bytes.
std::string nested(int depth) {
  std::string out = u32(0) + u64(3) + "xyz";
  for (int i = 1; i < depth; ++i) out = u32(9) + u64(1) + out;
  return out;
}

TEST(Gguf, ReadsNestedArraysToDepthFour) {
  const auto file = open_bytes(build_gguf({{"a", 9, nested(4)}, kv_bool("after", true)}, {}).bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_TRUE(*file->get_bool("after"));
  GgufArray level = *file->find("a")->as_array();
  for (int i = 1; i < 4; ++i) {
    ASSERT_EQ(level.element_type(), GgufType::array);
    ASSERT_EQ(level.values().size(), 1u);
    level = *level.values()[0].as_array();
  }
  EXPECT_EQ(level.uint_at(2), static_cast<uint64_t>('z'));
  EXPECT_EQ(level.values()[1].offset(), file->find("a")->offset() + 3 * 12 + 12 + 1);

  const auto deeper = open_bytes(build_gguf({{"a", 9, nested(5)}}, {}).bytes, GgufMode::load);
  ASSERT_FALSE(deeper);
  EXPECT_EQ(deeper.error().site->tag, "E_NESTING");
}

TEST(Gguf, WalksArraysOfMixedArrays) {
  const std::string elements = u32(8) + u64(2) + str("one") + str("") + u32(4) + u64(1) + u32(7) + u32(8) + u64(0);
  const auto file = open_bytes(build_gguf({kv_arr("a", 9, 3, elements), kv_u32("after", 5)}, {}).bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  const auto values = file->find("a")->as_array()->values();
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(*values[0].as_array()->strings(), (std::vector<std::string_view>{"one", ""}));
  EXPECT_EQ(values[1].as_array()->uint_at(0), 7u);
  EXPECT_EQ(values[2].as_array()->size(), 0u);
  EXPECT_EQ(*file->get_uint("after"), 5u);
}

TEST(Gguf, ErrorsReadAsOneLine) {
  const RawGguf raw = build_gguf(base_kvs(), base_tensors());
  const auto file = open_bytes(raw.with("val:t.b", std::string(1, 2)));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().to_string(), "byte 117 (0x75): KV 2 \"t.b\": got bool byte 2, expected 0 or 1 [E_BOOL]");
  EXPECT_EQ(file.error().code, ErrorCode::format);
}

TEST(Gguf, NamesInErrorsAreEscapedAndCut) {
  const auto file =
      open_bytes(build_gguf({{"\x1b[31m" + std::string(200, 'k'), 99, ""}}, {}).bytes + std::string(64, '\0'));
  ASSERT_FALSE(file);
  const std::string text = file.error().to_string();
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_LT(text.size(), 220u);
}

TEST(Gguf, AFileOfATensorlessVocabularyIsStrict) {
  const RawGguf raw = build_gguf({kv_str("general.architecture", "llama")}, {});
  EXPECT_TRUE(open_bytes(raw.bytes));
  EXPECT_TRUE(open_bytes(raw.bytes.substr(0, raw.at.at("pad"))));  // as most tools write it: without padding
}

TEST(Gguf, OpensAFileByPath) {
  const TemporaryDir dir;
  write_bytes(dir.file("m.gguf"), build_gguf(base_kvs(), base_tensors()).bytes);
  const auto file = GgufFile::open(dir.file("m.gguf"), {.mode = GgufMode::strict});
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->path(), dir.file("m.gguf"));
  EXPECT_EQ(static_cast<int>(file->data(*file->find_tensor("w2"))[1]), 7);
  EXPECT_FALSE(file->size_changed());
  write_bytes(dir.file("m.gguf"), "short");
  EXPECT_TRUE(file->size_changed());

  const auto bad = GgufFile::open(dir.file("m.gguf"));
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error().to_string().starts_with(dir.file("m.gguf") + ": byte 0 (0x0): "));
  EXPECT_EQ(GgufFile::open(dir.file("none.gguf")).error().code, ErrorCode::not_found);
  EXPECT_FALSE(GgufFile::open(dir.path()));
}

}  // namespace
}  // namespace tamis
