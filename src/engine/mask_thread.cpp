// The thread that makes masks.
#include "engine/mask_thread.h"

namespace tamis {

MaskThread::MaskThread() : thread_([this] { run(); }) {}

MaskThread::~MaskThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void MaskThread::begin(std::vector<ScheduledSequence*> sequences) {
  if (sequences.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    sequences_ = std::move(sequences);
  }
  wake_.notify_all();
}

void MaskThread::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return sequences_.empty(); });
}

void MaskThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return is_stopping_ || !sequences_.empty(); });
    if (sequences_.empty()) return;
    lock.unlock();
    for (ScheduledSequence* const sequence : sequences_) sequence->prepare_mask();
    lock.lock();
    sequences_.clear();
    done_.notify_all();
  }
}

}  // namespace tamis
