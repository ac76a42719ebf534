// The ranges of the sampling parameters, as data.
#include "engine/sampling_params.h"

#include <cmath>
#include <limits>

namespace tamis {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  const char* name;
  double value;
  double low, high;
  bool is_low_allowed;
};

Status check(const Range& range) {
  const bool is_above = range.is_low_allowed ? range.value >= range.low : range.value > range.low;
  if (std::isfinite(range.value) && is_above && range.value <= range.high) return {};
  if (range.high == kInfinity)
    return fail(ErrorCode::invalid_argument, "{}: got {}, expected a number {} {}", range.name, range.value,
                range.is_low_allowed ? "≥" : ">", range.low);
  return fail(ErrorCode::invalid_argument, "{}: got {}, expected {} … {}", range.name, range.value, range.low,
              range.high);
}

}  // namespace

Status SamplingParams::validate(size_t n_vocab) const {
  constexpr double kMaxInt = std::numeric_limits<int32_t>::max();
  const Range ranges[] = {
      {"temp", temp, 0, kInfinity, true},
      {"top_p", top_p, 0, 1, true},
      {"min_p", min_p, 0, 1, true},
      {"typical_p", typical_p, 0, 1, true},
      {"xtc_probability", xtc_probability, 0, 1, true},
      {"xtc_threshold", xtc_threshold, 0, 1, true},
      {"min_keep", static_cast<double>(min_keep), 1, kMaxInt, true},
      {"repeat_last_n", static_cast<double>(repeat_last_n), -1, kMaxInt, true},
      {"repeat_penalty", repeat_penalty, 0, kInfinity, false},
      {"frequency_penalty", std::fabs(frequency_penalty), 0, kInfinity, true},
      {"presence_penalty", std::fabs(presence_penalty), 0, kInfinity, true},
      {"dry_multiplier", dry_multiplier, 0, kInfinity, true},
      {"dry_base", dry_base, 1, kInfinity, true},
      {"dry_allowed_length", static_cast<double>(dry_allowed_length), 0, kMaxInt, true},
      {"dry_penalty_last_n", static_cast<double>(dry_penalty_last_n), -1, kMaxInt, true},
      {"mirostat", static_cast<double>(mirostat), 0, 2, true},
      {"mirostat_lr", mirostat_lr, 0, kInfinity, false},
      {"mirostat_ent", mirostat_ent, 0, kInfinity, false},
  };
  for (const Range& range : ranges) TAMIS_TRY_STATUS(check(range));
  for (const LogitBias& bias : logit_bias) {
    if (bias.id < 0 || static_cast<size_t>(bias.id) >= n_vocab)
      return fail(ErrorCode::invalid_argument, "logit_bias: token {} is outside the vocabulary of {}", bias.id,
                  n_vocab);
    if (std::isnan(bias.bias) || bias.bias == static_cast<float>(kInfinity))
      return fail(ErrorCode::invalid_argument, "logit_bias: token {}: got {}, expected a number or -inf", bias.id,
                  bias.bias);
  }
  return {};
}

}  // namespace tamis
