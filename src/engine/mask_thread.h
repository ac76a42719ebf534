// Masks of grammars made while the model computes the logits they are for: a thread beside the step thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/scheduler_sequence.h"

namespace tamis {

class MaskThread {
 public:
  MaskThread();
  ~MaskThread();
  MaskThread(const MaskThread&) = delete;
  MaskThread& operator=(const MaskThread&) = delete;

  // Begins to prepare the masks of `sequences`, which nobody else touches until wait(). Requires: wait() was called
  // after the last begin().
  void begin(std::vector<ScheduledSequence*> sequences);
  // Until all are there.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<ScheduledSequence*> sequences_;  // to prepare
  bool is_stopping_ = false;
  std::thread thread_;  // last: everything else is there when it starts
};

}  // namespace tamis
