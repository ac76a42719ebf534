// Lines of the access log, for people or for programs.
#include "server/access_log.h"

#include <fmt/format.h>

#include "formats/json.h"
#include "server/answer_format.h"

namespace tamis::server {
namespace {

constexpr size_t kMaxPathBytes = 256;

std::string or_dash(std::string_view text) { return text.empty() ? "-" : escape_for_display(text, kMaxPathBytes); }

std::string text_line(const Answered& answered, int64_t unix_time) {
  std::string out =
      fmt::format("{} {} {} {} {} {:.1f}ms id={}", rfc3339(unix_time), or_dash(answered.peer), or_dash(answered.method),
                  or_dash(answered.path), answered.status, answered.seconds * 1e3, or_dash(answered.id));
  const RequestFacts* const facts = answered.facts;
  if (facts == nullptr) return out;
  if (!facts->owner.empty()) out += fmt::format(" key=\"{}\"", facts->owner);
  if (facts->is_generation)
    out +=
        fmt::format(" prompt={} cached={} generated={} queue={:.1f}ms first={:.1f}ms end={}", facts->n_prompt,
                    facts->n_cached, facts->n_generated, facts->queue_ms, facts->first_token_ms, or_dash(facts->end));
  return out;
}

std::string json_line(const Answered& answered, int64_t unix_time) {
  const auto milliseconds = [](double ms) { return static_cast<double>(static_cast<int64_t>(ms * 10 + 0.5)) / 10; };
  Json out = Json::object();
  out.set("time", rfc3339(unix_time)).set("id", std::string(answered.id)).set("peer", std::string(answered.peer));
  out.set("method", or_dash(answered.method)).set("path", or_dash(answered.path)).set("status", answered.status);
  out.set("ms", milliseconds(answered.seconds * 1e3));
  const RequestFacts* const facts = answered.facts;
  if (facts == nullptr) return out.dump();
  if (!facts->owner.empty()) out.set("key", facts->owner);
  if (!facts->is_generation) return out.dump();
  out.set("prompt_tokens", uint64_t{facts->n_prompt}).set("cached_tokens", uint64_t{facts->n_cached});
  out.set("generated_tokens", uint64_t{facts->n_generated}).set("queue_ms", milliseconds(facts->queue_ms));
  return out.set("first_token_ms", milliseconds(facts->first_token_ms)).set("end", facts->end).dump();
}

}  // namespace

std::string access_line(AccessLog format, const Answered& answered, int64_t unix_time) {
  return format == AccessLog::json ? json_line(answered, unix_time) : text_line(answered, unix_time);
}

std::string dropped_line(AccessLog format, uint64_t n_dropped, int64_t unix_time) {
  const std::string time = rfc3339(unix_time);
  if (format != AccessLog::json) return fmt::format("{} {} lines of the log were dropped", time, n_dropped);
  Json out = Json::object();
  return out.set("time", time).set("dropped_lines", n_dropped).dump();
}

AccessLogWriter::AccessLogWriter(AccessLog format, int fd)
    : format_(format),
      last_time_(std::make_shared<std::atomic<int64_t>>(0)),
      writer_(fd, [format, time = last_time_](uint64_t n_dropped) { return dropped_line(format, n_dropped, *time); }) {}

void AccessLogWriter::write(const Answered& answered, int64_t unix_time) {
  *last_time_ = unix_time;
  writer_.write(access_line(format_, answered, unix_time));
}

}  // namespace tamis::server
