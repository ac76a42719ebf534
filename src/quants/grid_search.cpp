// Search of a super-block of the grid types; how it goes: grid_search.h.
#include "quants/grid_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/float16.h"
#include "quants/lanes.h"

namespace tamis {
namespace {

constexpr size_t kMaxGroups = 16;
constexpr size_t kMaxSearches = 20;
constexpr size_t kMaxTargets = 64;
constexpr size_t kEights = kSuperBlock / 8;
constexpr size_t kFlipGuesses = 3;
constexpr uint8_t kNoFlip = 8;
constexpr float kShift = 0.125f;
constexpr float kLargestF16 = 65504.0f;

struct Problem {
  const GridFormat& format;
  const PointTable& table;
  size_t n_groups, n_targets, group_targets, dims;
  // Magnitudes where the format has signs; negative where parity wants another sign than the value's.
  alignas(64) float values[kSuperBlock];
  alignas(64) float weights[kSuperBlock];
  alignas(64) float weighted[kSuperBlock];  // weight · value
  GridTargets targets;
  uint8_t signs[kEights];
  uint8_t flipped[kEights];  // which of the eight has another sign than its value; kNoFlip: none
  uint8_t guesses[kEights][kFlipGuesses];
  float energy;           // Σ w x²
  float rms[kMaxGroups];  // weighted
  // What each search fixed for each group: the error at scale s is Σ w x² − 2 s xg + s² gg.
  size_t n_searches;
  float xg[kMaxGroups][kMaxSearches];  // Σ w x g
  float gg[kMaxGroups][kMaxSearches];  // Σ w g²
  uint16_t index[kMaxSearches][kMaxTargets];
  bool is_minus[kMaxSearches][kMaxTargets];
};

struct Choice {
  float step = 0;
  uint8_t codes[kMaxGroups] = {};
  uint8_t searches[kMaxGroups] = {};
  float gain = 0;        // Σ w x² − error
  float xy = 0, yy = 0;  // Σ w x y and Σ w y², y decoded at step 1
};

// The kFlipGuesses of eight values whose signs are cheapest to lose, cheapest first.
void cheapest_signs(const float* values, const float* weights, uint8_t* out) {
  float costs[8];
  for (size_t j = 0; j < 8; ++j) costs[j] = weights[j] * (values[j] * values[j]);
  for (size_t guess = 0; guess < kFlipGuesses; ++guess) {
    const size_t best = static_cast<size_t>(std::min_element(costs, costs + 8) - costs);
    out[guess] = static_cast<uint8_t>(best);
    costs[best] = std::numeric_limits<float>::max();
  }
}

// Splits off the signs. Where their number must be even and is not, the cheapest one is flipped.
void split_signs(Problem& problem) {
  for (size_t eight = 0; eight < kEights; ++eight) {
    float* values = problem.values + 8 * eight;
    uint32_t signs = 0;
    problem.flipped[eight] = kNoFlip;
    if (problem.format.signs != GridSigns::none)
      for (uint32_t j = 0; j < 8; ++j) {
        signs |= static_cast<uint32_t>(values[j] < 0) << j;
        values[j] = std::fabs(values[j]);
      }
    if (problem.format.signs == GridSigns::even && std::popcount(signs) % 2 != 0) {
      cheapest_signs(values, problem.weights + 8 * eight, problem.guesses[eight]);
      const uint8_t flip = problem.guesses[eight][0];
      problem.flipped[eight] = flip;
      signs ^= 1u << flip;
      values[flip] = -values[flip];
    }
    problem.signs[eight] = static_cast<uint8_t>(signs);
  }
}

void set_targets(const Problem& problem, const float* values, GridTargets& targets) {
  for (size_t t = 0; t < problem.n_targets; ++t)
    for (size_t j = 0; j < problem.dims; ++j) {
      targets.values[j * problem.n_targets + t] = values[t * problem.dims + j];
      targets.weights[j * problem.n_targets + t] = problem.weights[t * problem.dims + j];
    }
}

void measure(Problem& problem) {
  const size_t len = problem.format.group_len;
  problem.energy = 0;
  for (size_t i = 0; i < kSuperBlock; ++i) problem.weighted[i] = problem.weights[i] * problem.values[i];
  for (size_t g = 0; g < problem.n_groups; ++g) {
    float energy = 0, weight = 0;
    for (size_t i = g * len; i < (g + 1) * len; ++i) {
      energy += problem.weighted[i] * problem.values[i];
      weight += problem.weights[i];
    }
    problem.rms[g] = weight > 0 ? std::sqrt(energy / weight) : 0.0f;
    problem.energy += energy;
  }
}

// Coordinates of the point that a search gave target t, shift included.
void point_values(const Problem& problem, size_t search, size_t t, float* out) {
  std::memcpy(out, problem.table.point(problem.index[search][t]), problem.dims * sizeof(float));
  if (problem.format.shift == GridShift::none) return;
  const float shift = problem.is_minus[search][t] ? -kShift : kShift;
  for (size_t j = 0; j < problem.dims; ++j) out[j] += shift;
}

TAMIS_WIDE void sum_parabola(const float* weighted, const float* weights, const float* points, size_t len, float* xg,
                             float* gg) {
  Lanes cross{}, square{};
  for (size_t i = 0; i < len; i += kLanes) {
    const Lanes point = load_lanes(points + i);
    cross += load_lanes(weighted + i) * point;
    square += load_lanes(weights + i) * (point * point);
  }
  *xg = sum_of_lanes(cross);
  *gg = sum_of_lanes(square);
}

void add_parabolas(Problem& problem, size_t search) {
  alignas(64) float points[kSuperBlock];
  for (size_t t = 0; t < problem.n_targets; ++t) point_values(problem, search, t, points + t * problem.dims);
  const size_t len = problem.format.group_len;
  for (size_t g = 0; g < problem.n_groups; ++g)
    sum_parabola(problem.weighted + g * len, problem.weights + g * len, points + g * len, len, &problem.xg[g][search],
                 &problem.gg[g][search]);
}

void choose_shifts(Problem& problem, const NearestPoints& plus, const NearestPoints& minus, size_t search) {
  const size_t together = problem.format.shift == GridShift::group ? problem.group_targets : 1;
  for (size_t first = 0; first < problem.n_targets; first += together) {
    float gain = 0;
    for (size_t t = first; t < first + together; ++t) gain += plus.error[t] - minus.error[t];
    for (size_t t = first; t < first + together; ++t) {
      problem.is_minus[search][t] = gain > 0;
      problem.index[search][t] = gain > 0 ? minus.index[t] : plus.index[t];
    }
  }
}

void spread_scales(const Problem& problem, const float* group_scales, float* scales) {
  for (size_t t = 0; t < problem.n_targets; ++t) scales[t] = group_scales[t / problem.group_targets];
}

// Searches every group at its scale and keeps what it found.
void search_at(Problem& problem, const float* group_scales) {
  const size_t search = problem.n_searches++;
  alignas(64) float scales[kMaxTargets];
  spread_scales(problem, group_scales, scales);
  NearestPoints plus, minus;
  if (problem.format.shift == GridShift::none) {
    nearest_points(problem.table, problem.targets, scales, 0, plus);
    std::copy(plus.index, plus.index + problem.n_targets, problem.index[search]);
  } else {
    nearest_points(problem.table, problem.targets, scales, kShift, plus);
    nearest_points(problem.table, problem.targets, scales, -kShift, minus);
    choose_shifts(problem, plus, minus, search);
  }
  add_parabolas(problem, search);
}

// The scale at which a group's error is least, whatever the search.
float ideal_scale(const Problem& problem, size_t group) {
  float best = 0, scale = 0;
  for (size_t k = 0; k < problem.n_searches; ++k) {
    const float xg = problem.xg[group][k], gg = problem.gg[group][k];
    if (!(gg > 0) || !(xg > 0) || !(xg / gg * xg > best)) continue;
    best = xg / gg * xg;
    scale = xg / gg;
  }
  return scale;
}

// The gain of the best codes and searches at each of sixteen steps > 0.
TAMIS_WIDE void gains_of_steps(const Problem& problem, const float* ideal, const float* steps, float* gains) {
  const Lanes step = load_lanes(steps);
  const float top = static_cast<float>(problem.format.max_code);
  Lanes total{};
  for (size_t g = 0; g < problem.n_groups; ++g) {
    const Lanes middle = nearest_integer(clamped(ideal[g] / step * 0.5f - 0.5f, 0.0f, top));
    Lanes best = -0x1p126f;
    for (int offset = -1; offset <= 1; ++offset) {
      const Lanes code = clamped(middle + static_cast<float>(offset), 0.0f, top);
      const Lanes scale = step * (2.0f * code + 1.0f);
      for (size_t k = 0; k < problem.n_searches; ++k)
        best = larger(scale * (2.0f * problem.xg[g][k] - scale * problem.gg[g][k]), best);
    }
    total += best;
  }
  store_lanes(total, gains);
}

Choice choose_codes(const Problem& problem, const float* ideal, float step) {
  Choice out;
  out.step = step;
  const int top = problem.format.max_code;
  for (size_t g = 0; g < problem.n_groups; ++g) {
    const float position = step > 0 ? ideal[g] / step * 0.5f - 0.5f : 0.0f;
    const int middle = static_cast<int>(std::clamp(position, 0.0f, static_cast<float>(top)) + 0.5f);
    float best = -0x1p126f, xy = 0, yy = 0;
    for (int code = std::max(middle - 1, 0); code <= std::min(middle + 1, top); ++code) {
      const float odd = static_cast<float>(2 * code + 1);
      for (size_t k = 0; k < problem.n_searches; ++k) {
        const float xg = odd * problem.xg[g][k], gg = odd * odd * problem.gg[g][k];
        const float gain = step * (2.0f * xg - step * gg);
        if (gain <= best) continue;
        best = gain;
        xy = xg;
        yy = gg;
        out.codes[g] = static_cast<uint8_t>(code);
        out.searches[g] = static_cast<uint8_t>(k);
      }
    }
    out.gain += best;
    out.xy += xy;
    out.yy += yy;
  }
  return out;
}

// The best of sixteen steps from `low` to `high`.
float best_step(const Problem& problem, const float* ideal, float low, float high) {
  float steps[kLanes], gains[kLanes];
  for (size_t l = 0; l < kLanes; ++l) steps[l] = low + (high - low) * (static_cast<float>(l) / (kLanes - 1));
  gains_of_steps(problem, ideal, steps, gains);
  return steps[std::max_element(gains, gains + kLanes) - gains];
}

// Step and codes of all groups from the parabolas. `around`: a step near the best, or 0 when none is known.
Choice choose_all(const Problem& problem, float around) {
  float ideal[kMaxGroups] = {};
  for (size_t g = 0; g < problem.n_groups; ++g) ideal[g] = ideal_scale(problem, g);
  const float top = *std::max_element(ideal, ideal + problem.n_groups);
  const float smallest = top / static_cast<float>(2 * problem.format.max_code + 1);
  if (!(smallest > 0)) return {};
  // Below `smallest` the largest group has no code of its own; far above it the others lose theirs.
  float step = around > 0 ? around : best_step(problem, ideal, smallest * 0.85f, smallest * 1.75f);
  step = best_step(problem, ideal, step * 0.97f, step * 1.03f);
  Choice choice = choose_codes(problem, ideal, step);
  for (int i = 0; i < 2 && choice.yy > 0 && choice.xy > 0; ++i) {
    const Choice refit = choose_codes(problem, ideal, choice.xy / choice.yy);
    if (!(refit.gain > choice.gain)) break;
    choice = refit;
  }
  const float largest_step = kLargestF16 / problem.format.unit;
  return choice.step <= largest_step ? choice : choose_codes(problem, ideal, largest_step);
}

void scales_of(const Problem& problem, const Choice& choice, float* scales) {
  for (size_t g = 0; g < problem.n_groups; ++g) scales[g] = choice.step * static_cast<float>(2 * choice.codes[g] + 1);
}

// Weighted error of eight values at a scale, with the points of a search.
float error_of_eight(const Problem& problem, const float* values, size_t eight, size_t search, float scale) {
  float points[8], error = 0;
  for (size_t t = 0; t < 8 / problem.dims; ++t)
    point_values(problem, search, eight * (8 / problem.dims) + t, points + t * problem.dims);
  for (size_t j = 0; j < 8; ++j) {
    const float miss = values[j] - scale * points[j];
    error += problem.weights[8 * eight + j] * (miss * miss);
  }
  return error;
}

// Another guess of the signs to flip for parity.
struct OtherFlips {
  alignas(64) float values[kSuperBlock];
  NearestPoints found;
};

void search_other_flips(const Problem& problem, const float* group_scales, size_t guess, OtherFlips& others) {
  std::copy(problem.values, problem.values + kSuperBlock, others.values);
  for (size_t eight = 0; eight < kEights; ++eight) {
    const uint8_t flipped = problem.flipped[eight];
    float* values = others.values + 8 * eight;
    if (flipped == kNoFlip) continue;
    values[flipped] = -values[flipped];
    values[problem.guesses[eight][guess]] = -values[problem.guesses[eight][guess]];
  }
  GridTargets targets;
  set_targets(problem, others.values, targets);
  alignas(64) float scales[kMaxTargets];
  spread_scales(problem, group_scales, scales);
  nearest_points(problem.table, targets, scales, 0, others.found);
}

// Which sign to flip was guessed before any point was known. Here another guess is searched at the scales chosen, and
// taken where it is better.
void flip_others(Problem& problem, Choice& choice, size_t guess) {
  float scales[kMaxGroups];
  scales_of(problem, choice, scales);
  OtherFlips others;
  search_other_flips(problem, scales, guess, others);
  const size_t merged = problem.n_searches++;
  const size_t other = problem.n_searches;  // a place to judge it, not kept
  const size_t per_eight = 8 / problem.dims;
  for (size_t eight = 0; eight < kEights; ++eight) {
    const size_t first = eight * per_eight, group = 8 * eight / problem.format.group_len;
    const uint16_t* now = problem.index[choice.searches[group]];
    std::copy(now + first, now + first + per_eight, problem.index[merged] + first);
    const uint8_t flipped = problem.flipped[eight];
    if (flipped == kNoFlip) continue;
    const uint16_t* found = others.found.index + first;
    std::copy(found, found + per_eight, problem.index[other] + first);
    if (!(error_of_eight(problem, others.values + 8 * eight, eight, other, scales[group]) <
          error_of_eight(problem, problem.values + 8 * eight, eight, merged, scales[group])))
      continue;
    std::copy(others.values + 8 * eight, others.values + 8 * eight + 8, problem.values + 8 * eight);
    problem.flipped[eight] = problem.guesses[eight][guess];
    problem.signs[eight] =
        static_cast<uint8_t>(problem.signs[eight] ^ (1u << flipped) ^ (1u << problem.flipped[eight]));
    std::copy(found, found + per_eight, problem.index[merged] + first);
  }
  measure(problem);
  add_parabolas(problem, merged);
  std::fill(choice.searches, choice.searches + problem.n_groups, static_cast<uint8_t>(merged));
}

// The codes as they are stored, the step `unbias` of the way from the one of least error to the unbiased one.
GridCodes finish(const Problem& problem, const Choice& choice, float unbias) {
  const GridFormat& format = problem.format;
  GridCodes out{};
  float xy = 0, yy = 0;
  for (size_t g = 0; g < problem.n_groups; ++g) {
    const float odd = static_cast<float>(2 * choice.codes[g] + 1);
    xy += odd * problem.xg[g][choice.searches[g]];
    yy += odd * odd * problem.gg[g][choice.searches[g]];
    out.codes[g] = choice.codes[g];
  }
  std::copy(problem.signs, problem.signs + kEights, out.signs);
  for (size_t t = 0; t < problem.n_targets; ++t) {
    const size_t search = choice.searches[t / problem.group_targets];
    out.index[t] = problem.index[search][t];
    if (format.shift != GridShift::none) out.is_minus[t] = problem.is_minus[search][t] ? 1 : 0;
  }
  float step = 0;
  if (choice.step > 0 && xy > 0) step = xy / yy + unbias * (problem.energy / xy - xy / yy);
  out.d = f32_to_f16(std::min(step * format.unit, kLargestF16));
  const float stored = f16_to_f32(out.d) / format.unit;
  out.error = problem.energy - stored * (2.0f * xy - stored * yy);
  return out;
}

TAMIS_WIDE void take_values(Problem& problem, const float* values, const float* importance, size_t n) {
  const GridFormat& format = problem.format;
  searchable(values, n, problem.values);
  const float sigma2 = mean_square(problem.values, n);
  value_weights(problem.values, importance, n, sigma2, format.rule, problem.weights);
  fill_unseen_groups(problem.weights, n, format.group_len);
}

void set_up(Problem& problem) {
  const GridFormat& format = problem.format;
  problem.dims = static_cast<size_t>(problem.table.dims);
  problem.n_targets = kSuperBlock / problem.dims;
  problem.n_groups = kSuperBlock / format.group_len;
  problem.group_targets = problem.n_targets / problem.n_groups;
  problem.n_searches = 0;
  split_signs(problem);
  set_targets(problem, problem.values, problem.targets);
  measure(problem);
}

void search_multiple(Problem& problem, float multiple) {
  float scales[kMaxGroups];
  for (size_t g = 0; g < problem.n_groups; ++g) scales[g] = multiple * problem.rms[g];
  search_at(problem, scales);
}

Choice search_chosen(Problem& problem, const Choice& choice) {
  float scales[kMaxGroups];
  scales_of(problem, choice, scales);
  search_at(problem, scales);
  return choose_all(problem, choice.step);
}

}  // namespace

GridCodes search_super_block(const GridFormat& format, const float* values, const float* importance) {
  Problem problem{.format = format, .table = format.points()};
  take_values(problem, values, importance, kSuperBlock);
  set_up(problem);
  float multiple = format.lowest;
  for (int trial = 0; trial < format.n_trials; ++trial, multiple *= format.ratio) search_multiple(problem, multiple);
  Choice choice = search_chosen(problem, choose_all(problem, 0));
  if (format.signs == GridSigns::even)
    for (size_t guess = 1; guess < kFlipGuesses; ++guess) flip_others(problem, choice, guess);
  return finish(problem, choice, format.unbias);
}

GridCodes plain_super_block(const GridFormat& format, const float* values) {
  GridFormat even = format;
  even.rule.without = NoImportance::even;
  Problem problem{.format = even, .table = format.points()};
  take_values(problem, values, nullptr, kSuperBlock);
  set_up(problem);
  float multiple = format.lowest;
  for (int trial = 0; trial < format.n_trials / 3; ++trial) multiple *= format.ratio;
  search_multiple(problem, multiple);
  return finish(problem, search_chosen(problem, choose_all(problem, 0)), 0);
}

}  // namespace tamis
