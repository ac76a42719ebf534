// Tensors of more than 2^31 elements, in sparse files: sizes and offsets of plans, and encoding and reading of rows
// whose indices no 32-bit number holds. Nothing but the rows that are looked at is ever touched.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "base/memory.h"
#include "base/rng.h"
#include "convert/convert.h"
#include "convert/hf_rows.h"
#include "convert/quantize.h"
#include "tests/base/temporary_dir.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLimit = uint64_t{1} << 31;
// 2^32 + 2^25 elements in rows of 16384, three experts of 2^30 elements, one small tensor between them.
constexpr uint64_t kCols = 16384, kRows = (uint64_t{1} << 18) + 2048, kExperts = 3, kExpertRows = 65536;
static_assert(kRows * kCols > 2 * kLimit && kExperts * kExpertRows * kCols > kLimit);

class LargeTensor : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_.file(name); }

  // A file of that size holding `text` at 0 and, if any, `last` at its end; false where the disk cannot have it.
  static bool write_sparse(const std::string& path, std::string_view text, uint64_t size,
                           std::span<const std::byte> last, uint64_t last_at) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return false;
    bool is_written = ::ftruncate(fd, static_cast<off_t>(size)) == 0 &&
                      ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
    if (is_written && !last.empty())
      is_written =
          ::pwrite(fd, last.data(), last.size(), static_cast<off_t>(last_at)) == static_cast<ssize_t>(last.size());
    struct stat info {};
    // More than a sixteenth on the disk: this file system has no holes.
    is_written = is_written && ::fstat(fd, &info) == 0 && static_cast<uint64_t>(info.st_blocks) * 512 < size / 16;
    ::close(fd);
    return is_written;
  }

  const test::TemporaryDir dir_;
};

#define SKIP_WITHOUT_HOLES(is_written) \
  if (!(is_written)) GTEST_SKIP() << "no sparse file of many gigabytes can be made in " << dir_.path()

GgufWriter large_model(DType dtype) {
  GgufWriter writer;
  EXPECT_TRUE(writer.add_string("general.architecture", "llama"));
  EXPECT_TRUE(writer.add_u32("llama.block_count", 1));
  EXPECT_TRUE(writer.add_u32("llama.attention.head_count", 128));
  EXPECT_TRUE(writer.add_u32("llama.expert_count", kExperts));
  EXPECT_TRUE(writer.add_tensor("blk.0.attn_v.weight", dtype, {kRows, kCols}));
  EXPECT_TRUE(writer.add_tensor("blk.0.attn_norm.weight", DType::f32, {kCols}));
  EXPECT_TRUE(writer.add_tensor("blk.0.ffn_up_exps.weight", dtype, {kExperts, kExpertRows, kCols}));
  EXPECT_TRUE(writer.add_tensor("blk.0.ffn_norm.weight", DType::f32, {kCols}));
  return writer;
}

TEST_F(LargeTensor, PlansAreRightToTheByte) {
  const GgufWriter model = large_model(DType::f16);
  const std::string head = model.header();
  SKIP_WITHOUT_HOLES(write_sparse(path("m.gguf"), head, head.size() + model.data_bytes(), {}, 0));
  const auto file = GgufFile::open(path("m.gguf"));
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  const uint64_t n_v = kRows * kCols, n_up = kExperts * kExpertRows * kCols;
  EXPECT_EQ(file->find_tensor("blk.0.ffn_norm.weight")->file_offset, head.size() + 2 * n_v + 4 * kCols + 2 * n_up);
  // Block bytes over block length, by hand.
  struct Row {
    const char* recipe;
    uint64_t bytes, len;
  };
  for (const Row row : {Row{"Q8_0", 34, 32}, Row{"Q4_0", 18, 32}, Row{"Q6_K", 210, 256}, Row{"IQ4_XS", 136, 256},
                        Row{"TQ2_0", 66, 256}, Row{"BF16", 2, 1}}) {
    QuantizeOptions options;
    options.recipe = *find_recipe(row.recipe);
    options.is_pure = true;
    const auto plan = plan_quantize(*file, options, path("out.gguf"));
    ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
    const uint64_t v = n_v / row.len * row.bytes, up = n_up / row.len * row.bytes;
    EXPECT_EQ(plan->tensor_bytes(), v + up + 8 * kCols) << row.recipe;
    EXPECT_EQ(plan->n_params(), n_v + n_up + 2 * kCols);
    const GgufWriter& writer = plan->files[0].writer;
    EXPECT_EQ(writer.tensor_offset(1), v) << row.recipe;
    EXPECT_EQ(writer.tensor_offset(2), v + 4 * kCols) << row.recipe;
    EXPECT_EQ(writer.tensor_offset(3), v + 4 * kCols + up) << row.recipe;
    EXPECT_EQ(plan->size_bytes(), writer.header().size() + v + up + 8 * kCols) << row.recipe;
    // What would be written reads back with the same places.
    fs::remove(path("out.gguf"));
    ASSERT_TRUE(write_sparse(path("out.gguf"), writer.header(), plan->size_bytes(), {}, 0));
    const auto made = GgufFile::open(path("out.gguf"));
    ASSERT_TRUE(made.has_value()) << made.error().to_string();
    const GgufTensor& last = *made->find_tensor("blk.0.ffn_norm.weight");
    EXPECT_EQ(last.file_offset, writer.header().size() + writer.tensor_offset(3)) << row.recipe;
    EXPECT_EQ(made->data(last).size(), 4 * kCols);
  }
}

// The last rows of both tensors, read from the file and encoded as a run that goes on does: what encoding the same
// numbers alone gives.
TEST_F(LargeTensor, TheLastRowsAreEncoded) {
  constexpr uint64_t kSeen = 3;
  const GgufWriter model = large_model(DType::f32);
  const std::string head = model.header();
  std::vector<float> values(kSeen * kCols);
  Rng rng(1);
  for (float& x : values) x = static_cast<float>(rng.normal());
  // The experts end the file but for one norm.
  const uint64_t data_end = head.size() + model.data_bytes();
  const auto bytes = std::as_bytes(std::span(values));
  SKIP_WITHOUT_HOLES(write_sparse(path("m.gguf"), head, data_end, bytes, data_end - 4 * kCols - bytes.size()));
  const int fd = ::open(path("m.gguf").c_str(), O_WRONLY);
  const auto v_end = static_cast<off_t>(head.size() + 4 * kRows * kCols);
  ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), v_end - static_cast<off_t>(bytes.size())),
            static_cast<ssize_t>(bytes.size()));
  ::close(fd);

  const auto file = GgufFile::open(path("m.gguf"));
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  const auto pool = ThreadPool::create(2);
  // Importance of the last expert; the others' would give other blocks.
  std::vector<Importance> importance(kExperts);
  for (uint64_t mat = 0; mat < kExperts; ++mat) {
    importance[mat].values.assign(kCols, 1.0f);
    for (uint64_t k = 0; k < kCols; k += mat + 2) importance[mat].values[k] = 50.0f;
  }
  const uint64_t resident = resident_memory_bytes();
  for (const char* name : {"blk.0.attn_v.weight", "blk.0.ffn_up_exps.weight"})
    for (const DType type : {DType::q8_0, DType::q4_k, DType::iq4_nl}) {
      const GgufTensor& tensor = *file->find_tensor(name);
      ASSERT_GT(tensor.shape.n_elements(), kLimit);
      const bool is_stack = tensor.shape.n_dims == 3;
      EncodeJob job;
      job.name = tensor.name;
      job.shape = tensor.shape;
      job.target = type;
      if (is_stack) job.importance = importance;
      job.read = rows_of(*file, tensor);
      std::vector<std::byte> blocks;
      uint64_t first_row = 0;
      const auto done = encode_tensor(
          job, tensor.shape.n_rows() - kSeen - 2, *pool,
          [&](uint64_t row, uint64_t, std::span<const std::byte> slab) -> Status {
            if (blocks.empty()) first_row = row;
            blocks.insert(blocks.end(), slab.begin(), slab.end());
            return {};
          },
          nullptr);
      ASSERT_TRUE(done.has_value()) << done.error().to_string();
      EXPECT_EQ(first_row, tensor.shape.n_rows() - kSeen - 2);
      std::vector<float> all(2 * kCols, 0.0f);
      all.insert(all.end(), values.begin(), values.end());
      std::vector<std::byte> expected((kSeen + 2) * row_bytes(type, tensor.shape));
      std::span<const float> weights;
      if (is_stack) weights = importance[kExperts - 1].values;
      ASSERT_TRUE(encode_rows(type, EncodeMethod::fast, all, kCols, weights, expected).has_value());
      EXPECT_EQ(blocks, expected) << name << " " << dtype_name(type);
    }
  EXPECT_LT(resident_memory_bytes(), resident + (uint64_t{256} << 20));
}

// The same of a checkpoint: what is planned, and rows at the end of a matrix.
TEST_F(LargeTensor, CheckpointsToo) {
  const uint64_t n_bytes = 2 * kRows * kCols;
  const std::string text =
      fmt::format(R"({{"model.layers.0.big.weight":{{"dtype":"BF16","shape":[{},{}],"data_offsets":[0,{}]}}}})", kRows,
                  kCols, n_bytes);
  std::string head(8, '\0');
  const uint64_t n_text = text.size();
  std::memcpy(head.data(), &n_text, 8);
  head += text;
  const std::array<uint16_t, 2> ones = {0x3f80, 0x4000};
  SKIP_WITHOUT_HOLES(write_sparse(path("model.safetensors"), head, head.size() + n_bytes,
                                  std::as_bytes(std::span(ones)), head.size() + n_bytes - 4));
  const auto set = SafetensorsSet::open(path("model.safetensors"));
  ASSERT_TRUE(set.has_value()) << set.error().to_string();
  std::vector<std::string> used;
  auto rows = make_rows(*set, {}, "model.layers.0.big.weight", used);
  ASSERT_TRUE(rows.has_value() && *rows != nullptr);
  EXPECT_EQ((*rows)->n_rows(), kRows);
  std::vector<float> values(2 * kCols);
  ASSERT_TRUE((*rows)->read(kRows - 2, 2, values).has_value());
  EXPECT_EQ(values[2 * kCols - 2], 1.0f);
  EXPECT_EQ(values[2 * kCols - 1], 2.0f);
  EXPECT_EQ(std::count(values.begin(), values.end(), 0.0f), static_cast<ptrdiff_t>(2 * kCols - 2));
  // In the order of GGUF's llama: the last row stays last in its head of 128.
  const Rows permuted = permute_heads(std::move(*rows), kRows / 128, false);
  ASSERT_TRUE(permuted->read(kRows - 1, 1, std::span(values).first(kCols)).has_value());
  EXPECT_EQ(values[kCols - 1], 2.0f);
}

}  // namespace
}  // namespace tamis
