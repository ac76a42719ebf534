// Answers of HTTP servers as a load generator reads them: a response out of bytes, and a stream of server-sent events
// out of its body. Pure functions of the bytes that came, however they were cut; the server may be any, and is not
// trusted. RFC 9112 (responses), WHATWG HTML §9.2 (event streams).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tamis::cli {

class HttpAnswerParser {
 public:
  // Takes `bytes`. What comes after the end of the response is ignored. Errors: network, for what is not HTTP/1.x, or
  // is longer than the limits below.
  Status feed(std::string_view bytes);
  // The connection has ended: an answer without a length is then whole. Errors: network when it is not.
  Status end();

  bool has_head() const { return state_ >= State::sized; }
  bool is_done() const { return state_ == State::done; }
  int status() const { return status_; }                            // 0 before the head
  std::string_view header(std::string_view lower_case_name) const;  // the first; "" when absent
  std::string take_body() { return std::exchange(body_, {}); }      // what came since the last call

  static constexpr size_t kMaxHeadBytes = 65536, kMaxLineBytes = 16384;

 private:
  enum class State : uint8_t { status_line, headers, sized, unsized, chunk_size, chunk_data, chunk_end, trailer, done };

  Result<size_t> take(std::string_view bytes);
  Status on_line();
  Status on_status_line();
  Status on_header_line();
  Status on_head_end();
  Status on_chunk_size();

  State state_ = State::status_line;
  int status_ = 0;
  std::string line_, body_;
  size_t n_head_bytes_ = 0;
  uint64_t n_left_ = 0;  // of a body of known length, or of the chunk
  std::vector<std::pair<std::string, std::string>> headers_;
};

// The data of server-sent events. Fields other than `data` mean nothing here.
class EventStream {
 public:
  // The data of every event that `bytes` complete, in order. Errors: network past kMaxEventBytes.
  Result<std::vector<std::string>> feed(std::string_view bytes);

  static constexpr size_t kMaxEventBytes = size_t{16} << 20;

 private:
  void on_line(std::vector<std::string>& out);

  std::string line_, data_;
  bool has_data_ = false, is_after_return_ = false;
};

}  // namespace tamis::cli
