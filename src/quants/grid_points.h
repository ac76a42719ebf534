// The nearest point of an IQ type's grid in weighted squared error, for sixteen targets at a time. The search is
// exhaustive: a point's error is the sum of the errors of its two halves, and few different halves exist (64 or 81),
// so that a point costs one addition a target.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tamis {

inline constexpr size_t kSuperBlock = 256;

// A grid in the order of the search: runs of points that share their first half.
struct PointTable {
  struct Run {
    uint16_t half;
    uint16_t begin, end;  // of seconds and ids
  };
  int dims = 0;      // coordinates of a point: 4 or 8
  int n_levels = 0;  // values a coordinate takes: 8 or 3
  float levels[8] = {};
  uint32_t id_mask = 0;  // bits that hold a point's index
  std::vector<Run> runs;
  std::vector<uint16_t> seconds;  // the second half of each point
  std::vector<uint32_t> ids;      // its index in the format's table
  std::vector<float> values;      // coordinates by index, dims a point

  const float* point(size_t index) const { return values.data() + index * static_cast<size_t>(dims); }
};

// Built from the format's tables (iq_grids.h) at their first use.
const PointTable& points_iq2_xxs();
const PointTable& points_iq2_xs();
const PointTable& points_iq2_s();
const PointTable& points_iq3_xxs();
const PointTable& points_iq3_s();
const PointTable& points_iq1();

// A super-block's values and weights, coordinate by coordinate: [coordinate][target], 256 / dims targets.
struct GridTargets {
  alignas(64) float values[kSuperBlock];
  alignas(64) float weights[kSuperBlock];
};

// What a search found for each target: the index, and its error with the low bits (id_mask) cut off.
struct NearestPoints {
  uint16_t index[64];
  float error[64];
};

// For each target t the point g that minimises sum over j of w_j (x_j - scales[t] (g_j + shift))^2, up to 2^-12 of that
// error.
void nearest_points(const PointTable& table, const GridTargets& targets, const float* scales, float shift,
                    NearestPoints& out);

}  // namespace tamis
