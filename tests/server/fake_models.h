// Models for a shelf whose loads a test holds, fails, or makes as large as it likes. What they load is a tiny model.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "server/model_shelf.h"
#include "tests/engine/tiny_model.h"

namespace tamis::test {

struct FakeModel {
  explicit FakeModel(std::string model_name, uint64_t size = 1, TinyModel model = {})
      : name(std::move(model_name)), n_bytes(size), tiny(std::move(model)) {}

  const std::string name;
  std::atomic<uint64_t> n_bytes;
  const TinyModel tiny;
  enum class Fault : uint8_t { none, broken_header, broken_file, no_memory };
  std::atomic<Fault> fault{Fault::none};
  std::atomic<bool> is_held{false};  // loads wait until it is false
  std::atomic<int> n_measured{0}, n_begun{0}, n_loaded{0};
  SchedulerOptions scheduling;

  void let_go() {
    is_held = false;
    is_held.notify_all();
  }
};

// A source that does what `fake` says at the time, which outlives it.
server::ModelSource source_of(FakeModel& fake);

}  // namespace tamis::test
