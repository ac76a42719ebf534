// A constant number of threads for what a request needs before it is queued: JSON, template, tokenizer.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tamis::server {

class Workers {
 public:
  explicit Workers(size_t n_threads);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // `work` lets no exception out. After stop() it is dropped.
  void run(std::function<void()> work);
  void stop();  // waits for what runs, drops what waits

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<std::function<void()>> waiting_;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tamis::server
