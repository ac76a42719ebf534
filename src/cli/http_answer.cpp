// The response parser, line by line, and the event stream over it.
#include "cli/http_answer.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"

namespace tamis::cli {
namespace {

bool read_whole(std::string_view text, uint64_t& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string_view HttpAnswerParser::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers_)
    if (name == lower_case_name) return value;
  return "";
}

Status HttpAnswerParser::feed(std::string_view bytes) {
  while (!bytes.empty() && state_ != State::done) {
    TAMIS_TRY(const size_t n, take(bytes));
    bytes.remove_prefix(n);
  }
  return {};
}

// Returns how many bytes were used, at least one.
Result<size_t> HttpAnswerParser::take(std::string_view bytes) {
  if (state_ == State::unsized) {
    body_ += bytes;
    return bytes.size();
  }
  if (state_ == State::sized || state_ == State::chunk_data) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(n_left_, bytes.size()));
    body_ += bytes.substr(0, n);
    n_left_ -= n;
    if (n_left_ == 0) state_ = state_ == State::sized ? State::done : State::chunk_end;
    return n;
  }
  const size_t end = bytes.find('\n');
  line_ += bytes.substr(0, end);
  if (line_.size() > kMaxLineBytes)
    return fail(ErrorCode::network, "the answer has a line of more than {} bytes", kMaxLineBytes);
  if (end == std::string_view::npos) return bytes.size();
  if (line_.ends_with('\r')) line_.pop_back();
  TAMIS_TRY_STATUS(on_line());
  line_.clear();
  return end + 1;
}

Status HttpAnswerParser::on_line() {
  switch (state_) {
    case State::status_line: return on_status_line();
    case State::headers: return line_.empty() ? on_head_end() : on_header_line();
    case State::chunk_size: return on_chunk_size();
    case State::chunk_end:
      if (!line_.empty()) return fail(ErrorCode::network, "a chunk of the answer is longer than its size");
      state_ = State::chunk_size;
      return {};
    default:
      if (line_.empty()) state_ = State::done;  // the trailer
      return {};
  }
}

Status HttpAnswerParser::on_status_line() {
  uint64_t status = 0;
  if (!line_.starts_with("HTTP/1.") || line_.size() < 12 || line_[8] != ' ' ||
      !read_whole(std::string_view(line_).substr(9, 3), status, 10) || status < 100)
    return fail(ErrorCode::network, "the answer is not HTTP: \"{}\"", escape_for_display(line_));
  status_ = static_cast<int>(status);
  state_ = State::headers;
  headers_.clear();
  n_head_bytes_ = 0;
  return {};
}

Status HttpAnswerParser::on_header_line() {
  n_head_bytes_ += line_.size();
  const size_t colon = line_.find(':');
  if (n_head_bytes_ > kMaxHeadBytes || colon == 0 || colon == std::string::npos)
    return fail(ErrorCode::network, "the answer has a bad header: \"{}\"", escape_for_display(line_));
  headers_.emplace_back(to_lower(line_.substr(0, colon)),
                        trimmed(std::string_view(line_).substr(colon + 1), kHttpBlanks));
  return {};
}

Status HttpAnswerParser::on_head_end() {
  if (status_ < 200) {  // an interim answer: the real one follows
    state_ = State::status_line;
    return {};
  }
  if (to_lower(header("transfer-encoding")).ends_with("chunked")) {
    state_ = State::chunk_size;
    return {};
  }
  const std::string_view length = header("content-length");
  if (length.empty()) {
    state_ = status_ == 204 || status_ == 304 ? State::done : State::unsized;
    return {};
  }
  if (!read_whole(length, n_left_, 10))
    return fail(ErrorCode::network, "the answer has a bad length: \"{}\"", escape_for_display(length));
  state_ = n_left_ == 0 ? State::done : State::sized;
  return {};
}

Status HttpAnswerParser::on_chunk_size() {
  const std::string_view digits = trimmed(std::string_view(line_).substr(0, line_.find(';')), kHttpBlanks);
  if (!read_whole(digits, n_left_, 16))
    return fail(ErrorCode::network, "the answer has a bad chunk: \"{}\"", escape_for_display(line_));
  state_ = n_left_ == 0 ? State::trailer : State::chunk_data;
  return {};
}

Status HttpAnswerParser::end() {
  if (state_ == State::unsized) state_ = State::done;
  if (state_ == State::done) return {};
  return fail(ErrorCode::network, "{}",
              state_ == State::status_line && line_.empty() ? "the server closed the connection without an answer"
                                                            : "the server closed the connection within its answer");
}

// A line ends with \n, \r\n or \r; what a cut leaves open is decided by the next byte.
Result<std::vector<std::string>> EventStream::feed(std::string_view bytes) {
  std::vector<std::string> out;
  for (const char c : bytes) {
    const bool ends_pair = is_after_return_ && c == '\n';
    is_after_return_ = c == '\r';
    if (ends_pair) continue;
    if (c == '\n' || c == '\r') {
      on_line(out);
      line_.clear();
    } else {
      line_ += c;
    }
    if (line_.size() + data_.size() > kMaxEventBytes)
      return fail(ErrorCode::network, "an event of the stream has more than {} bytes", kMaxEventBytes);
  }
  return out;
}

void EventStream::on_line(std::vector<std::string>& out) {
  if (line_.empty()) {
    if (has_data_) out.push_back(std::exchange(data_, {}));
    has_data_ = false;
    return;
  }
  const size_t colon = line_.find(':');
  if (std::string_view(line_).substr(0, colon) != "data") return;
  std::string_view value = colon == std::string::npos ? "" : std::string_view(line_).substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += value;
  has_data_ = true;
}

}  // namespace tamis::cli
