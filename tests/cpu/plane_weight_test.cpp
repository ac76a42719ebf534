// A matrix in runs and steps of planes against its panels multiplied one by one over all of K: where a block lies and
// in which order panels pass changes no bit.
#include "cpu/plane_weight.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "cpu/dispatch.h"
#include "tests/cpu/weights.h"

namespace tamis::cpu {
namespace {

struct Matrix {
  DType dtype;
  size_t n_out, n_in;
  std::vector<std::byte> rows;
  std::unique_ptr<PlaneWeight> weight;
};

Matrix random_matrix(DType dtype, size_t n_out, size_t n_in) {
  Matrix m{dtype, n_out, n_in, test::random_weights(dtype, n_out, n_in, 3), nullptr};
  PanelMemory memory;
  auto packed = PlaneWeight::pack(dtype, Shape{n_out, n_in}, m.rows.data(), *available_targets()[0], memory);
  EXPECT_TRUE(packed.has_value());
  m.weight = std::move(*packed);
  return m;
}

// Blocks first … first + n − 1 of all columns, packed as one step.
void pack(const PlaneType& type, const std::vector<float>& x, size_t n_in, size_t first, size_t n, int8_t* out) {
  const size_t n_columns = x.size() / n_in;
  available_targets()[0]->pack_columns({x.data() + first * type.block_len, n_in, n_columns, n, type.block_len, out}, 0,
                                       n);
}

std::vector<int8_t> packed_in_steps(const PlaneType& type, const std::vector<float>& x, size_t n_in, size_t step_len) {
  const size_t n_columns = x.size() / n_in, n_blocks = n_in / type.block_len, step = step_len / type.block_len;
  const size_t bytes = n_columns * (type.block_len == 256 ? kActs256Bytes : kActs32Bytes);
  std::vector<int8_t> out(n_blocks * bytes);
  for (size_t first = 0; first < n_blocks; first += step)
    pack(type, x, n_in, first, std::min(step, n_blocks - first), out.data() + first * bytes);
  return out;
}

// Panel `panel` alone, all of K at once.
std::vector<float> one_panel(const Matrix& m, size_t panel, const std::vector<int8_t>& acts, size_t n_columns) {
  const PlaneType& type = *plane_type(m.dtype);
  const size_t row_bytes = m.rows.size() / m.n_out, n_blocks = m.n_in / type.block_len, first = panel * kPanelRows;
  std::vector<uint8_t> planes(n_blocks * type.plane_block_bytes), codes(kPanelBytes + 64);
  pack_panel(type, reinterpret_cast<const uint8_t*>(m.rows.data()) + first * row_bytes, row_bytes,
             std::min<size_t>(kPanelRows, m.n_out - first), planes.data());
  std::vector<float> out(n_columns * kPanelRows);
  available_targets()[0]->multiply_panel[type.kind](
      {planes.data(), acts.data(), n_columns, n_blocks, codes.data(), out.data(), false, nullptr, 0});
  return out;
}

void expect_same_bits(const Matrix& m, const PanelRange& range, size_t n_columns) {
  const PlaneType& type = *plane_type(m.dtype);
  const std::vector<float> x = test::random_floats(n_columns * m.n_in, n_columns);
  const std::vector<int8_t> acts = packed_in_steps(type, x, m.n_in, Columns::step_len(n_columns, m.n_in)),
                            whole = packed_in_steps(type, x, m.n_in, m.n_in);
  std::vector<float> tiles(range.n_panels * range.n_columns * kPanelRows);
  const auto scratch = std::make_unique<PanelScratch>();
  m.weight->multiply(range, {.x = nullptr, .x_stride = 0, .packed = acts.data(), .n = n_columns}, *scratch,
                     tiles.data());
  for (size_t p = 0; p < range.n_panels; ++p) {
    const size_t n_rows = std::min<size_t>(kPanelRows, m.n_out - (range.first_panel + p) * kPanelRows);
    const std::vector<float> expected = one_panel(m, range.first_panel + p, whole, n_columns);
    for (size_t c = 0; c < range.n_columns; ++c)
      for (size_t r = 0; r < n_rows; ++r)
        ASSERT_EQ(std::bit_cast<uint32_t>(tiles[(p * range.n_columns + c) * kPanelRows + r]),
                  std::bit_cast<uint32_t>(expected[(range.first_column + c) * kPanelRows + r]))
            << dtype_name(m.dtype) << ' ' << m.n_out << " × " << m.n_in << ", panel " << range.first_panel + p
            << ", column " << c << " of " << n_columns;
  }
}

TEST(PlaneWeight, RunsAndStepsChangeNoBit) {
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::q5_0, DType::iq2_xxs}) {
    for (const size_t n_in : {size_t{256}, kStepLen, 2 * kStepLen + 512}) {
      for (const size_t n_out : {size_t{16}, size_t{7 * 16 + 3}}) {
        const Matrix m = random_matrix(dtype, n_out, n_in);
        const size_t n_panels = m.weight->n_panels();
        for (const size_t n_columns : {1u, 3u, 4u, 5u, 40u})
          ASSERT_NO_FATAL_FAILURE(expect_same_bits(m, {0, n_panels, 0, n_columns}, n_columns));
        if (n_panels == 1) continue;
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(m, {3, 2, 0, 1}, 1)) << "across two runs";
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(m, {5, 3, 16, 24}, 40)) << "later columns";
      }
    }
  }
}

}  // namespace
}  // namespace tamis::cpu
