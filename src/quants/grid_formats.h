// How each IQ type enters the search of grid_search.h. The ranges of scales are those of the best scales of tiny-kjv's
// matrices, all but a few in a thousand; more trials gain less than 0.3 %.
#pragma once

#include "quants/grid_search.h"

namespace tamis {

inline constexpr WeightRule kGridRule{WeightExponent::quarter, NoImportance::mean_plus_magnitude};

inline constexpr GridFormat kFormatIQ1S{.points = points_iq1,
                                        .group_len = 32,
                                        .max_code = 7,
                                        .unit = 1,
                                        .signs = GridSigns::none,
                                        .shift = GridShift::group,
                                        .rule = kGridRule,
                                        .lowest = 0.95f,
                                        .ratio = 1.214f,
                                        .n_trials = 4};
inline constexpr GridFormat kFormatIQ1M{.points = points_iq1,
                                        .group_len = 16,
                                        .max_code = 7,
                                        .unit = 1,
                                        .signs = GridSigns::none,
                                        .shift = GridShift::point,
                                        .rule = kGridRule,
                                        .lowest = 0.90f,
                                        .ratio = 1.326f,
                                        .n_trials = 4};
inline constexpr GridFormat kFormatIQ2XXS{.points = points_iq2_xxs,
                                          .group_len = 32,
                                          .max_code = 15,
                                          .unit = 8,
                                          .signs = GridSigns::even,
                                          .shift = GridShift::none,
                                          .rule = kGridRule,
                                          .lowest = 0.030f,
                                          .ratio = 1.104f,
                                          .n_trials = 8};
inline constexpr GridFormat kFormatIQ2XS{.points = points_iq2_xs,
                                         .group_len = 16,
                                         .max_code = 15,
                                         .unit = 8,
                                         .signs = GridSigns::even,
                                         .shift = GridShift::none,
                                         .rule = kGridRule,
                                         .lowest = 0.026f,
                                         .ratio = 1.132f,
                                         .n_trials = 8};
inline constexpr GridFormat kFormatIQ2S{.points = points_iq2_s,
                                        .group_len = 16,
                                        .max_code = 15,
                                        .unit = 8,
                                        .signs = GridSigns::any,
                                        .shift = GridShift::none,
                                        .rule = kGridRule,
                                        .lowest = 0.028f,
                                        .ratio = 1.125f,
                                        .n_trials = 8};
inline constexpr GridFormat kFormatIQ3XXS{.points = points_iq3_xxs,
                                          .group_len = 32,
                                          .max_code = 15,
                                          .unit = 4,
                                          .signs = GridSigns::even,
                                          .shift = GridShift::none,
                                          .rule = kGridRule,
                                          .lowest = 0.0245f,
                                          .ratio = 1.085f,
                                          .n_trials = 12};
inline constexpr GridFormat kFormatIQ3S{.points = points_iq3_s,
                                        .group_len = 32,
                                        .max_code = 15,
                                        .unit = 1,
                                        .signs = GridSigns::any,
                                        .shift = GridShift::none,
                                        .rule = kGridRule,
                                        .lowest = 0.105f,
                                        .ratio = 1.074f,
                                        .n_trials = 12};

}  // namespace tamis
