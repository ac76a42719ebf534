// The worker threads.
#include "server/workers.h"

namespace tamis::server {

Workers::Workers(size_t n_threads) {
  for (size_t i = 0; i < n_threads; ++i) threads_.emplace_back([this] { loop(); });
}

void Workers::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    dropped.swap(waiting_);
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void Workers::run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (is_ending_) return;
    waiting_.push_back(std::move(work));
  }
  has_work_.notify_one();
}

void Workers::loop() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      has_work_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
      if (is_ending_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace tamis::server
