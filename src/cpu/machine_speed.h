// How fast this machine reads memory and multiplies bytes, measured here and now: the roof that tamis bench compares
// with and tamis fit predicts from.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/thread_pool.h"

namespace tamis {

struct MachineSpeed {
  double read_bytes_per_s = 0;  // all threads together, a plain loop over memory far past the caches
  double int8_macs_per_s = 0;   // all threads together, multiply-adds of bytes in the nearest cache
};

// Measures in short passes, so that it can be repeated between tests: clocks and neighbours change. Its memory (256
// MiB) is held during a measurement only.
class MachineMeter {
 public:
  // `target`: as for make_cpu_backend; `pool` outlives the meter. Errors: invalid_argument (target).
  static Result<MachineMeter> create(ThreadPool* pool, std::string_view target);
  MachineMeter(MachineMeter&&) noexcept;
  ~MachineMeter();

  // The best of a few passes, about 0.2 s in all. Errors: out_of_memory.
  Result<MachineSpeed> measure();

 private:
  struct State;
  explicit MachineMeter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tamis
