// Faults reported of other readers, each as the smallest file of its kind, by the id it has in the list of reported
// faults.
#include <gtest/gtest.h>

#include "tests/formats/gguf_builder.h"

namespace tamis {
namespace {

using namespace tamis::testing;

std::string tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type = 0, uint64_t offset = 0,
                   int64_t n_dims = -1) {
  std::string out = str(name) + u32(n_dims < 0 ? dims.size() : static_cast<uint64_t>(n_dims));
  for (const uint64_t extent : dims) out += u64(extent);
  return out + u32(type) + u64(offset);
}

std::string file_of(const std::vector<RawKv>& kvs, const std::vector<std::string>& tensors, std::string_view data = "",
                    uint64_t alignment = 32) {
  std::string out = "GGUF" + u32(3) + u64(tensors.size()) + u64(kvs.size());
  for (const RawKv& kv : kvs) out += str(kv.key) + u32(kv.type) + kv.value;
  for (const std::string& info : tensors) out += info;
  if (tensors.empty()) return out;
  out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
  return out + std::string(data);
}

void expect_refused_in_both_modes(const std::string& bytes, const std::string& subject, const std::string& tag) {
  for (const GgufMode mode : {GgufMode::load, GgufMode::strict}) {
    const auto file = open_bytes(bytes, mode);
    ASSERT_FALSE(file);
    ASSERT_TRUE(file.error().site);
    EXPECT_EQ(file.error().site->subject, subject) << file.error().to_string();
    EXPECT_EQ(file.error().site->tag, tag) << file.error().to_string();
    EXPECT_TRUE(file.error().site->has_offset);
  }
}

TEST(GgufFaults, B01_HugeNumberOfDimensions) {
  const std::string bytes = file_of({}, {tensor("t.weight", {4}, 0, 0, 0xffffffff)});
  ASSERT_EQ(bytes.size(), 64u);
  expect_refused_in_both_modes(bytes, "t.weight", "E_TENSOR_DIMS");
}

TEST(GgufFaults, B01_ProductThatWrapsToWhatTheFileHolds) {
  expect_refused_in_both_modes(file_of({}, {tensor("t.weight", {(uint64_t{1} << 61) + 1, 8})}, std::string(32, '\0')),
                               "t.weight", "E_TENSOR_SIZE");
}

TEST(GgufFaults, B01_ZeroDimension) {
  const std::string bytes = file_of({}, {tensor("t.weight", {4, 0})});
  ASSERT_EQ(bytes.size(), 96u);
  expect_refused_in_both_modes(bytes, "t.weight", "E_TENSOR_DIMS");
  EXPECT_NE(open_bytes(bytes).error().to_string().find("dimension 1 of 0"), std::string::npos);
}

TEST(GgufFaults, B01_LargestDimensionTwice) {
  expect_refused_in_both_modes(file_of({}, {tensor("t.weight", {(uint64_t{1} << 63) - 1, 2}, 24)}), "t.weight",
                               "E_TENSOR_SIZE");
}

TEST(GgufFaults, B01_QuantizedRowWhoseBytesWrapWhenMultipliedFirst) {
  expect_refused_in_both_modes(file_of({}, {tensor("t.weight", {5124095576030431008u}, 2)}, std::string(32, '\0')),
                               "t.weight", "E_TRUNCATED");
}

TEST(GgufFaults, B02_AlignmentZero) {
  const std::string bytes = file_of({kv_u32("general.alignment", 0)}, {});
  ASSERT_EQ(bytes.size(), 57u);
  expect_refused_in_both_modes(bytes, "general.alignment", "E_ALIGNMENT");
  expect_refused_in_both_modes(file_of({kv_u32("general.alignment", 0)}, {tensor("t", {8})}, std::string(32, '\0')),
                               "general.alignment", "E_ALIGNMENT");
}

// Powers of two from 8 to 1 MiB are used; 1, 2 and 4 are loaded with a warning; 24, legal by the text of the
// specification but refused by its implementation, is refused.
TEST(GgufFaults, B02_OtherAlignments) {
  struct Case {
    uint64_t alignment;
    bool is_loaded, is_strict;
  };
  for (const Case c : {Case{1, true, false},
                       {2, true, false},
                       {4, true, false},
                       {8, true, true},
                       {16, true, true},
                       {64, true, true},
                       {1 << 20, true, true},
                       {3, false, false},
                       {12, false, false},
                       {24, false, false},
                       {1 << 21, false, false},
                       {0x80000000u, false, false},
                       {0xffffffffu, false, false}}) {
    for (const bool has_tensor : {false, true}) {
      std::vector<std::string> tensors;
      if (has_tensor) tensors.push_back(tensor("t", {8}));
      const uint64_t padding = c.is_loaded ? c.alignment : 32;
      const std::string bytes =
          file_of({kv_u32("general.alignment", c.alignment)}, tensors, std::string(32, '\0'), padding);
      const auto loaded = open_bytes(bytes, GgufMode::load);
      EXPECT_EQ(loaded.has_value(), c.is_loaded) << c.alignment << (loaded ? "" : loaded.error().to_string());
      EXPECT_EQ(open_bytes(bytes, GgufMode::strict).has_value(), c.is_strict) << c.alignment;
      if (!c.is_loaded) {
        EXPECT_EQ(loaded.error().site->subject, "general.alignment");
        continue;
      }
      EXPECT_EQ(loaded->warnings().size(), c.is_strict ? 0u : 1u);
      EXPECT_EQ(loaded->alignment(), c.alignment);
    }
  }
}

TEST(GgufFaults, B02_AlignmentOfAnotherType) {
  for (const RawKv& kv :
       {RawKv{"general.alignment", 10, u64(32)}, kv_str("general.alignment", "32"), kv_i32("general.alignment", 32)})
    expect_refused_in_both_modes(file_of({kv}, {tensor("t", {8})}, std::string(32, '\0')), "general.alignment",
                                 "E_ALIGNMENT");
}

TEST(GgufFaults, B04_TwoTensorsOfOneName) {
  const std::string bytes =
      file_of({kv_str("general.architecture", "llama")},
              {tensor("a.weight", {8}, 0, 0), tensor("a.weight", {8}, 0, 32)}, std::string(64, '\1'));
  ASSERT_EQ(bytes.size(), 224u);
  expect_refused_in_both_modes(bytes, "a.weight", "E_DUPLICATE_TENSOR");
}

TEST(GgufFaults, B04_OneKeyTwice) {
  expect_refused_in_both_modes(file_of({kv_u32("k", 1), kv_u32("j", 1), kv_u32("k", 2)}, {}), "k", "E_DUPLICATE_KEY");
  EXPECT_EQ(open_bytes(file_of({kv_u32("k", 1), kv_u32("j", 1), kv_u32("k", 2)}, {})).error().site->index, 2);
}

}  // namespace
}  // namespace tamis
