// A disk that is full, for tests.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace tamis::test {

// No file may become longer than so many bytes while this lives.
class FullDisk {
 public:
  explicit FullDisk(rlim_t n_bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{n_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

}  // namespace tamis::test
