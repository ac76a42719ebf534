// Tables and kernel of the exhaustive search over grid points.
#include "quants/grid_points.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "quants/iq_grids.h"
#include "quants/lanes.h"

namespace tamis {
namespace {

// A level's number among the table's levels.
int level_of(const PointTable& table, float value) {
  return static_cast<int>(std::find(table.levels, table.levels + table.n_levels, value) - table.levels);
}

// Numbers a half by its levels, first coordinate highest.
uint16_t half_of(const PointTable& table, const float* coordinates) {
  int number = 0;
  for (int j = 0; j < table.dims / 2; ++j) number = number * table.n_levels + level_of(table, coordinates[j]);
  return static_cast<uint16_t>(number);
}

void take_levels(PointTable& table) {
  std::vector<float> sorted = table.values;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  table.n_levels = static_cast<int>(sorted.size());
  std::copy(sorted.begin(), sorted.end(), table.levels);
}

void order_points(PointTable& table, size_t n_points) {
  const int half_dims = table.dims / 2;
  struct Halves {
    uint16_t first, second;
    uint32_t id;
  };
  std::vector<Halves> all(n_points);
  for (size_t i = 0; i < n_points; ++i)
    all[i] = {half_of(table, table.point(i)), half_of(table, table.point(i) + half_dims), static_cast<uint32_t>(i)};
  std::stable_sort(all.begin(), all.end(), [](const Halves& a, const Halves& b) { return a.first < b.first; });
  for (const Halves& halves : all) {
    const auto place = static_cast<uint16_t>(table.ids.size());
    if (table.runs.empty() || table.runs.back().half != halves.first)
      table.runs.push_back({halves.first, place, place});
    table.runs.back().end = static_cast<uint16_t>(place + 1);
    table.seconds.push_back(halves.second);
    table.ids.push_back(halves.id);
  }
}

template <class Byte, class Point, size_t n>
PointTable make_table(const Point (&grid)[n]) {
  PointTable table;
  table.dims = sizeof(Point);
  table.id_mask = static_cast<uint32_t>(n - 1);
  for (const Point point : grid)
    for (int j = 0; j < table.dims; ++j)
      table.values.push_back(static_cast<float>(static_cast<Byte>(static_cast<uint8_t>(point >> (8 * j)))));
  take_levels(table);
  order_points(table, n);
  return table;
}

// costs[number] of a half: the sum of its coordinates' costs, built coordinate by coordinate. `coordinate_costs`:
// [coordinate][level].
template <int n_levels, int n_coordinates>
TAMIS_INLINE void half_costs(const Lanes* coordinate_costs, Lanes* costs) {
  int n = 1;
  costs[0] = Lanes{};
  for (int j = 0; j < n_coordinates; ++j) {
    for (int head = n - 1; head >= 0; --head) {
      const Lanes before = costs[head];
      for (int level = n_levels - 1; level >= 0; --level)
        costs[head * n_levels + level] = before + coordinate_costs[j * n_levels + level];
    }
    n *= n_levels;
  }
}

struct Batch {
  const float* values;  // of sixteen targets; coordinate j `stride` floats further
  const float* weights;
  size_t stride;
};

template <int n_levels, int n_coordinates>
TAMIS_INLINE void costs_of_half(const PointTable& table, const Batch& batch, int first, const Lanes& scale, float shift,
                                Lanes* costs) {
  Lanes of_levels[n_coordinates * n_levels];
  for (int j = 0; j < n_coordinates; ++j) {
    const Lanes value = load_lanes(batch.values + static_cast<size_t>(first + j) * batch.stride);
    const Lanes weight = load_lanes(batch.weights + static_cast<size_t>(first + j) * batch.stride);
    for (int level = 0; level < n_levels; ++level) {
      const Lanes error = value - scale * (table.levels[level] + shift);
      of_levels[j * n_levels + level] = weight * (error * error);
    }
  }
  half_costs<n_levels, n_coordinates>(of_levels, costs);
}

// A cost is >= 0, so its bits order as the number does; the point's index rides in the lowest ones.
template <int n_levels, int n_coordinates>
TAMIS_INLINE LaneBits cheapest_points(const PointTable& table, const Batch& batch, const Lanes& scale, float shift) {
  constexpr int kHalves = n_levels == 8 ? 64 : 81;
  Lanes first[kHalves], second[kHalves];
  costs_of_half<n_levels, n_coordinates>(table, batch, 0, scale, shift, first);
  costs_of_half<n_levels, n_coordinates>(table, batch, n_coordinates, scale, shift, second);
  const LaneBits keep = ~static_cast<int32_t>(table.id_mask);
  LaneBits best = 0x7f7fffff;
  for (const PointTable::Run& run : table.runs) {
    const Lanes head = first[run.half];
    for (size_t p = run.begin; p < run.end; ++p) {
      const Lanes cost = head + second[table.seconds[p]];
      const LaneBits tagged = (bits_of(cost) & keep) | static_cast<int32_t>(table.ids[p]);
      best = smaller(tagged, best);
    }
  }
  return best;
}

template <int n_levels, int n_coordinates>
TAMIS_INLINE void search_all(const PointTable& table, const GridTargets& targets, const float* scales, float shift,
                             NearestPoints& out) {
  constexpr size_t kTargets = kSuperBlock / (2 * n_coordinates);
  for (size_t t = 0; t < kTargets; t += kLanes) {
    const Batch batch{targets.values + t, targets.weights + t, kTargets};
    const LaneBits best = cheapest_points<n_levels, n_coordinates>(table, batch, load_lanes(scales + t), shift);
    for (size_t l = 0; l < kLanes; ++l) {
      const auto bits = static_cast<uint32_t>(best[l]);
      out.index[t + l] = static_cast<uint16_t>(bits & table.id_mask);
      out.error[t + l] = std::bit_cast<float>(bits & ~table.id_mask);
    }
  }
}

TAMIS_WIDE void search_four(const PointTable& table, const GridTargets& targets, const float* scales, float shift,
                            NearestPoints& out) {
  search_all<8, 2>(table, targets, scales, shift, out);
}

TAMIS_WIDE void search_eight(const PointTable& table, const GridTargets& targets, const float* scales, float shift,
                             NearestPoints& out) {
  search_all<3, 4>(table, targets, scales, shift, out);
}

}  // namespace

const PointTable& points_iq2_xxs() {
  static const PointTable table = make_table<uint8_t>(kGridIQ2XXS);
  return table;
}
const PointTable& points_iq2_xs() {
  static const PointTable table = make_table<uint8_t>(kGridIQ2XS);
  return table;
}
const PointTable& points_iq2_s() {
  static const PointTable table = make_table<uint8_t>(kGridIQ2S);
  return table;
}
const PointTable& points_iq3_xxs() {
  static const PointTable table = make_table<uint8_t>(kGridIQ3XXS);
  return table;
}
const PointTable& points_iq3_s() {
  static const PointTable table = make_table<uint8_t>(kGridIQ3S);
  return table;
}
const PointTable& points_iq1() {
  static const PointTable table = make_table<int8_t>(kGridIQ1);
  return table;
}

void nearest_points(const PointTable& table, const GridTargets& targets, const float* scales, float shift,
                    NearestPoints& out) {
  if (table.dims == 4) {
    search_four(table, targets, scales, shift, out);
  } else {
    search_eight(table, targets, scales, shift, out);
  }
}

}  // namespace tamis
