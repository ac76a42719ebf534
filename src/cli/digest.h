// SHA-256 (what the hub publishes for large files) and SHA-1 (git's object ids, which it publishes for small ones), by
// libcrypto.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tamis::cli {

class Digest {
 public:
  enum class Kind { sha256, sha1 };
  explicit Digest(Kind kind);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  void update(std::string_view bytes);
  std::string hex();  // lower case; ends the digest

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Hash of a whole file, reporting progress. Errors: io; cancelled after Ctrl-C.
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace tamis::cli
