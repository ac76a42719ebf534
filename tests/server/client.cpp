// Blocking sockets with deadlines.
#include "tests/server/client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace tamis::test {

std::string HttpAnswer::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_case_name) return value;
  return "";
}

Client::Client(uint16_t port, int receive_buffer_bytes) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer_bytes > 0)
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
}

Client::Client(const std::string& unix_path) {
  fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  unix_path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
}

Client::~Client() { close(); }

void Client::end_sending() { ::shutdown(fd_, SHUT_WR); }

void Client::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool Client::fill(std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now()).count();
  pollfd waiting{fd_, POLLIN, 0};
  if (has_ended_ || left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0) return false;
  char chunk[65536];
  const ssize_t n = ::recv(fd_, chunk, sizeof chunk, 0);
  if (n <= 0) {
    has_ended_ = true;
    return false;
  }
  received_.append(chunk, static_cast<size_t>(n));
  return true;
}

std::string Client::receive(milliseconds time, std::string_view enough) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (received_.find(enough) == std::string::npos && fill(until)) {
  }
  return std::exchange(received_, "");
}

bool Client::is_closed_within(milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (fill(until)) received_.clear();
  return has_ended_;
}

HttpAnswer Client::answer(milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  HttpAnswer out;
  size_t head_end = 0;
  while ((head_end = received_.find("\r\n\r\n")) == std::string::npos)
    if (!fill(until)) return out;
  std::string_view head = std::string_view(received_).substr(0, head_end);
  std::from_chars(head.data() + 9, head.data() + 12, out.status);
  for (size_t line = head.find("\r\n"); line != std::string_view::npos; line = head.find("\r\n")) {
    head.remove_prefix(line + 2);
    const std::string_view whole = head.substr(0, head.find("\r\n"));
    const size_t colon = whole.find(": ");
    if (colon != std::string_view::npos) out.headers.emplace_back(whole.substr(0, colon), whole.substr(colon + 2));
  }
  received_.erase(0, head_end + 4);
  if (out.status < 200) return answer(time);
  const std::string length = out.header("content-length");
  if (!length.empty()) {
    size_t n = 0;
    std::from_chars(length.data(), length.data() + length.size(), n);
    while (received_.size() < n && fill(until)) {
    }
    out.is_whole = received_.size() >= n;
    out.body = received_.substr(0, n);
    received_.erase(0, std::min(n, received_.size()));
    return out;
  }
  if (out.header("transfer-encoding") != "chunked") {
    while (fill(until)) {
    }
    out.body = std::exchange(received_, "");
    out.is_whole = has_ended_;
    return out;
  }
  for (;;) {
    size_t line = 0;
    while ((line = received_.find("\r\n")) == std::string::npos)
      if (!fill(until)) return out;
    size_t n = 0;
    std::from_chars(received_.data(), received_.data() + line, n, 16);
    while (received_.size() < line + 4 + n)
      if (!fill(until)) return out;
    out.body += received_.substr(line + 2, n);
    received_.erase(0, line + 4 + n);
    if (n > 0) continue;
    out.is_whole = true;
    return out;
  }
}

std::string request(std::string_view method, std::string_view target, std::string_view body, std::string_view headers) {
  std::string out = fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}", method, target, headers);
  if (!body.empty() || method == "POST") out += fmt::format("Content-Length: {}\r\n", body.size());
  return out + "\r\n" + std::string(body);
}

std::string json_post(std::string_view target, std::string_view body, std::string_view headers) {
  return request("POST", target, body, "Content-Type: application/json\r\n" + std::string(headers));
}

HttpAnswer ask(uint16_t port, std::string_view bytes) {
  Client client(port);
  if (!client.is_connected() || !client.send(bytes)) return {};
  return client.answer();
}

HttpAnswer get(uint16_t port, std::string_view target) { return ask(port, request("GET", target)); }

HttpAnswer post(uint16_t port, std::string_view target, std::string_view body) {
  return ask(port, json_post(target, body));
}

std::vector<std::string> event_data(std::string_view stream) {
  std::vector<std::string> out;
  while (!stream.empty()) {
    const size_t end = std::min(stream.find('\n'), stream.size());
    if (stream.starts_with("data: ")) out.emplace_back(stream.substr(6, end - 6));
    stream.remove_prefix(std::min(end + 1, stream.size()));
  }
  return out;
}

}  // namespace tamis::test
