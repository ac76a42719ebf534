// One HTTP/1.x request out of bytes: a pure function of the bytes that came, however they were cut. Between the socket
// (http_connection) and the routes (server).  RFC 9112, read strictly: what two readers could read differently is
// refused, not repaired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tamis::server {

struct HttpLimits {
  size_t line_bytes = 8192;   // request line (414 past it) or header line (431)
  size_t head_bytes = 32768;  // all lines up to the empty one, and of the trailer
  size_t n_headers = 100;
  size_t body_bytes = size_t{32} << 20;
};

struct RequestHead {
  std::string method, target;  // as sent; `target` starts with '/' or is "*"
  bool is_http_1_0 = false;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, values without outer blanks

  const std::string* find(std::string_view lower_case_name) const;  // the first; null when absent
  std::string_view path() const;                                    // the target up to '?'
  std::optional<std::string> query(std::string_view name) const;    // the first value of that name behind it, decoded
  bool keeps_alive() const;                                         // what version and Connection header ask for
};

// A request that is refused before any route sees it.
struct HttpFault {
  int status = 400;
  std::string message;
};

class RequestParser {
 public:
  enum class State : uint8_t { head, head_done, body, done, failed };

  explicit RequestParser(const HttpLimits& limits) : limits_(limits) {}

  // Takes bytes off the front of `bytes`; returns how many. Stops after the head (head_done) until read_body() is
  // called, at the end of the request, and at a fault. Costs O(1) a byte and keeps no more than the limits allow.
  size_t feed(std::string_view bytes);
  void read_body();  // Requires: head_done

  State state() const { return state_; }
  bool has_begun() const { return n_head_bytes_ > 0 || !line_.empty(); }
  const RequestHead& head() const { return head_; }  // Requires: head_done or later
  const HttpFault& fault() const { return fault_; }  // Requires: failed
  bool expects_continue() const { return expects_continue_; }
  bool has_body() const { return is_chunked_ || n_body_left_ > 0; }
  // Of the Content-Length header; 0 when chunked.
  uint64_t declared_bytes() const { return is_chunked_ ? 0 : n_declared_; }
  const std::string& body() const { return body_; }
  RequestHead take_head() { return std::move(head_); }
  std::string take_body() { return std::move(body_); }

 private:
  enum class Chunk : uint8_t { size, data, data_end, trailer };

  bool take_line(std::string_view bytes, size_t& i);  // false: not whole yet, or failed
  void on_head_line();
  void on_request_line();
  void on_header_line();
  void on_head_end();
  void read_framing();
  void on_chunk_line();
  size_t take_body_bytes(std::string_view bytes);
  void fail(int status, std::string_view message);
  size_t count(std::string_view name) const;

  HttpLimits limits_;
  State state_ = State::head;
  Chunk chunk_ = Chunk::size;
  RequestHead head_;
  HttpFault fault_;
  std::string line_;  // the line that is coming in
  std::string body_;
  size_t n_head_bytes_ = 0;
  uint64_t n_declared_ = 0, n_body_left_ = 0;  // of the body, or of the chunk
  bool has_request_line_ = false, is_chunked_ = false, expects_continue_ = false;
};

// "%41" as "A"; nothing when a % has no two hexadecimal digits behind it.
std::optional<std::string> percent_decoded(std::string_view text);

// Whether a comma-separated header value has the token, whatever its case.
bool has_token(std::string_view list, std::string_view token);

}  // namespace tamis::server
