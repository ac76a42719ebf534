// Files of tests, whole.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace tamis::test {

inline std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace tamis::test
