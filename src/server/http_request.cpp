// The request parser: lines, then framing, then the body by length or by chunks.
#include "server/http_request.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"
#include "base/result.h"

namespace tamis::server {
namespace {

// RFC 9110 §5.6.2: the characters of methods and header names.
bool is_token_char(char c) {
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char); }

bool is_visible(char c) { return c > 0x20 && c < 0x7f; }

bool is_value_char(char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); }

// A name or address with an optional port: nothing a log or a comparison could trip over.
bool is_host(std::string_view text) {
  return text.size() <= 255 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  std::string_view(".-_:[]%").find(c) != std::string_view::npos;
         });
}

// Digits only, of the given base, the whole text; false past 64 bits.
bool parse_digits(std::string_view text, int base, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return !text.empty() && error == std::errc() && end == text.data() + text.size() && text.front() != '-';
}

constexpr size_t kMaxChunkLine = 256;
constexpr size_t kMaxMethodBytes = 32;

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    uint64_t byte = 0;
    if (i + 2 >= text.size() || !parse_digits(text.substr(i + 1, 2), 16, byte)) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

bool has_token(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (to_lower(trimmed(list.substr(0, comma), kHttpBlanks)) == token) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

const std::string* RequestHead::find(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_case_name) return &value;
  return nullptr;
}

std::string_view RequestHead::path() const {
  const std::string_view all = target;
  return all.substr(0, std::min(all.find('?'), all.size()));
}

std::optional<std::string> RequestHead::query(std::string_view name) const {
  std::string_view rest = target;
  rest.remove_prefix(std::min(path().size() + 1, rest.size()));
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (percent_decoded(pair.substr(0, equals)) != name) continue;
    std::string value(pair.substr(std::min(equals + 1, pair.size())));
    std::replace(value.begin(), value.end(), '+', ' ');  // as forms write it
    return percent_decoded(value);
  }
  return std::nullopt;
}

bool RequestHead::keeps_alive() const {
  bool has_close = false, has_keep_alive = false;
  for (const auto& [name, value] : headers) {
    if (name != "connection") continue;
    has_close |= has_token(value, "close");
    has_keep_alive |= has_token(value, "keep-alive");
  }
  return !has_close && (!is_http_1_0 || has_keep_alive);
}

void RequestParser::fail(int status, std::string_view message) {
  state_ = State::failed;
  fault_ = {status, std::string(message)};
}

size_t RequestParser::count(std::string_view name) const {
  return static_cast<size_t>(std::count_if(head_.headers.begin(), head_.headers.end(),
                                           [&](const auto& header) { return header.first == name; }));
}

size_t RequestParser::feed(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    if (state_ == State::head) {
      if (take_line(bytes, i)) on_head_line();
    } else if (state_ != State::body) {
      break;
    } else if (is_chunked_ && chunk_ != Chunk::data) {
      if (take_line(bytes, i)) on_chunk_line();
    } else {
      i += take_body_bytes(bytes.substr(i));
    }
  }
  return i;
}

// Moves bytes up to and with the next line end into line_, whose end is then cut off.
bool RequestParser::take_line(std::string_view bytes, size_t& i) {
  const size_t end = bytes.find('\n', i);
  const size_t n = (end == std::string_view::npos ? bytes.size() : end + 1) - i;
  const bool is_chunk_line = state_ == State::body && chunk_ != Chunk::trailer;
  const size_t limit = is_chunk_line ? kMaxChunkLine : limits_.line_bytes;
  if (line_.size() + n > limit + 2) {
    if (is_chunk_line)
      fail(400, "a chunk's size line is too long");
    else if (!has_request_line_)
      fail(414, "the request line is too long");
    else
      fail(431, "a header line is too long");
    return false;
  }
  if (!is_chunk_line && n_head_bytes_ + line_.size() + n > limits_.head_bytes) {
    fail(431, "the header is too large");
    return false;
  }
  line_.append(bytes, i, n);
  i += n;
  if (end == std::string_view::npos) return false;
  if (!is_chunk_line) n_head_bytes_ += line_.size();
  if (!line_.ends_with("\r\n")) {
    fail(400, "a line ends without carriage return");
    return false;
  }
  line_.resize(line_.size() - 2);
  return true;
}

void RequestParser::on_head_line() {
  if (!has_request_line_) {
    if (!line_.empty()) on_request_line();  // RFC 9112 §2.2: empty lines before a request are passed over
  } else if (line_.empty()) {
    on_head_end();
  } else {
    on_header_line();
  }
  line_.clear();
}

void RequestParser::on_request_line() {
  has_request_line_ = true;
  const std::string_view line = line_;
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return fail(400, "the request line is malformed");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || method.size() > kMaxMethodBytes) return fail(400, "the method is malformed");
  if (target.empty() || !std::all_of(target.begin(), target.end(), is_visible))
    return fail(400, "the request target is malformed");
  if (version.size() != 8 || !version.starts_with("HTTP/")) return fail(400, "the protocol version is malformed");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return fail(505, "the protocol is HTTP/1.1");
  if (target.front() != '/' && !(target == "*" && method == "OPTIONS"))
    return fail(400, "the request target must start with /");
  head_.method = method;
  head_.target = target;
  head_.is_http_1_0 = version == "HTTP/1.0";
}

void RequestParser::on_header_line() {
  if (head_.headers.size() >= limits_.n_headers) return fail(431, "there are too many headers");
  const std::string_view line = line_;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return fail(400, "a header line is malformed");
  const std::string_view value = trimmed(line.substr(colon + 1), kHttpBlanks);
  if (!std::all_of(value.begin(), value.end(), is_value_char)) return fail(400, "a header has a control character");
  head_.headers.emplace_back(to_lower(line.substr(0, colon)), value);
}

void RequestParser::on_head_end() {
  const size_t n_hosts = count("host");
  if (n_hosts > 1 || (n_hosts == 0 && !head_.is_http_1_0)) return fail(400, "one Host header is needed");
  if (n_hosts == 1 && !is_host(*head_.find("host"))) return fail(400, "the Host header is malformed");
  read_framing();
  if (state_ == State::failed) return;
  for (const auto& [name, value] : head_.headers) {
    if (name != "expect") continue;
    if (to_lower(value) != "100-continue") return fail(417, "the only expectation is 100-continue");
    expects_continue_ = !head_.is_http_1_0;
  }
  state_ = State::head_done;
}

void RequestParser::read_framing() {
  const size_t n_lengths = count("content-length");
  const size_t n_codings = count("transfer-encoding");
  if (n_lengths > 1) return fail(400, "there is more than one Content-Length");
  if (n_codings > 1 || (n_codings == 1 && n_lengths == 1))
    return fail(400, "Transfer-Encoding may appear once, and not with Content-Length");
  if (n_codings == 1) {
    if (head_.is_http_1_0) return fail(400, "HTTP/1.0 has no Transfer-Encoding");
    if (to_lower(*head_.find("transfer-encoding")) != "chunked")
      return fail(501, "the only transfer coding is chunked");
    is_chunked_ = true;
  }
  if (n_lengths == 1 && !parse_digits(*head_.find("content-length"), 10, n_declared_))
    return fail(400, "Content-Length is not a number");
  if (n_declared_ > limits_.body_bytes) return fail(413, "the body is too large");
  n_body_left_ = n_declared_;
}

void RequestParser::read_body() {
  TAMIS_CHECK(state_ == State::head_done);
  state_ = has_body() ? State::body : State::done;
}

void RequestParser::on_chunk_line() {
  const std::string line = std::move(line_);
  line_.clear();
  if (chunk_ == Chunk::data_end) {
    if (!line.empty()) return fail(400, "a chunk is longer than its size");
    chunk_ = Chunk::size;
    return;
  }
  if (chunk_ == Chunk::trailer) {
    if (line.empty()) state_ = State::done;
    return;
  }
  const std::string_view size = std::string_view(line).substr(0, std::min(line.find(';'), line.size()));
  if (size.size() > 16 || !parse_digits(size, 16, n_body_left_)) return fail(400, "a chunk's size is malformed");
  if (!std::all_of(line.begin(), line.end(), is_value_char)) return fail(400, "a chunk has a control character");
  if (n_body_left_ > limits_.body_bytes - body_.size()) return fail(413, "the body is too large");
  chunk_ = n_body_left_ == 0 ? Chunk::trailer : Chunk::data;
}

size_t RequestParser::take_body_bytes(std::string_view bytes) {
  const size_t n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), n_body_left_));
  body_.append(bytes.substr(0, n));
  n_body_left_ -= n;
  if (n_body_left_ > 0) return n;
  if (is_chunked_)
    chunk_ = Chunk::data_end;
  else
    state_ = State::done;
  return n;
}

}  // namespace tamis::server
