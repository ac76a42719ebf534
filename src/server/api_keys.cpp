// Keys, hashed by libcrypto's SHA-256.
#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <span>

#include "base/ascii.h"
#include "base/file.h"

namespace tamis::server {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;
constexpr size_t kMaxKeyBytes = 1024;
constexpr size_t kIdBytes = 8;  // of the hash: chance makes no two alike, and nobody chooses keys
constexpr std::string_view kScheme = "bearer ";

// The key a request shows; nothing when it shows none.
std::optional<std::string_view> shown_key(const RequestHead& head) {
  if (const std::string* const value = head.find("authorization")) {
    if (value->size() <= kScheme.size() || to_lower(value->substr(0, kScheme.size())) != kScheme) return std::nullopt;
    return std::string_view(*value).substr(kScheme.size());
  }
  if (const std::string* const value = head.find("x-api-key")) return *value;
  return std::nullopt;
}

}  // namespace

Result<ApiKeys> ApiKeys::read(const std::string& path) {
  TAMIS_TRY(const std::string text, read_text_file(path, kMaxFileBytes));
  auto keys = parse(text);
  if (!keys) return tl::unexpected<Error>(with_file(keys.error(), path));
  return keys;
}

Result<ApiKeys> ApiKeys::parse(std::string_view text) {
  ApiKeys keys;
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const bool is_plain = std::all_of(line.begin(), line.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    if (!is_plain || line.size() > kMaxKeyBytes)
      return fail(ErrorCode::format, "line {}: expected a key of visible ASCII characters, at most {}", line_number,
                  kMaxKeyBytes);
    Hash hash;
    ::SHA256(reinterpret_cast<const unsigned char*>(line.data()), line.size(), hash.data());
    keys.hashes_.push_back(hash);
  }
  if (keys.hashes_.empty()) return fail(ErrorCode::format, "there is no key in the file");
  return keys;
}

std::optional<KeyOwner> ApiKeys::owner(const RequestHead& head) const {
  if (hashes_.empty()) return KeyOwner{};
  const auto key = shown_key(head);
  if (!key) return std::nullopt;
  Hash hash;
  ::SHA256(reinterpret_cast<const unsigned char*>(key->data()), key->size(), hash.data());
  size_t found = 0;  // 1 + its index
  for (size_t i = 0; i < hashes_.size(); ++i)
    found = ::CRYPTO_memcmp(hash.data(), hashes_[i].data(), hash.size()) == 0 ? i + 1 : found;
  if (found == 0) return std::nullopt;
  KeyOwner owner{.name = fmt::format("key {}", found), .id = {}};
  for (const unsigned char byte : std::span(hash).first(kIdBytes)) owner.id += fmt::format("{:02x}", byte);
  return owner;
}

bool FailureLimit::is_blocked(const std::string& address, Clock::time_point now) const {
  const auto found = entries_.find(address);
  return found != entries_.end() && found->second.n > max_failures_ &&
         now < found->second.since + std::chrono::minutes(1);
}

void FailureLimit::on_failure(const std::string& address, Clock::time_point now) {
  if (entries_.size() >= kMaxAddresses && !entries_.contains(address)) {
    std::erase_if(entries_, [&](const auto& entry) { return now >= entry.second.since + std::chrono::minutes(1); });
    if (entries_.size() >= kMaxAddresses) entries_.clear();
  }
  Entry& entry = entries_[address];
  if (entry.n == 0 || now >= entry.since + std::chrono::minutes(1)) entry = {now, 0};
  ++entry.n;
}

}  // namespace tamis::server
