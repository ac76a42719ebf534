// The model of the tile instructions that stands in for AMX: products by hand, its faults, and that the kernels meet
// none.
#include <gtest/gtest.h>
#include <stddef.h>
#include <stdint.h>

#include <string_view>
#include <vector>

#include "cpu/planes.h"
#include "tests/cpu/targets.h"

#define TAMIS_TARGET tile_test
#include "tests/cpu/emulated/amx_model.h"

namespace tamis::cpu {
namespace {

namespace model = tile_test;

int& tile_faults() { return test::tile_counts().n_faults; }

// 2 × 8 bytes times 8 × 3: C [2][3], A [2][8], B [2][3][4].
TileShapes small_shapes() {
  TileShapes shapes;
  shapes.rows[0] = shapes.rows[1] = shapes.rows[2] = 2;
  shapes.row_bytes[0] = shapes.row_bytes[2] = 12;
  shapes.row_bytes[1] = 8;
  return shapes;
}

class TileModel : public testing::Test {
 protected:
  void SetUp() override { tile_faults() = 0; }
  void TearDown() override { model::tile_release(); }
};

template <bool kIsUnsigned>
void expect_products(const int8_t (&a)[2][8], const uint8_t (&b)[2][3][4], const int32_t (&start)[2][3]) {
  int32_t c[2][3];
  model::tile_config(small_shapes());
  model::tile_load<0>(start, 12);
  model::tile_load<1>(a, 8);
  model::tile_load<2>(b, 12);
  model::tile_dot<0, 1, 2, kIsUnsigned>();
  model::tile_store<0>(c, 12);
  for (size_t m = 0; m < 2; ++m)
    for (size_t n = 0; n < 3; ++n) {
      int64_t expected = start[m][n];
      for (size_t k = 0; k < 8; ++k) {
        const uint8_t byte = b[k / 4][n][k % 4];
        expected += a[m][k] * (kIsUnsigned ? int{byte} : int{static_cast<int8_t>(byte)});
      }
      EXPECT_EQ(c[m][n], static_cast<int32_t>(static_cast<uint32_t>(expected))) << m << ' ' << n;
    }
}

TEST_F(TileModel, MultipliesSignedBySignedAndUnsigned) {
  const int8_t a[2][8] = {{1, -2, 3, -4, 5, -6, 7, -8}, {127, 127, 127, 127, -128, -128, -128, -128}};
  const uint8_t b[2][3][4] = {{{1, 1, 1, 1}, {255, 0, 128, 7}, {9, 8, 7, 6}},
                              {{0, 1, 0, 1}, {255, 255, 255, 255}, {1, 2, 3, 4}}};
  const int32_t start[2][3] = {{0, 100, -7}, {INT32_MAX, INT32_MIN, 0}};
  expect_products<false>(a, b, start);
  expect_products<true>(a, b, start);
  EXPECT_EQ(tile_faults(), 0);
}

TEST_F(TileModel, BadConfigurationsAreFaultsAndChangeNothing) {
  const auto faults_of = [](auto change) {
    TileShapes shapes = small_shapes();
    change(shapes);
    tile_faults() = 0;
    model::tile_release();
    model::tile_config(shapes);
    return tile_faults();
  };
  EXPECT_EQ(faults_of([](TileShapes&) {}), 0);
  EXPECT_EQ(faults_of([](TileShapes& s) { s.palette = 2; }), 1);
  EXPECT_EQ(faults_of([](TileShapes& s) { s.reserved[3] = 1; }), 1);
  EXPECT_EQ(faults_of([](TileShapes& s) { s.rows[1] = 17; }), 1);
  EXPECT_EQ(faults_of([](TileShapes& s) { s.row_bytes[1] = 65; }), 1);
  EXPECT_EQ(faults_of([](TileShapes& s) { s.rows[1] = 0; }), 1) << "rows without bytes";
  EXPECT_EQ(faults_of([](TileShapes& s) { s.row_bytes[7] = 4; }), 1);
  EXPECT_EQ(faults_of([](TileShapes& s) { s.rows[8] = s.row_bytes[8] = 4; }), 1) << "there are eight tiles";
  model::tile_zero<0>();
  EXPECT_EQ(tile_faults(), 2) << "after a refused configuration no tile is configured";
}

TEST_F(TileModel, InstructionsOnTilesThatDoNotFitAreFaults) {
  const auto faults_of = [](auto change) {
    TileShapes shapes = small_shapes();
    change(shapes);
    model::tile_config(shapes);
    tile_faults() = 0;
    model::tile_dot<0, 1, 2, true>();
    return tile_faults();
  };
  EXPECT_EQ(faults_of([](TileShapes&) {}), 0);
  EXPECT_EQ(faults_of([](TileShapes& s) { s.rows[0] = 3; }), 1) << "C and A have the same rows";
  EXPECT_EQ(faults_of([](TileShapes& s) { s.row_bytes[0] = 8; }), 1) << "C and B have the same columns";
  EXPECT_EQ(faults_of([](TileShapes& s) { s.rows[2] = 3; }), 1) << "A's columns are B's rows of four";
  EXPECT_EQ(faults_of([](TileShapes& s) { s.row_bytes[1] = 10; }), 1);
  model::tile_release();
  tile_faults() = 0;
  model::tile_dot<0, 1, 2, true>();
  EXPECT_GT(tile_faults(), 0);
}

TEST_F(TileModel, KernelsUseTilesWithoutFaults) {
  for (const KernelTable* target : test::tested_targets()) {
    for (int kind = 0; kind < kPlaneKinds; ++kind) {
      // Zeros are a matrix of every kind; 33 columns are two tiles and one left over.
      constexpr size_t kColumns = 33, kBlocks = 2, kLargest = 4096;
      const std::vector<uint8_t> planes(kBlocks * kLargest);
      std::vector<int8_t> acts(kColumns * kBlocks * kActs256Bytes);
      std::vector<float> acc(kColumns * kPanelRows);
      std::vector<uint8_t> panel(kPanelBytes + 64);
      PlanesTask task{};
      task.planes = planes.data();
      task.acts = acts.data();
      task.n_columns = kColumns;
      task.n_blocks = kBlocks;
      task.panel = panel.data() + (64 - reinterpret_cast<uintptr_t>(panel.data()) % 64) % 64;
      task.acc = acc.data();
      test::tile_counts() = {};
      target->multiply_panel[kind](task);
      EXPECT_EQ(tile_faults(), 0) << target->name << ' ' << kind;
      EXPECT_EQ(test::tile_counts().n_products > 0, std::string_view(target->name) == "amx_emulated") << kind;
    }
  }
}

}  // namespace
}  // namespace tamis::cpu
