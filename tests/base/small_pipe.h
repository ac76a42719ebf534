// A pipe that is full soon, for who must not wait for its reader.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace tamis::test {

// A pipe of one page, which nobody reads but when told to.
class SmallPipe {
 public:
  SmallPipe() {
    EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0);
    EXPECT_GE(::fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
  }
  ~SmallPipe() {
    for (const int end : ends_) ::close(end);
  }
  SmallPipe(const SmallPipe&) = delete;
  SmallPipe& operator=(const SmallPipe&) = delete;

  int in() const { return ends_[1]; }
  // Waits until there are as many lines, and no more.
  std::vector<std::string> read(size_t n_lines) {
    std::array<char, 4096> chunk;
    while (static_cast<size_t>(std::ranges::count(text_, '\n')) < n_lines) {
      const ssize_t n = ::read(ends_[0], chunk.data(), chunk.size());
      if (n <= 0) break;
      text_.append(chunk.data(), static_cast<size_t>(n));
    }
    std::vector<std::string> lines;
    for (size_t i = 0; i < text_.size();) {
      const size_t end = std::min(text_.find('\n', i), text_.size());
      lines.push_back(text_.substr(i, end - i));
      i = end + 1;
    }
    return lines;
  }

 private:
  std::array<int, 2> ends_{};
  std::string text_;
};

}  // namespace tamis::test
