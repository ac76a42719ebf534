// A directory of a test's own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/result.h"

namespace tamis::test {

// A directory under the system's temporary one, removed with all it holds.
class TemporaryDir {
 public:
  TemporaryDir() {
    path_ = (std::filesystem::temp_directory_path() / "tamis-test-XXXXXX").string();
    TAMIS_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tamis::test
