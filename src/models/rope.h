// RoPE's frequencies with every scaling rule folded in, computed once at load: backends only multiply, turn and scale.
#pragma once

#include <span>
#include <vector>

#include "models/hyper.h"

namespace tamis {

struct RopeTable {
  std::vector<double> inv_freq;  // [rot_dim / 2], radians a position
  double magnitude = 1;          // multiplies cosine and sine
};

// factors: divide the frequencies (rope_freqs.weight, or LongRoPE's long or short list); [rot_dim / 2] or empty.
// Sources: linear: Chen et al. 2023, arXiv:2306.15595; YaRN: Peng et al. 2023, arXiv:2309.00071, §3.4; LongRoPE:
// arXiv:2402.13753; the magnitude as llama.cpp reads the keys (yarn_log_multiplier, attn_factor).
RopeTable rope_table(const RopeHyper& rope, double freq_base, bool is_scaled, std::span<const float> factors);

}  // namespace tamis
