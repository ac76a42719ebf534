// What one step of a model must do at least, counted from its shapes: bytes of weights and keys it reads, and
// multiply-adds. The measure behind "GB/s" and "MAC/s" of tamis bench, and behind the predictions of tamis fit.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace tamis {

struct Work {
  double weight_bytes = 0;  // of matrices, as they lie in memory; each is read once a step
  double kv_bytes = 0;      // of keys and values that attention reads
  double macs = 0;          // multiply-adds of matrices and attention

  Work& operator+=(const Work& other);
};

// `n_seqs` sequences of `position` tokens each take `n_tokens` more; logits of `n_logits` tokens are wanted. A mixture
// is taken to use as many different experts as its tokens can choose.
struct Step {
  uint32_t n_seqs = 1, n_tokens = 1, position = 0, n_logits = 1;
};
Work work_of_step(const Engine& engine, const Step& step);

}  // namespace tamis
