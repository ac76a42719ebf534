// Reading, writing and watching one connection: three coroutines that share its state on one thread.
#include "server/http_connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <random>

#include "base/log.h"

namespace tamis::server {
namespace {

constexpr size_t kMaxAhead = 65536;  // bytes of later requests read while one is being answered
constexpr size_t kReadBytes = 16384;
constexpr const char* kInterim = "HTTP/1.1 102 Processing\r\n\r\n";

std::string random_id() {
  static thread_local std::mt19937_64 generator{std::random_device{}()};  // ids are for logs; nothing trusts them
  return fmt::format("{:016x}", generator());
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[64];
  const size_t n = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return std::string(text, n);
}

// Waits for a deadline or a cancel(); both mean: look again.
asio::awaitable<void> wait(asio::steady_timer& timer, Clock::time_point until) {
  timer.expires_at(until);
  boost::system::error_code error;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
}

}  // namespace

Connection::Connection(ConnectionHub& hub, Socket socket, std::string peer)
    : hub_(hub),
      socket_(std::move(socket)),
      tls_(hub.tls ? std::make_unique<TlsStream>(socket_, *hub.tls) : nullptr),
      peer_(std::move(peer)),
      watch_timer_(hub.io->context),
      write_signal_(hub.io->context),
      read_signal_(hub.io->context),
      is_shaking_hands_(tls_ != nullptr) {}

void Connection::spawn() {
  const auto on_end = [self = shared_from_this()](const std::exception_ptr& failure) {
    if (failure) self->drop();  // the one seam of the network library: what it threw ends the connection
  };
  asio::co_spawn(hub_.io->context, read_loop(), on_end);
  asio::co_spawn(hub_.io->context, write_loop(), on_end);
  asio::co_spawn(hub_.io->context, watch_loop(), on_end);
}

void Connection::start() {
  read_deadline_ = Clock::now() + hub_.options.head_time;
  spawn();
}

void Connection::start_refused(int status, std::string_view message) {
  is_refused_ = true;
  spawn();
  refuse(status, message);
  if (tls_) set_read_deadline(Clock::now() + hub_.options.linger_time);  // it has to shake hands to be told
}

void Connection::close_if_idle() {
  if (phase_ == Phase::idle && n_unsent_ == 0 && buffer_.empty()) drop();
}

void Connection::drop() {
  if (is_closed_) return;
  is_closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  watch_timer_.cancel();
  write_signal_.cancel();
  read_signal_.cancel();
  free_body_bytes();
  if (answer_.is_open) {
    answer_.is_open = false;
    if (answer_.gone) answer_.gone();
    tell_end(0);
  }
  end_answering();
  answer_ = Answer();
  hub_.on_closed(*this);
}

asio::awaitable<void> Connection::read_loop() {
  const auto self = shared_from_this();
  if (tls_ && !co_await shake_hands()) co_return;
  std::array<char, kReadBytes> chunk;
  while (!is_closed_) {
    if (phase_ == Phase::answering && buffer_.size() >= kMaxAhead) {
      co_await wait(read_signal_, Clock::time_point::max());
      continue;
    }
    boost::system::error_code error;
    auto reading = tls_
                       ? tls_->async_read_some(asio::buffer(chunk), asio::redirect_error(asio::use_awaitable, error))
                       : socket_.async_read_some(asio::buffer(chunk), asio::redirect_error(asio::use_awaitable, error));
    const size_t n = co_await std::move(reading);
    if (is_closed_) co_return;
    if (error) {
      if (error == asio::error::eof && may_wait_for_answer())
        co_await wait_until_gone();
      else
        on_read_end();
      co_return;
    }
    if (phase_ == Phase::closing) continue;
    buffer_.append(chunk.data(), n);
    process();
  }
}

asio::awaitable<void> Connection::write_loop() {
  const auto self = shared_from_this();
  while (!is_closed_) {
    if (out_.empty() || is_shaking_hands_) {
      if (phase_ == Phase::closing && !is_shaking_hands_) break;
      co_await wait(write_signal_, Clock::time_point::max());
      continue;
    }
    write_deadline_ = Clock::now() + hub_.options.write_time;
    wake_watch(write_deadline_);
    boost::system::error_code error;
    const asio::const_buffer rest = asio::buffer(out_.front()) + n_out_written_;
    auto writing = tls_ ? tls_->async_write_some(rest, asio::redirect_error(asio::use_awaitable, error))
                        : socket_.async_write_some(rest, asio::redirect_error(asio::use_awaitable, error));
    const size_t n = co_await std::move(writing);
    if (is_closed_) co_return;
    if (error) {
      drop();
      co_return;
    }
    n_unsent_ -= n;
    n_out_written_ += n;
    if (n_out_written_ == out_.front().size()) {
      out_.pop_front();
      n_out_written_ = 0;
    }
    if (out_.empty()) on_drained();
  }
  if (is_closed_) co_return;
  // The client reads why before the connection goes: closing with unread input would reset it.
  boost::system::error_code ignored;
  set_read_deadline(Clock::now() + hub_.options.linger_time);
  if (tls_) co_await tls_->async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
  if (is_closed_) co_return;
  if (has_read_ended_) co_return drop();  // there is no input to wait for
  socket_.shutdown(Socket::shutdown_send, ignored);
}

// The end of what a client sends does not tell whether it has left or says no more and reads on. What it is sent does:
// where nobody reads, its machine answers that the connection is no more (docs/decisions/0013-http-parser.md).
bool Connection::may_wait_for_answer() const { return answer_.is_open && !answer_.is_http_1_0 && !tls_; }

asio::awaitable<void> Connection::wait_until_gone() {
  has_read_ended_ = true;
  answer_.keeps_alive = false;
  ping();
  wake_watch(ping_at_);
  boost::system::error_code error;
  co_await socket_.async_wait(Socket::wait_error, asio::redirect_error(asio::use_awaitable, error));
  drop();
}

// False: the other side speaks no TLS, or none that is taken here; the connection is closed.
asio::awaitable<bool> Connection::shake_hands() {
  boost::system::error_code error;
  co_await tls_->async_handshake(asio::ssl::stream_base::server, asio::redirect_error(asio::use_awaitable, error));
  if (is_closed_) co_return false;
  if (error) {
    drop();
    co_return false;
  }
  is_shaking_hands_ = false;
  write_signal_.cancel();
  co_return true;
}

asio::awaitable<void> Connection::watch_loop() {
  const auto self = shared_from_this();
  while (!is_closed_) {
    const Clock::time_point next = std::min(std::min(read_deadline_, write_deadline_), ping_at_);
    co_await wait(watch_timer_, next);
    if (is_closed_) break;
    const Clock::time_point now = Clock::now();
    if (now >= write_deadline_) {
      ++hub_.n_dropped_readers;
      drop();
    } else if (now >= read_deadline_) {
      on_read_deadline();
    } else if (now >= ping_at_) {
      ping();
    }
  }
}

void Connection::wake_watch(Clock::time_point at) {
  if (at < watch_timer_.expiry()) watch_timer_.cancel();
}

void Connection::set_read_deadline(Clock::time_point at) {
  read_deadline_ = at;
  wake_watch(at);
}

void Connection::on_read_end() {
  if (answer_.is_open || n_unsent_ == 0) return drop();
  phase_ = Phase::closing;  // what is written already still goes out
  write_signal_.cancel();
}

void Connection::on_read_deadline() {
  const bool has_begun = phase_ == Phase::head || phase_ == Phase::body;
  if (!has_begun) return drop();
  ++hub_.n_timeouts;
  refuse(408, phase_ == Phase::head ? "the request's header took too long" : "the request's body took too long");
}

void Connection::process() {
  while (!is_closed_ && phase_ != Phase::answering && phase_ != Phase::closing) {
    if (!parser_) parser_.emplace(hub_.options.limits);
    buffer_.erase(0, parser_->feed(buffer_));
    if (phase_ == Phase::idle && parser_->has_begun()) {
      phase_ = Phase::head;
      arrived_ = Clock::now();
      if (!is_first_) set_read_deadline(arrived_ + hub_.options.head_time);
      is_first_ = false;
    }
    switch (parser_->state()) {
      case RequestParser::State::head: return;
      case RequestParser::State::head_done: on_head(); break;
      case RequestParser::State::body: return on_body_bytes();
      case RequestParser::State::done: begin_answer(); break;
      case RequestParser::State::failed: return refuse(parser_->fault().status, parser_->fault().message);
    }
  }
}

void Connection::on_head() {
  Response refusal;
  if (!hub_.handler.accepts(parser_->head(), peer_, refusal)) return refuse_with(std::move(refusal));
  if (!owns_body_bytes(parser_->declared_bytes())) return;
  phase_ = Phase::body;
  body_began_ = Clock::now();
  body_deadline_ = body_began_ + hub_.options.body_time + std::chrono::seconds(parser_->declared_bytes() >> 20);
  const bool waits_for_us = parser_->expects_continue() && parser_->has_body() && buffer_.empty();
  parser_->read_body();
  if (waits_for_us) queue("HTTP/1.1 100 Continue\r\n\r\n");
}

// Counts a body's bytes among those of all connections, before they are in memory where its length is declared.
bool Connection::owns_body_bytes(size_t n) {
  if (n > n_body_bytes_) {
    hub_.io->n_body_bytes += n - n_body_bytes_;
    n_body_bytes_ = n;
  }
  if (hub_.io->n_body_bytes <= hub_.options.max_waiting_bytes) return true;
  refuse(503, "too many large requests are waiting");
  return false;
}

void Connection::free_body_bytes() {
  hub_.io->n_body_bytes -= n_body_bytes_;
  n_body_bytes_ = 0;
}

void Connection::on_body_bytes() {
  const size_t n = parser_->body().size();
  if (!owns_body_bytes(n)) return;
  const std::chrono::duration<double> at_least(static_cast<double>(n) / hub_.options.body_bytes_per_second);
  const Clock::time_point rate_deadline =
      body_began_ + hub_.options.body_grace + std::chrono::duration_cast<Milliseconds>(at_least);
  set_read_deadline(std::min(body_deadline_, rate_deadline));
}

void Connection::begin_answer() {
  phase_ = Phase::answering;
  read_deadline_ = Clock::time_point::max();
  ++serial_;
  Request request;
  request.head = parser_->take_head();
  request.body = parser_->take_body();
  request.peer = peer_;
  request.id = random_id();
  request.arrived = arrived_;
  if (n_body_bytes_ > 0)
    request.body_count = std::shared_ptr<void>(
        nullptr, [io = hub_.io, n = std::exchange(n_body_bytes_, 0)](void*) { io->n_body_bytes -= n; });
  parser_.reset();
  answer_ = Answer();
  answer_.is_open = true;
  answer_.is_head_request = request.head.method == "HEAD";
  answer_.is_http_1_0 = request.head.is_http_1_0;
  answer_.keeps_alive = request.head.keeps_alive();
  answer_.id = request.id;
  answer_.method = request.head.method;
  answer_.path = request.head.path();
  answer_.arrived = arrived_;
  answer_.facts = request.facts = std::make_shared<RequestFacts>();
  is_answering_ = true;
  hub_.on_answering(true);
  hub_.handler.handle(std::move(request), make_reply(hub_.io, weak_from_this(), serial_));
}

void Connection::refuse(int status, std::string_view message) { refuse_with(hub_.handler.refusal(status, message)); }

void Connection::refuse_with(Response response) {
  answer_ = Answer();
  answer_.id = random_id();
  answer_.arrived = is_first_ ? Clock::now() : arrived_;
  if (parser_ && parser_->state() != RequestParser::State::head && parser_->state() != RequestParser::State::failed) {
    answer_.method = parser_->head().method;
    answer_.path = parser_->head().path();
    answer_.is_head_request = answer_.method == "HEAD";
  }
  queue_head(response, response.body.size());
  if (!answer_.is_head_request) queue(std::move(response.body));
  tell_end(response.status);
  parser_.reset();
  buffer_.clear();
  free_body_bytes();
  read_deadline_ = Clock::time_point::max();
  phase_ = Phase::closing;
  write_signal_.cancel();
}

void Connection::queue(std::string bytes) {
  if (bytes.empty()) return;
  n_unsent_ += bytes.size();
  out_.push_back(std::move(bytes));
  if (out_.size() == 1) write_signal_.cancel();
}

// `n_body`: the length; nothing for a stream.
void Connection::queue_head(const Response& response, std::optional<size_t> n_body) {
  const bool keeps_alive = answer_.keeps_alive && !hub_.is_closing && (n_body || !answer_.is_http_1_0);
  answer_.keeps_alive = keeps_alive;
  answer_.status = response.status;
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\ndate: {}\r\nconnection: {}\r\nx-request-id: {}\r\n", response.status,
                  reason_phrase(response.status), http_date(), keeps_alive ? "keep-alive" : "close", answer_.id);
  if (!response.content_type.empty()) head += fmt::format("content-type: {}\r\n", response.content_type);
  head += "x-content-type-options: nosniff\r\n";
  for (const auto& [name, value] : response.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (n_body && response.status != 204 && response.status != 304)
    head += fmt::format("content-length: {}\r\n", *n_body);
  else if (!n_body && !answer_.is_http_1_0)
    head += "transfer-encoding: chunked\r\n";
  queue(head + "\r\n");
}

void Connection::send(uint64_t serial, Response response) {
  if (!is_current(serial) || answer_.has_head) return;
  queue_head(response, response.body.size());
  if (!answer_.is_head_request) queue(std::move(response.body));
  answer_.held = std::move(response.held);
  end_answer();
}

void Connection::start_stream(uint64_t serial, Response response, std::string ping) {
  if (!is_current(serial) || answer_.is_stream) return;
  answer_.is_stream = true;
  answer_.held = std::move(response.held);
  answer_.stream_head = std::move(response);
  answer_.ping = std::move(ping);
  if (answer_.ping.empty()) return;
  ping_at_ = Clock::now() + hub_.options.ping_time;
  wake_watch(ping_at_);
}

void Connection::queue_piece(const std::string& piece) {
  if (piece.empty()) return;
  if (!answer_.has_head) {
    answer_.has_head = true;
    queue_head(answer_.stream_head, std::nullopt);
  }
  queue(answer_.is_http_1_0 ? piece : fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
}

void Connection::write(uint64_t serial, const std::string& piece) {
  if (!is_current(serial) || !answer_.is_stream) return;
  if (n_unsent_ > hub_.options.max_unsent_bytes + answer_.n_largest) {  // what came at once is not its reader's fault
    ++hub_.n_dropped_readers;
    return drop();
  }
  answer_.n_largest = std::max<uint64_t>(answer_.n_largest, piece.size());
  queue_piece(piece);
  if (ping_at_ != Clock::time_point::max()) ping_at_ = Clock::now() + hub_.options.ping_time;
}

// Bytes without meaning: they keep a silent stream alive, and find out whether who has ended its side still reads.
void Connection::ping() {
  ping_at_ = Clock::now() + hub_.options.ping_time;
  if (!answer_.is_open || n_unsent_ > 0) return;
  if (has_read_ended_ && !answer_.has_head)
    queue(kInterim);
  else if (answer_.is_stream)
    queue_piece(answer_.ping);
}

void Connection::finish(uint64_t serial) {
  if (!is_current(serial) || !answer_.is_stream) return;
  if (!answer_.has_head) queue_head(answer_.stream_head, std::nullopt);
  if (!answer_.is_http_1_0) queue("0\r\n\r\n");
  end_answer();
}

void Connection::fail(uint64_t serial, Response response, const std::string& last_piece) {
  if (!is_current(serial)) return;
  if (!answer_.has_head) return send(serial, std::move(response));
  queue_piece(last_piece);
  finish(serial);
}

void Connection::cut_off(uint64_t serial) {
  if (is_current(serial)) drop();
}

void Connection::on_gone(uint64_t serial, std::function<void()> gone) {
  if (is_current(serial))
    answer_.gone = std::move(gone);
  else if (is_closed_)
    gone();
}

void Connection::abandon(uint64_t serial) {
  if (!is_current(serial)) return;
  if (answer_.has_head) return drop();
  send(serial, hub_.handler.refusal(500, "the request was not answered"));
}

void Connection::end_answer() {
  answer_.is_open = false;
  answer_.gone = nullptr;
  ping_at_ = Clock::time_point::max();
  tell_end(answer_.status);
  if (!answer_.keeps_alive) {
    phase_ = Phase::closing;
    write_signal_.cancel();
  }
  if (n_unsent_ == 0) on_drained();
}

void Connection::tell_end(int status) {
  const std::chrono::duration<double> took = Clock::now() - answer_.arrived;
  hub_.handler.on_answered({.method = answer_.method,
                            .path = answer_.path,
                            .id = answer_.id,
                            .peer = peer_,
                            .status = status,
                            .seconds = took.count(),
                            .facts = answer_.facts.get()});
}

void Connection::end_answering() {
  if (std::exchange(is_answering_, false)) hub_.on_answering(false);
}

void Connection::on_drained() {
  write_deadline_ = Clock::time_point::max();
  if (answer_.is_open) return;
  answer_.held = nullptr;
  end_answering();
  if (phase_ != Phase::answering) return;
  phase_ = Phase::idle;
  if (hub_.is_closing && buffer_.empty()) return drop();
  set_read_deadline(Clock::now() + hub_.options.idle_time);
  read_signal_.cancel();
  process();
}

}  // namespace tamis::server
