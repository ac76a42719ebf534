// One client's connection: reads requests one after the other, writes answers, keeps the deadlines. Private to the HTTP
// layer (http.h); everything here runs on the input/output thread.
#pragma once

// clang-format off
#include <utility>  // before Boost 1.74's awaitable.hpp, which needs it
// clang-format on
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "server/http.h"

namespace tamis::server {

namespace asio = boost::asio;
using Socket = asio::generic::stream_protocol::socket;
using TlsStream = asio::ssl::stream<Socket&>;
using Clock = std::chrono::steady_clock;

// Outlives the listener while replies may still be held somewhere.
struct InputOutput {
  asio::io_context context;  // without a hint of one thread: that would let posts of other threads overtake its own
  std::atomic<uint64_t> n_body_bytes{0};  // of all request bodies in memory
};

class Connection;

// What connections share: the listener's side of them.
class ConnectionHub {
 public:
  ConnectionHub(const HttpOptions& given, HttpHandler& given_handler, std::shared_ptr<InputOutput> given_io)
      : options(given), handler(given_handler), io(std::move(given_io)) {}
  virtual ~ConnectionHub() = default;
  virtual void on_closed(Connection& connection) = 0;
  virtual void on_answering(bool has_begun) = 0;

  const HttpOptions options;
  HttpHandler& handler;
  const std::shared_ptr<InputOutput> io;
  uint64_t n_timeouts = 0, n_dropped_readers = 0;
  bool is_closing = false;                  // connections end with their answer
  std::shared_ptr<asio::ssl::context> tls;  // of new connections; null: they speak plain HTTP
};

// The answer to request `serial` of a connection.
std::shared_ptr<Reply> make_reply(std::shared_ptr<InputOutput> io, std::weak_ptr<Connection> connection,
                                  uint64_t serial);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionHub& hub, Socket socket, std::string peer);

  void start();
  void start_refused(int status, std::string_view message);  // says so, then closes
  void close_if_idle();
  void drop();                                     // at once, whatever is going on
  bool is_refused() const { return is_refused_; }  // by start_refused()

  // What replies ask for; `serial` tells which request they belong to.
  void send(uint64_t serial, Response response);
  void start_stream(uint64_t serial, Response response, std::string ping);
  void write(uint64_t serial, const std::string& piece);
  void finish(uint64_t serial);
  void fail(uint64_t serial, Response response, const std::string& last_piece);
  void cut_off(uint64_t serial);
  void on_gone(uint64_t serial, std::function<void()> gone);
  void abandon(uint64_t serial);  // the last reply of a request was let go

 private:
  enum class Phase : uint8_t { idle, head, body, answering, closing };
  struct Answer {
    bool is_open = false;  // not ended yet
    bool is_stream = false, has_head = false;
    bool is_head_request = false, is_http_1_0 = false, keeps_alive = false;
    int status = 0;
    Response stream_head;
    std::shared_ptr<void> held;  // Response::held
    uint64_t n_largest = 0;      // bytes of a stream's pieces
    std::string ping, id, method, path;
    std::function<void()> gone;
    Clock::time_point arrived{};
    std::shared_ptr<RequestFacts> facts;
  };

  void spawn();
  asio::awaitable<void> read_loop();
  asio::awaitable<void> write_loop();
  asio::awaitable<void> watch_loop();
  asio::awaitable<bool> shake_hands();
  asio::awaitable<void> wait_until_gone();

  void process();  // takes requests out of buffer_ until one is being answered
  void on_head();
  void on_body_bytes();
  bool owns_body_bytes(size_t n);  // false: refused
  void begin_answer();
  void refuse(int status, std::string_view message);
  void refuse_with(Response response);
  void end_answer();
  void tell_end(int status);
  void end_answering();
  void on_drained();
  void on_read_end();
  bool may_wait_for_answer() const;
  void on_read_deadline();
  void ping();

  bool is_current(uint64_t serial) const { return answer_.is_open && serial == serial_; }
  void queue(std::string bytes);
  void queue_head(const Response& response, std::optional<size_t> n_body);
  void queue_piece(const std::string& piece);
  void set_read_deadline(Clock::time_point at);
  void wake_watch(Clock::time_point at);
  void free_body_bytes();

  ConnectionHub& hub_;
  Socket socket_;
  const std::unique_ptr<TlsStream> tls_;  // around socket_; null: plain
  const std::string peer_;
  asio::steady_timer watch_timer_, write_signal_, read_signal_;
  bool is_shaking_hands_;  // nothing is written yet

  Phase phase_ = Phase::idle;
  bool is_closed_ = false, is_refused_ = false;
  bool has_read_ended_ = false;  // and the client may still read
  bool is_first_ = true;         // no request has come yet
  std::string buffer_;           // received, not parsed
  std::optional<RequestParser> parser_;
  size_t n_body_bytes_ = 0;  // counted among those of all
  Clock::time_point arrived_{}, body_began_{}, body_deadline_{};
  Clock::time_point read_deadline_ = Clock::time_point::max(), write_deadline_ = read_deadline_,
                    ping_at_ = read_deadline_;

  uint64_t serial_ = 0;
  Answer answer_;
  bool is_answering_ = false;  // and the hub knows: until the answer is written
  std::deque<std::string> out_;
  size_t n_out_written_ = 0;  // of out_.front()
  uint64_t n_unsent_ = 0;
};

}  // namespace tamis::server
