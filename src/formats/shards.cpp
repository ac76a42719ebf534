// Parsing and making the names of shards.
#include "formats/shards.h"

#include <fmt/core.h>

namespace tamis {
namespace {

constexpr size_t kDigits = 5;
constexpr std::string_view kOf = "-of-", kSuffix = ".gguf";

std::optional<uint32_t> number(std::string_view digits) {
  uint32_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  return value;
}

}  // namespace

std::optional<ShardName> parse_shard_name(std::string_view path) {
  constexpr size_t tail_bytes = 1 + kDigits + kOf.size() + kDigits + kSuffix.size();
  if (path.size() <= tail_bytes || !path.ends_with(kSuffix)) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - tail_bytes);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto no = number(tail.substr(1, kDigits));
  const auto count = number(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (!no || !count || *no < 1 || *no > *count) return std::nullopt;
  return ShardName{std::string(path.substr(0, path.size() - tail_bytes)), *no - 1, *count};
}

std::string shard_path(std::string_view prefix, uint32_t idx, uint32_t n_shards) {
  return fmt::format("{}-{:05}-of-{:05}{}", prefix, idx + 1, n_shards, kSuffix);
}

}  // namespace tamis
