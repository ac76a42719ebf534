// HTTP/1.1 over TCP or a unix socket: connections with absolute deadlines and caps, requests handed to a handler,
// replies sent whole or as a stream. Between the network and the routes (server). One thread does all input and output;
// the network library sits behind http_listener.cpp and http_connection.cpp alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/http_request.h"

namespace tamis::server {

using Milliseconds = std::chrono::milliseconds;

struct HttpOptions {
  std::string host = "127.0.0.1";        // an address, or "unix:PATH"
  uint16_t port = 8080;                  // 0 = any that is free
  std::string tls_certificate, tls_key;  // PEM files, the chain's and its key's; "" = plain HTTP
  HttpLimits limits;
  uint32_t max_connections = 1024;                   // in all; one more is told 503 at once
  uint32_t max_connections_per_ip = 64;              // 0 = no such cap; IPv6: of a /64 network
  uint64_t max_waiting_bytes = uint64_t{512} << 20;  // of all request bodies in memory, handled ones too; then 503
  uint64_t max_unsent_bytes = uint64_t{1} << 20;  // of a stream, beside its largest piece; else its reader is dropped

  Milliseconds head_time{10000};  // from a request's first byte (or the connection's start) to the end of its header
  Milliseconds idle_time{60000};  // between requests
  Milliseconds body_time{60000};  // for a body, and 1 s more for each MiB of Content-Length
  Milliseconds body_grace{5000};  // until body_bytes_per_second is asked for
  uint32_t body_bytes_per_second = 1024;
  Milliseconds write_time{30000};  // without a byte taken by the reader
  Milliseconds linger_time{1000};  // for a refused sender to read why
  Milliseconds ping_time{15000};   // a stream without news sends its ping
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::shared_ptr<void> held;  // let go when the answer is sent, or its connection closed
};

std::string_view reason_phrase(int status);

// Where the answer to one request goes. Any thread may call; calls take effect in their order, on the input/output
// thread. What comes after the end of the answer, or after the client has gone, is dropped.
class Reply {
 public:
  virtual ~Reply() = default;
  // The whole answer. Replaces a stream of which nothing has been sent.
  virtual void send(Response response) = 0;
  // The answer will be a stream with the head of `response`, sent with the first piece, or when nothing has come for
  // ping_time: then, and every ping_time after, `ping` is sent ("": nothing is).
  virtual void start_stream(Response response, std::string ping) = 0;
  virtual void write(std::string piece) = 0;
  virtual void finish() = 0;
  // Something went wrong: `response` is the answer while nothing of a stream has been sent; else `last_piece` ends it.
  virtual void fail(Response response, std::string last_piece) = 0;
  // Ends the connection in the middle of the answer, so that it cannot be taken for whole.
  virtual void cut_off() = 0;
  // `gone` is called once, on the input/output thread, if the client leaves (or is dropped) before the answer's end.
  virtual void on_gone(std::function<void()> gone) = 0;
  // Runs `work` on the input/output thread: formatting that must not keep the caller.
  virtual void post(std::function<void()> work) = 0;
};

struct RequestTrace;

// What the handler finds out about a request, for on_answered(). Of the input/output thread.
struct RequestFacts {
  std::string owner;   // whose key it is, for the log; "" when none is needed
  std::string tenant;  // the same for shares and sessions: the key's id, whatever other keys there are
  bool is_generation = false;
  size_t n_prompt = 0, n_cached = 0, n_generated = 0;  // tokens
  double queue_ms = 0, first_token_ms = 0;
  std::string end;                      // "stop", "length", "failed", "cancelled", …
  std::shared_ptr<RequestTrace> trace;  // null: it is not traced
};

struct Request {
  RequestHead head;
  std::string body;
  std::string peer;                                 // the client's address, for limits and logs: "" on a unix socket
  std::string id;                                   // of this request, 16 hexadecimal digits; goes back as x-request-id
  std::chrono::steady_clock::time_point arrived{};  // its first byte
  std::shared_ptr<void> body_count;                 // while it lives, the body counts towards max_waiting_bytes
  std::shared_ptr<RequestFacts> facts;
};

// How a request ended.
struct Answered {
  std::string_view method, path;  // "" when it was refused before they were read
  std::string_view id, peer;
  int status = 0;                       // 0: the client left first
  double seconds = 0;                   // from its first byte
  const RequestFacts* facts = nullptr;  // null: refused before the handler got it
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Both run on the input/output thread and must be quick. A head may be refused before its body is read.
  // true: read on; false: `refusal` is the answer and the connection closes.
  virtual bool accepts(const RequestHead& head, const std::string& peer, Response& refusal) = 0;
  virtual void handle(Request request, std::shared_ptr<Reply> reply) = 0;
  // The answer to what is refused below the routes: a body of the one error schema.
  virtual Response refusal(int status, std::string_view message) = 0;
  // After each request.
  virtual void on_answered(const Answered& answered) = 0;
};

struct HttpStats {
  uint32_t n_connections = 0;
  uint64_t n_accepted = 0, n_refused = 0, n_timeouts = 0, n_dropped_readers = 0;
};

class HttpServer {
 public:
  // Binds; connections wait until run(). `handler` outlives the server. Errors: invalid_argument for a host that is no
  // address; io when the address cannot be bound; io, not_found, format for a certificate or key that cannot be used.
  static Result<std::unique_ptr<HttpServer>> open(const HttpOptions& options, HttpHandler& handler);
  virtual ~HttpServer() = default;  // closes everything
  virtual void run() = 0;           // once: starts the input/output thread, and with it the handler's calls

  virtual uint16_t port() const = 0;
  virtual std::string url() const = 0;  // "http://127.0.0.1:8080", "https://…" or "unix:PATH"
  virtual HttpStats stats() const = 0;
  // From now on connections close after their answer, idle ones at once; new ones are still taken, for probes.
  virtual void close_when_answered() = 0;
  // Reads certificate and key again, for connections from now on. Errors: as open(); then the old ones stay.
  virtual Status reload_tls() = 0;
  // Waits until no answer is being made or sent; false when some still are after `time`.
  virtual bool wait_until_answered(Milliseconds time) = 0;
};

// The part of a client's address that one client is likely to own: of IPv6 the /64 network, else the whole. For limits;
// equal for two addresses of the same one.
std::string network_of(const std::string& address);

// Lets this process open as many descriptors as its hard limit allows.
void raise_descriptor_limit();

}  // namespace tamis::server
