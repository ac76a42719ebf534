// Accepting connections: binding, caps, the input/output thread and its end.
// clang-format off
#include "server/http_connection.h"  // first: Boost 1.74's headers do not stand alone
// clang-format on
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include "base/log.h"
#include "server/tls.h"

namespace tamis::server {
namespace {

using boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

constexpr size_t kMaxRefused = 256;  // connections that are being told 503; more are closed without a word
constexpr Milliseconds kAcceptPause{50};
constexpr std::string_view kUnixPrefix = "unix:";

struct Address {
  asio::generic::stream_protocol::endpoint endpoint;
  std::string unix_path;  // "" for TCP
};

Result<Address> address_of(const HttpOptions& options) {
  if (options.host.starts_with(kUnixPrefix)) {
    const std::string path = options.host.substr(kUnixPrefix.size());
    if (path.empty() || path.size() > 100)
      return fail(ErrorCode::invalid_argument, "--host: a socket's path has 1 to 100 bytes, got {}", path.size());
    return Address{asio::local::stream_protocol::endpoint(path), path};
  }
  error_code error;
  const std::string name = options.host == "localhost" ? "127.0.0.1" : options.host;
  const asio::ip::address address = asio::ip::make_address(name, error);
  if (error)
    return fail(ErrorCode::invalid_argument, "--host: got \"{}\", expected an IP address, localhost or unix:PATH",
                escape_for_display(options.host));
  return Address{asio::ip::tcp::endpoint(address, options.port), ""};
}

std::string client_address(const Socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return {};
  const auto* const any = endpoint.data();
  char text[INET6_ADDRSTRLEN] = "";
  if (any->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(any)->sin_addr, text, sizeof text);
  else if (any->sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(any)->sin6_addr, text, sizeof text);
  return text;
}

// A socket that a killed server left behind is in the way of the next one; one that answers is somebody's.
Status remove_stale_socket(const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return {};  // nothing, or bind() says what
  if (!S_ISSOCK(there.st_mode)) return fail(ErrorCode::io, "{}: there is a file that is no socket", path);
  asio::io_context context;
  asio::local::stream_protocol::socket probe(context);
  error_code error;
  probe.connect(asio::local::stream_protocol::endpoint(path), error);
  if (error != asio::error::connection_refused)
    return fail(ErrorCode::io, "{}: another server listens on this socket", path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return fail(ErrorCode::io, "{}: cannot remove the socket that a former server left: {}", path,
                error_code(errno, boost::system::system_category()).message());
  return {};
}

// A connection that is listed already is let go of again where its coroutines find no memory.
template <class Start>
void start_or_drop(Connection& connection, const Start& start) {
  try {
    start();
  } catch (const std::bad_alloc&) {
    connection.drop();
  }
}

class Listener : public HttpServer, public ConnectionHub {
 public:
  Listener(const HttpOptions& given, HttpHandler& given_handler, std::shared_ptr<InputOutput> given_io)
      : ConnectionHub(given, given_handler, std::move(given_io)),
        acceptor_(io->context),
        accept_pause_(io->context),
        work_(asio::make_work_guard(io->context)) {}
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  Status bind();
  void run() override;

  uint16_t port() const override { return port_; }
  std::string url() const override;
  HttpStats stats() const override;
  void close_when_answered() override;
  Status reload_tls() override;
  bool wait_until_answered(Milliseconds time) override;

 private:
  asio::awaitable<void> accept_loop();
  void take(Socket socket);
  void on_closed(Connection& connection) override;
  void on_answering(bool has_begun) override;
  void publish_stats();

  Acceptor acceptor_;
  asio::steady_timer accept_pause_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
  uint16_t port_ = 0;
  std::string unix_path_;

  // of the input/output thread
  std::unordered_map<Connection*, std::pair<std::shared_ptr<Connection>, std::string>> open_;  // with its network
  std::unordered_map<std::string, uint32_t> n_of_network_;
  size_t n_refused_open_ = 0;
  uint64_t n_accepted_ = 0, n_refused_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable answered_;
  uint32_t n_answering_ = 0;  // guarded
  HttpStats published_;       // guarded
};

Status Listener::bind() {
  TAMIS_TRY(const Address address, address_of(options));
  if (!options.tls_certificate.empty()) {
    TAMIS_TRY(tls, read_tls_context(options.tls_certificate, options.tls_key));
  }
  if (!address.unix_path.empty()) TAMIS_TRY_STATUS(remove_stale_socket(address.unix_path));
  error_code error;
  acceptor_.open(address.endpoint.protocol(), error);
  if (!error && address.unix_path.empty()) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && address.endpoint.protocol().family() == AF_INET6)
    acceptor_.set_option(asio::ip::v6_only(false), error);  // [::] serves IPv4, too
  if (!error) acceptor_.bind(address.endpoint, error);
  // Nobody can connect before listen(), so nobody else ever can.
  if (!error && !address.unix_path.empty() && ::chmod(address.unix_path.c_str(), S_IRUSR | S_IWUSR) != 0)
    error = error_code(errno, boost::system::system_category());
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return fail(ErrorCode::io, "{}: cannot listen on port {}: {}", options.host, options.port, error.message());
  unix_path_ = address.unix_path;
  const auto local = acceptor_.local_endpoint(error);
  if (error) return fail(ErrorCode::io, "{}: {}", options.host, error.message());
  if (unix_path_.empty()) {  // the port has the same place in both kinds of address
    const auto* const any = local.data();
    port_ = ntohs(any->sa_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(any)->sin_port
                                            : reinterpret_cast<const sockaddr_in6*>(any)->sin6_port);
  }
  return {};
}

void Listener::run() {
  asio::co_spawn(io->context, accept_loop(), [](const std::exception_ptr& failure) {
    if (failure) log_warning("the listener failed; no more connections are taken");
  });
  thread_ = std::thread([this] {
    for (;;) {
      try {
        io->context.run();
        return;
      } catch (const std::exception& exception) {  // of a handler of ours: the connection it was for times out
        log_warning("input/output: {}", exception.what());
      }
    }
  });
}

Listener::~Listener() {
  asio::post(io->context, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
    const auto open = open_;
    for (const auto& [connection, entry] : open) connection->drop();
    work_.reset();
  });
  if (thread_.joinable()) thread_.join();
  if (!unix_path_.empty()) ::unlink(unix_path_.c_str());
}

std::string Listener::url() const {
  if (!unix_path_.empty()) return options.host;
  const bool is_v6 = options.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", options.tls_certificate.empty() ? "http" : "https", is_v6 ? "[" : "",
                     options.host, is_v6 ? "]" : "", port_);
}

asio::awaitable<void> Listener::accept_loop() {
  while (acceptor_.is_open()) {
    error_code error;
    Socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!acceptor_.is_open()) co_return;
    if (error) {  // out of descriptors, say: those that are open go on
      accept_pause_.expires_after(kAcceptPause);
      error_code ignored;
      co_await accept_pause_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      continue;
    }
    try {
      take(std::move(socket));
    } catch (const std::bad_alloc&) {  // this one is closed; those that are open, and the next ones, go on
      log_warning("a connection is closed: there is no memory for it");
    }
  }
}

void Listener::take(Socket socket) {
  ++n_accepted_;
  error_code ignored;
  if (unix_path_.empty()) socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  const std::string peer = client_address(socket), network = network_of(peer);
  const size_t n_open = open_.size() - n_refused_open_;
  const bool is_capped = options.max_connections_per_ip > 0 && !network.empty();
  const auto counted = n_of_network_.find(network);
  const bool is_full = n_open >= options.max_connections;
  const bool is_greedy =
      is_capped && counted != n_of_network_.end() && counted->second >= options.max_connections_per_ip;
  if (is_full || is_greedy) {
    ++n_refused_;
    if (n_refused_open_ >= kMaxRefused) return publish_stats();
    const auto refused = std::make_shared<Connection>(*this, std::move(socket), peer);
    ++n_refused_open_;
    open_[refused.get()] = {refused, ""};
    start_or_drop(*refused, [&] {
      refused->start_refused(503, is_full ? "too many connections are open" : "too many connections from this address");
    });
    return publish_stats();
  }
  const auto connection = std::make_shared<Connection>(*this, std::move(socket), peer);
  if (is_capped) ++n_of_network_[network];
  open_[connection.get()] = {connection, is_capped ? network : ""};
  start_or_drop(*connection, [&] { connection->start(); });
  publish_stats();
}

void Listener::on_closed(Connection& connection) {
  const auto found = open_.find(&connection);
  if (found == open_.end()) return;
  const std::string network = found->second.second;
  if (connection.is_refused()) --n_refused_open_;
  open_.erase(found);
  if (const auto counted = n_of_network_.find(network); counted != n_of_network_.end() && --counted->second == 0)
    n_of_network_.erase(counted);
  publish_stats();
}

void Listener::on_answering(bool has_begun) {
  const std::lock_guard lock(mutex_);
  n_answering_ += has_begun ? 1 : -1U;
  if (n_answering_ == 0) answered_.notify_all();
}

void Listener::publish_stats() {
  const std::lock_guard lock(mutex_);
  published_ = {static_cast<uint32_t>(open_.size() - n_refused_open_), n_accepted_, n_refused_, n_timeouts,
                n_dropped_readers};
}

HttpStats Listener::stats() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

void Listener::close_when_answered() {
  asio::post(io->context, [this] {
    is_closing = true;
    const auto open = open_;
    for (const auto& [connection, entry] : open) connection->close_if_idle();
  });
}

Status Listener::reload_tls() {
  if (options.tls_certificate.empty()) return {};
  TAMIS_TRY(auto fresh, read_tls_context(options.tls_certificate, options.tls_key));
  asio::post(io->context, [this, fresh = std::move(fresh)] { tls = fresh; });
  return {};
}

bool Listener::wait_until_answered(Milliseconds time) {
  std::unique_lock lock(mutex_);
  return answered_.wait_for(lock, time, [this] { return n_answering_ == 0; });
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::open(const HttpOptions& options, HttpHandler& handler) {
  try {
    auto listener = std::make_unique<Listener>(options, handler, std::make_shared<InputOutput>());
    TAMIS_TRY_STATUS(listener->bind());
    return listener;
  } catch (const boost::system::system_error& error) {  // the network library could not even begin
    return fail(ErrorCode::io, "{}: {}", options.host, error.what());
  }
}

std::string network_of(const std::string& address) {
  in6_addr v6{};
  if (::inet_pton(AF_INET6, address.c_str(), &v6) != 1 || IN6_IS_ADDR_V4MAPPED(&v6)) return address;
  return {reinterpret_cast<const char*>(v6.s6_addr), 8};
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "Unknown";
  }
}

}  // namespace tamis::server
