// Who may ask: keys from a file, kept as hashes, compared in constant time; and a limit on wrong ones.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "server/http_request.h"

namespace tamis::server {

// Whose request it is. Both are "" where no key is needed.
struct KeyOwner {
  std::string name;  // for people: "key 1", "key 2", … in the file's order
  std::string id;    // of the key itself, wherever it stands: for what outlives a file of keys. 16 hexadecimal digits
};

class ApiKeys {
 public:
  ApiKeys() = default;  // no key is needed

  // One key a line; blank lines and lines that begin with # are passed over. Errors: io, not_found; format for a file
  // without a key, or a key that no header could carry.
  static Result<ApiKeys> read(const std::string& path);
  static Result<ApiKeys> parse(std::string_view text);

  bool empty() const { return hashes_.empty(); }
  size_t size() const { return hashes_.size(); }
  // Nothing for a wrong or absent key. Reads "Authorization: Bearer KEY" and "x-api-key: KEY". Takes as long for one
  // key as for another.
  std::optional<KeyOwner> owner(const RequestHead& head) const;

 private:
  using Hash = std::array<unsigned char, 32>;
  std::vector<Hash> hashes_;  // SHA-256
};

// Counts wrong keys by address (see network_of): more than `max_failures` in a minute, and the address is told to wait.
class FailureLimit {
 public:
  using Clock = std::chrono::steady_clock;
  explicit FailureLimit(uint32_t max_failures = 20) : max_failures_(max_failures) {}
  bool is_blocked(const std::string& address, Clock::time_point now) const;
  void on_failure(const std::string& address, Clock::time_point now);

 private:
  static constexpr size_t kMaxAddresses = 4096;  // remembered; when more fail, the oldest minute is forgotten
  struct Entry {
    Clock::time_point since;
    uint32_t n = 0;
  };
  uint32_t max_failures_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace tamis::server
