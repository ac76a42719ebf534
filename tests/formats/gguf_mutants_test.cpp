// A small valid file with one thing wrong at a time: each must be refused at the right byte and by the right name, and
// what is only odd must still load, with a warning.
#include <gtest/gtest.h>

#include "tests/formats/gguf_builder.h"

namespace tamis {
namespace {

using namespace tamis::testing;

enum class Verdict { accept, warn, refuse };

struct Mutant {
  std::string id;
  std::string bytes;
  Verdict strict = Verdict::refuse;
  Verdict load = Verdict::refuse;
  int64_t offset = -1;  // of the refusal; -1: any
  std::string subject;  // key, tensor or header field; "" none
  std::string tag;      // "" any
};

class Mutants {
 public:
  Mutants() : base_(build_gguf(base_kvs(), base_tensors())) {}

  // The base file with the bytes at `field` (+ shift) replaced: refused there.
  Mutant& at(std::string id, const std::string& field, std::string content, std::string tag, uint64_t shift = 0) {
    const size_t colon = field.find(':');
    list_.push_back({std::move(id), base_.with(field, content, shift), Verdict::refuse, Verdict::refuse,
                     static_cast<int64_t>(base_.at.at(field) + shift),
                     colon == field.npos ? field : field.substr(colon + 1), std::move(tag)});
    return list_.back();
  }
  // Where the subject cannot be known yet: the field that holds its own length is wrong.
  void nameless(std::string id, const std::string& field, std::string content, std::string tag) {
    at(std::move(id), field, std::move(content), std::move(tag)).subject = "";
  }
  Mutant& whole(std::string id, std::string bytes, int64_t offset, std::string subject, std::string tag) {
    list_.push_back({std::move(id), std::move(bytes), Verdict::refuse, Verdict::refuse, offset, std::move(subject),
                     std::move(tag)});
    return list_.back();
  }
  void good(std::string id, std::string bytes) {
    list_.push_back({std::move(id), std::move(bytes), Verdict::accept, Verdict::accept, -1, "", ""});
  }
  void only_loads(Mutant& mutant) { mutant.load = Verdict::warn; }

  const RawGguf& base() const { return base_; }
  const std::vector<Mutant>& list() const { return list_; }

 private:
  RawGguf base_;
  std::vector<Mutant> list_;
};

constexpr uint64_t kMinusOne = ~uint64_t{0};

void header_mutants(Mutants& m) {
  const std::string& whole = m.base().bytes;
  m.good("valid", whole);
  m.whole("empty", "", 0, "magic", "E_TRUNCATED");
  m.whole("3 bytes", whole.substr(0, 3), 0, "magic", "E_TRUNCATED");
  m.at("magic", "magic", "GGUE", "E_MAGIC");
  m.at("magic swapped", "magic", "FUGG", "E_MAGIC");
  for (const uint32_t version : {0u, 1u, 4u})
    m.at("version " + std::to_string(version), "version", u32(version), "E_VERSION");
  m.at("version big-endian", "version", std::string("\0\0\0\3", 4), "E_BIG_ENDIAN");
  m.whole("20-byte header", whole.substr(0, 20), 16, "n_kv", "E_TRUNCATED");
  for (const uint64_t n : {kMinusOne, uint64_t{1} << 40, kMinusOne / 368 + 1, uint64_t{15}})
    m.at("n_tensors " + std::to_string(n), "n_tensors", u64(n), "E_COUNT");
  for (const uint64_t n : {kMinusOne, uint64_t{1} << 40, uint64_t{35}})
    m.at("n_kv " + std::to_string(n), "n_kv", u64(n), "E_COUNT");
}

void key_mutants(Mutants& m) {
  const uint64_t left = m.base().bytes.size() - m.base().at.at("key:t.b") - 8;
  for (const uint64_t n : {kMinusOne, uint64_t{1} << 48, left + 1})
    m.nameless("key length " + std::to_string(n), "key:t.b", u64(n), "E_TRUNCATED");
  m.nameless("key empty", "key:t.b", u64(0), "E_KEY_LENGTH");
  m.at("key with NUL", "key:t.b", std::string("t\0b", 3), "E_KEY_TEXT", 8).subject = "t\\x00b";
  Mutant& odd = m.at("key not ASCII", "key:t.b",
                     "t\xff"
                     "b",
                     "E_KEY_TEXT", 8);
  odd.subject = "t\\xffb";
  m.only_loads(odd);
  auto kvs = base_kvs();
  kvs.push_back({std::string(65536, 'k'), 0, "\1"});
  m.whole("key of 65536", build_gguf(kvs, base_tensors()).bytes, 230, "", "E_KEY_LENGTH");
  kvs.back() = {std::string(65535, 'k'), 0, "\1"};
  m.good("key of 65535", build_gguf(kvs, base_tensors()).bytes);
  kvs.back() = kv_bool("t.b", false);
  m.whole("key twice", build_gguf(kvs, base_tensors()).bytes, 230, "t.b", "E_DUPLICATE_KEY");
  kvs.back() = kv_u32("general.alignment", 64);
  m.whole("alignment twice", build_gguf(kvs, base_tensors()).bytes, 230, "general.alignment", "E_DUPLICATE_KEY");
}

void value_mutants(Mutants& m) {
  for (const uint64_t type : {13u, 255u, 0x7fffffffu, 0x80000000u, 0xffffffffu})
    m.at("value type " + std::to_string(type), "type:t.b", u32(type), "E_VALUE_TYPE");
  m.at("element type 13", "etype:t.ai", u32(13), "E_VALUE_TYPE");
  // An array of arrays is legal; here the first element's own type is what is wrong.
  m.at("elements that are no arrays", "etype:t.ai", u32(9), "E_VALUE_TYPE").offset += 12;
  m.at("bool 2", "val:t.b", std::string(1, 2), "E_BOOL");
  // The type says string; the length read there does not fit.
  m.at("bool read as string", "type:t.b", u32(8), "E_TRUNCATED").offset += 4;
  for (const uint64_t n : {kMinusOne, uint64_t{1} << 63, uint64_t{1} << 30})
    m.at("string length " + std::to_string(n), "val:t.as", u64(n), "E_TRUNCATED");
  m.only_loads(m.at("string not UTF-8", "val:t.as", "\xff", "E_UTF8", 8));
  for (const uint64_t n : {kMinusOne, uint64_t{1} << 63, uint64_t{1} << 30, uint64_t{145}})
    m.at("array length " + std::to_string(n), "n:t.ai", u64(n), "E_TRUNCATED");
  for (const uint64_t n : {uint64_t{1} << 61, uint64_t{1} << 40})
    m.at("strings " + std::to_string(n), "n:t.as", u64(n), "E_TRUNCATED");
  std::string deep = "GGUF" + u32(3) + u64(0) + u64(1) + str("n") + u32(9);
  for (int i = 0; i < 100000; ++i) deep += u32(9) + u64(1);
  m.whole("nested 100,000 deep", deep + u32(0) + u64(0), 37 + 3 * 12, "n", "E_NESTING");
  m.good("200,000 empty strings", build_gguf({kv_strs("a", std::vector<std::string>(200000))}, {}).bytes);
  auto kvs = base_kvs();
  kvs.push_back(kv_str("e", ""));
  m.good("empty string", build_gguf(kvs, base_tensors()).bytes);
}

void alignment_mutants(Mutants& m) {
  for (const uint64_t alignment : {uint64_t{0}, uint64_t{3}, uint64_t{24}, uint64_t{1} << 21, uint64_t{1} << 30,
                                   uint64_t{1} << 31, uint64_t{0xffffffff}})
    m.at("alignment " + std::to_string(alignment), "val:general.alignment", u32(alignment), "E_ALIGNMENT");
  // Alignment 1 leaves no padding, so the data moves; the file is built that way.
  auto kvs = base_kvs();
  kvs[1] = kv_u32("general.alignment", 1);
  m.only_loads(m.whole("alignment 1", build_gguf(kvs, base_tensors(), {.alignment = 1}).bytes, 98, "general.alignment",
                       "E_ALIGNMENT"));
  for (const uint64_t type : {5u, 6u})
    m.at("alignment of type " + std::to_string(type), "type:general.alignment", u32(type), "E_ALIGNMENT");
}

void tensor_mutants(Mutants& m) {
  m.nameless("name length -1", "tname:w0", u64(kMinusOne), "E_TRUNCATED");
  m.good("name of 64", build_gguf(base_kvs(), {{std::string(64, 'n'), 0, {4}}}).bytes);
  m.whole("name of 65", build_gguf(base_kvs(), {{std::string(65, 'n'), 0, {4}}}).bytes, 230, "", "E_TENSOR_NAME");
  m.whole("name empty", build_gguf(base_kvs(), {{"", 0, {4}}}).bytes, 230, "", "E_TENSOR_NAME");
  auto tensors = base_tensors();
  tensors.push_back({"w0", 0, {4}});
  m.whole("name twice", build_gguf(base_kvs(), tensors).bytes, 348, "w0", "E_DUPLICATE_TENSOR");
  m.at("name with NUL", "tname:w0", std::string(1, 0), "E_TENSOR_NAME", 8).subject = "\\x000";
  for (const uint64_t n : {uint64_t{0}, uint64_t{5}, uint64_t{0xffffffff}, uint64_t{0x80000000}})
    m.at("dimensions " + std::to_string(n), "nd:w0", u32(n), "E_TENSOR_DIMS");
  m.at("dimension 1 of 0", "ne1:w0", u64(0), "E_TENSOR_DIMS");
  m.at("dimension 0 of -1", "ne0:w0", u64(kMinusOne), "E_TENSOR_DIMS");
  m.at("dimension 0 of 2^63", "ne0:w0", u64(uint64_t{1} << 63), "E_TENSOR_DIMS");
  m.at("dimensions 2^62 x 2", "ne0:w0", u64(uint64_t{1} << 62), "E_TENSOR_SIZE");
  m.at("row of 33", "ne0:w1", u64(33), "E_TENSOR_ROW");
  for (const uint64_t type : {200u, 0xffffffffu, 4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u})
    m.at("tensor type " + std::to_string(type), "tt:w0", u32(type), "E_TENSOR_TYPE");
}

// A tensor declared with `dims` that has the data of one block of its type.
std::string huge(const std::vector<uint64_t>& dims, uint32_t type) {
  std::vector<uint64_t> small(dims.size(), 1);
  small[0] = dtype_info(type)->block_len;
  RawGguf raw = build_gguf(base_kvs(), {{"w0", type, small}});
  for (size_t i = 0; i < dims.size(); ++i) raw.bytes = raw.with("ne" + std::to_string(i) + ":w0", u64(dims[i]));
  return raw.bytes;
}

void size_mutants(Mutants& m) {
  m.whole("2^32 x 2^32", huge({uint64_t{1} << 32, uint64_t{1} << 32}, 0), 244, "w0", "E_TENSOR_SIZE");
  m.whole("2^16 four times", huge(std::vector<uint64_t>(4, 1 << 16), 0), 244, "w0", "E_TENSOR_SIZE");
  m.whole("2^64 - 16 bytes", huge({4, 1073741823, 1073741825}, 0), 320, "w0", "E_TRUNCATED");
  m.whole("2^64 - 4 bytes", huge({4611686018427387903}, 0), 320, "w0", "E_TRUNCATED");
  m.whole("Q4_0 row that wraps", huge({1024819115206086208}, 2), 320, "w0", "E_TRUNCATED");
  m.whole("Q8_0 row that wraps", huge({542551296285575072}, 8), 352, "w0", "E_TRUNCATED");
  const auto half = [](std::string_view name, uint64_t offset) {
    return str(name) + u32(1) + u64(0x7fffffffffffffc0) + u32(24) + u64(offset);
  };
  m.whole("sizes whose sum wraps",
          "GGUF" + u32(3) + u64(2) + u64(0) + half("a", 0) + half("b", 0x7fffffffffffffc0) + std::string(64, '\0'), 154,
          "a", "E_TRUNCATED");
}

void data_mutants(Mutants& m) {
  const RawGguf& base = m.base();
  const std::string& whole = base.bytes;
  const uint64_t data = base.at.at("data");
  m.at("offset -1", "off:w1", u64(kMinusOne), "E_TENSOR_OFFSET");
  m.at("offset 33", "off:w1", u64(33), "E_TENSOR_OFFSET");
  m.at("offset -32", "off:w1", u64(kMinusOne - 31), "E_TENSOR_RANGE");
  m.at("overlap", "off:w1", u64(0), "E_TENSOR_OVERLAP");
  m.at("offset past the end", "off:w2", u64(data + 4096), "E_TENSOR_RANGE");
  m.at("offset 2^32", "off:w2", u64(uint64_t{1} << 32), "E_TENSOR_RANGE");
  Mutant& gap = m.at("gap", "off:w2", u64(160), "E_TENSOR_GAP");
  gap.bytes += std::string(32, '\0');
  m.only_loads(gap);
  m.whole("one byte short", whole.substr(0, data + 128 + 15), static_cast<int64_t>(data + 128 + 15), "w2",
          "E_TRUNCATED");
  m.good("last tensor without padding", whole.substr(0, data + 128 + 16));
  m.whole("no data", whole.substr(0, data), static_cast<int64_t>(data), "w0", "E_TRUNCATED");
  m.whole("cut in the table", whole.substr(0, base.at.at("off:w2") + 4), static_cast<int64_t>(base.at.at("off:w2")),
          "w2", "E_TRUNCATED");
  m.whole("cut in a value", whole.substr(0, base.at.at("val:t.f") + 3), static_cast<int64_t>(base.at.at("val:t.f")),
          "t.f", "E_TRUNCATED");
  m.only_loads(m.whole("trailing bytes", whole + std::string(4096, 'X'), 512, "", "E_TRAILING"));
  m.only_loads(m.whole("trailing 32", whole + std::string(32, '\0'), 512, "", "E_TRAILING"));
  m.good("trailing 31", whole + std::string(31, '\0'));
  Mutant& padding = m.whole("padding not zero", base.with("pad", "\1"), -1, "", "");
  padding.strict = padding.load = Verdict::warn;
  m.good("version 2", build_gguf(base_kvs(), base_tensors(), {.version = 2}).bytes);
}

// Counts that are one off: strict reading finds the count that makes the file whole and blames that; loading reports
// where the bytes stop making sense.
void count_mutants(Mutants& m) {
  m.at("n_tensors + 1", "n_tensors", u64(4), "E_COUNT");
  m.only_loads(m.at("n_tensors - 1", "n_tensors", u64(2), "E_COUNT"));
  m.at("n_kv + 1", "n_kv", u64(7), "E_COUNT");
  m.at("n_kv - 1", "n_kv", u64(5), "E_COUNT");
}

std::vector<Mutant> all_mutants() {
  Mutants m;
  header_mutants(m);
  key_mutants(m);
  value_mutants(m);
  alignment_mutants(m);
  tensor_mutants(m);
  size_mutants(m);
  data_mutants(m);
  count_mutants(m);
  return m.list();
}

TEST(GgufMutants, StrictReadingRefusesAtTheRightByteByTheRightName) {
  const auto mutants = all_mutants();
  EXPECT_GE(mutants.size(), 99u);
  for (const Mutant& mutant : mutants) {
    SCOPED_TRACE(mutant.id);
    const auto file = open_bytes(mutant.bytes, GgufMode::strict);
    ASSERT_EQ(file.has_value(), mutant.strict != Verdict::refuse) << (file ? "" : file.error().to_string());
    if (file) {
      EXPECT_EQ(file->warnings().empty(), mutant.strict == Verdict::accept);
      continue;
    }
    const Error& error = file.error();
    EXPECT_TRUE(error.code == ErrorCode::format || error.code == ErrorCode::unsupported);
    ASSERT_TRUE(error.site);
    EXPECT_TRUE(error.site->has_offset);
    if (mutant.offset >= 0) {
      EXPECT_EQ(error.site->byte_offset, static_cast<uint64_t>(mutant.offset)) << error.to_string();
    }
    EXPECT_EQ(error.site->subject, mutant.subject) << error.to_string();
    EXPECT_EQ(error.site->tag, mutant.tag) << error.to_string();
    EXPECT_FALSE(error.site->got.empty() || error.site->expected.empty()) << error.to_string();
  }
}

TEST(GgufMutants, LoadingAcceptsOnlyWhatIsMerelyOdd) {
  for (const Mutant& mutant : all_mutants()) {
    SCOPED_TRACE(mutant.id);
    const auto file = open_bytes(mutant.bytes, GgufMode::load);
    ASSERT_EQ(file.has_value(), mutant.load != Verdict::refuse) << (file ? "" : file.error().to_string());
    if (file) {
      EXPECT_EQ(file->warnings().empty(), mutant.load == Verdict::accept);
    } else {
      EXPECT_TRUE(file.error().site->has_offset);
    }
  }
}

TEST(GgufMutants, TokensMayBeAnyBytes) {
  const auto file =
      open_bytes(build_gguf({kv_strs("tokenizer.ggml.tokens", {"a", "\xff"})}, {}).bytes, GgufMode::strict);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->warnings().size(), 1u);
}

TEST(GgufMutants, WarningsAreBounded) {
  std::vector<RawKv> kvs;
  for (int i = 0; i < 1000; ++i) kvs.push_back(kv_str("k" + std::to_string(i), "\xff"));
  const auto file = open_bytes(build_gguf(kvs, {}).bytes, GgufMode::load);
  ASSERT_TRUE(file);
  EXPECT_LE(file->warnings().size(), 33u);
}

TEST(GgufMutants, LimitsHaveTheirOwnErrors) {
  const auto with_limits = [](auto change) {
    GgufOptions options{.mode = GgufMode::strict};
    change(options.limits);
    return GgufFile::open(std::make_shared<TestSource>(build_gguf(base_kvs(), base_tensors()).bytes), options);
  };
  EXPECT_TRUE(with_limits([](Limits& l) {
    l.metadata_bytes = 348, l.n_kv = 6, l.n_tensors = 3, l.key_bytes = 20, l.string_bytes = 5, l.array_items = 3,
    l.array_depth = 1, l.tensor_name_bytes = 2, l.alignment = 32, l.n_dims = 2;
  }));
  for (const auto& file :
       {with_limits([](Limits& l) { l.metadata_bytes = 347; }), with_limits([](Limits& l) { l.n_kv = 5; }),
        with_limits([](Limits& l) { l.n_tensors = 2; }), with_limits([](Limits& l) { l.key_bytes = 16; }),
        with_limits([](Limits& l) { l.string_bytes = 4; }), with_limits([](Limits& l) { l.array_items = 2; }),
        with_limits([](Limits& l) { l.tensor_name_bytes = 1; }), with_limits([](Limits& l) { l.alignment = 16; }),
        with_limits([](Limits& l) { l.n_dims = 1; })})
    EXPECT_FALSE(file);
}

}  // namespace
}  // namespace tamis
