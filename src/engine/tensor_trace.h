// Every named intermediate of every step, written as .npy files of one directory: how two backends, layouts or versions
// are compared from the inside (tamis compare DIR_A DIR_B).
//
// Files: SSSS-NNNN-NAME.npy, step and place in the step counted from 0, so that names sort in the order of computation:
// "0000-0001-blk.0.attn_norm.npy", "0000-0000-embedding.npy".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compute/backend.h"

namespace tamis {

class TensorTrace {
 public:
  // Makes the directory `dir` if it is not there. Errors: io; invalid_argument when it holds anything.
  static Result<std::shared_ptr<TensorTrace>> create(const std::string& dir);

  // One value of the running step; a failure is kept for finish_step().
  void add(std::string_view name, int32_t layer_idx, TensorView value, Backend& backend);
  // Errors: io, the first of this step.
  Status finish_step();

 private:
  explicit TensorTrace(std::string dir) : dir_(std::move(dir)) {}
  Status write(std::string_view name, int32_t layer_idx, TensorView value, Backend& backend);

  std::string dir_;
  uint32_t step_idx_ = 0, n_values_ = 0;
  std::vector<float> values_;
  Status status_;
};

}  // namespace tamis
