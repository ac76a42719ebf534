// Sources: proc(5) (meminfo, status), cgroups v1 memory.limit_in_bytes, v2 memory.max; both at this process's group and
// its ancestors.
#include "base/memory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/ascii.h"
#include "base/file.h"

namespace tamis {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 20;

std::string text_of(const std::string& path) {
  auto text = read_text_file(path, kMaxTextBytes);
  return text ? *std::move(text) : std::string();
}

// The first number in `text`; nothing when it begins with another word ("max").
std::optional<uint64_t> leading_number(std::string_view text) {
  text = trimmed(text);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

uint64_t physical_bytes(const std::string& root) {
  const std::string text = text_of(root + "/proc/meminfo");
  const size_t at = text.find("MemTotal:");
  if (at == std::string::npos) return 0;
  return leading_number(std::string_view(text).substr(at + 9)).value_or(0) * 1024;
}

}  // namespace

uint64_t resident_memory_bytes(const std::string& root) {
  const std::string text = text_of(root + "/proc/self/status");
  const size_t at = text.find("VmRSS:");
  return at == std::string::npos ? 0 : leading_number(std::string_view(text).substr(at + 6)).value_or(0) * 1024;
}

uint64_t usable_memory_bytes(const std::string& root) {
  uint64_t bytes = physical_bytes(root);
  const std::string groups = text_of(root + "/proc/self/cgroup");
  for (size_t begin = 0; begin < groups.size();) {  // lines "ID:CONTROLLERS:PATH"
    const size_t end = std::min(groups.find('\n', begin), groups.size());
    const std::string_view line = std::string_view(groups).substr(begin, end - begin);
    begin = end + 1;
    const size_t colon = line.find(':'), second = line.find(':', colon + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(colon + 1, second - colon - 1);
    const bool is_v2 = controllers.empty();
    if (!is_v2 && controllers != "memory") continue;
    const std::string mount = root + (is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    std::string path(line.substr(second + 1));
    for (int depth = 0; depth < 64; ++depth) {
      const std::string file = mount + path + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes");
      if (const auto limit = leading_number(text_of(file)); limit && (bytes == 0 || *limit < bytes)) bytes = *limit;
      if (path.empty() || path == "/") break;
      const size_t slash = path.find_last_of('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
  }
  return bytes;
}

}  // namespace tamis
