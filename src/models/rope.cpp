// Frequencies of pairs: base^(-2i/rot_dim), divided by factors, interpolated by the scaling rule.
#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tamis {
namespace {

// The pair whose wavelength makes `turns` full turns over the original context (arXiv:2309.00071, eq. 17, in pairs'
// elements / 2).
double pair_of_turns(const RopeHyper& rope, double freq_base, double turns) {
  return rope.rot_dim * std::log(rope.n_ctx_original / (turns * 2 * std::numbers::pi)) / (2 * std::log(freq_base));
}

// Of YaRN's attention temperature, in the form sqrt(1/t) = 0.1·m·ln(factor) + 1.
double yarn_magnitude(double factor, double multiplier) {
  return factor <= 1 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0;
}

}  // namespace

RopeTable rope_table(const RopeHyper& rope, double freq_base, bool is_scaled, std::span<const float> factors) {
  const uint32_t n_pairs = rope.rot_dim / 2;
  const bool is_yarn = is_scaled && rope.scaling == RopeScaling::yarn && rope.yarn_ext_factor > 0;
  const double divisor = is_scaled && rope.scaling != RopeScaling::none ? rope.factor : 1.0;
  const double low = std::max(0.0, std::floor(pair_of_turns(rope, freq_base, rope.yarn_beta_fast)));
  const double high = std::min(rope.rot_dim - 1.0, std::ceil(pair_of_turns(rope, freq_base, rope.yarn_beta_slow)));

  RopeTable table;
  table.inv_freq.resize(n_pairs);
  for (uint32_t i = 0; i < n_pairs; ++i) {
    double full = std::pow(freq_base, -2.0 * i / rope.rot_dim);
    if (!factors.empty()) full /= factors[i];
    const double interpolated = full / divisor;
    double mix = 0;  // share of the unscaled frequency
    if (is_yarn) {
      const double ramp = (i - low) / std::max(0.001, high - low);
      mix = (1.0 - std::clamp(ramp, 0.0, 1.0)) * rope.yarn_ext_factor;
    }
    table.inv_freq[i] = interpolated * (1.0 - mix) + full * mix;
  }
  if (is_yarn) {
    table.magnitude = yarn_magnitude(divisor, 1.0);
    if (rope.yarn_log_multiplier != 0) table.magnitude /= yarn_magnitude(divisor, rope.yarn_log_multiplier);
  }
  if (is_scaled) table.magnitude *= rope.attn_factor;
  return table;
}

}  // namespace tamis
