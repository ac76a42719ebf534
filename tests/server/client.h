// A client made of a socket and nothing more: tests say exactly which bytes go out, and see exactly which come back.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tamis::test {

using std::chrono::milliseconds;

struct HttpAnswer {
  int status = 0;  // 0: no answer came
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // chunks joined
  bool is_whole = false;

  std::string header(std::string_view lower_case_name) const;  // "" when absent
};

class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer_bytes = 0);
  explicit Client(const std::string& unix_path);
  ~Client();
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}
  Client& operator=(Client&&) = delete;

  bool is_connected() const { return fd_ >= 0; }
  bool send(std::string_view bytes);  // false: the other side has closed
  // What arrives until `time` has passed, `enough` is contained, or the other side closes.
  std::string receive(milliseconds time, std::string_view enough = "\xff");
  bool is_closed_within(milliseconds time);  // by the other side; what it sent before is dropped
  HttpAnswer answer(milliseconds time = milliseconds(10000));
  void end_sending();  // and go on reading
  void close();

 private:
  bool fill(std::chrono::steady_clock::time_point until);  // one read; false at the end, or when time is up
  int fd_ = -1;
  std::string received_;
  bool has_ended_ = false;
};

// A whole request; `body` is given a Content-Length, `headers` are lines with CRLF.
std::string request(std::string_view method, std::string_view target, std::string_view body = "",
                    std::string_view headers = "");
std::string json_post(std::string_view target, std::string_view body, std::string_view headers = "");

HttpAnswer ask(uint16_t port, std::string_view bytes);
HttpAnswer get(uint16_t port, std::string_view target);
HttpAnswer post(uint16_t port, std::string_view target, std::string_view body);

// The data of every event of a stream.
std::vector<std::string> event_data(std::string_view stream);

}  // namespace tamis::test
