// The client on Asio's callbacks: one Exchange a request, all on the thread that calls run().
#include "cli/load_client.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <deque>
#include <unordered_map>

#include "cli/http_answer.h"

namespace tamis::cli {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using tcp = asio::ip::tcp;

constexpr size_t kMaxErrorBytes = 65536;              // of the body of a refusal
constexpr size_t kMaxAnswerBytes = size_t{16} << 20;  // of get()
constexpr auto kStopPoll = std::chrono::milliseconds(50);

Clock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

uint64_t count_of(const Json* object, std::string_view key) {
  const Json* value = object == nullptr ? nullptr : object->find(key);
  return value != nullptr && value->is_int() ? static_cast<uint64_t>(std::max<int64_t>(0, value->as_int())) : 0;
}

// Appends `value`, where it is a text, to `out`; whether there was any.
bool take_text(const Json* value, std::string& out) {
  if (value == nullptr || !value->is_string()) return false;
  out += value->as_string();
  return !value->as_string().empty();
}

// Whether a chunk of a chat or text completion brings something of the answer; its content goes to `text`.
bool take_piece(const Json& chunk, std::string& text) {
  const Json* choices = chunk.find("choices");
  if (choices == nullptr || !choices->is_array()) return false;
  bool has_piece = false;
  std::string aside;
  for (const Json& choice : choices->as_array()) {
    const Json* delta = choice.find("delta");
    has_piece |= take_text(delta == nullptr ? choice.find("text") : delta->find("content"), text);
    if (delta == nullptr) continue;
    const Json* calls = delta->find("tool_calls");
    has_piece |= take_text(delta->find("reasoning_content"), aside);
    has_piece |= calls != nullptr && calls->is_array() && !calls->as_array().empty();
  }
  return has_piece;
}

std::string message_of(const Json& body) {
  const Json* error = body.find("error");
  const Json* message = error == nullptr ? nullptr : error->is_string() ? error : error->find("message");
  return message != nullptr && message->is_string() ? escape_for_display(message->as_string(), 120) : std::string();
}

// usage where the server has it; llama.cpp's server counts cached tokens in `timings` only.
void read_usage(const Json& chunk, LoadTrace& trace) {
  const Json* usage = chunk.find("usage");
  if (usage == nullptr || !usage->is_object()) return;
  trace.n_prompt = count_of(usage, "prompt_tokens");
  trace.n_output = count_of(usage, "completion_tokens");
  const Json* details = usage->find("prompt_tokens_details");
  trace.n_cached = details != nullptr && details->is_object() ? count_of(details, "cached_tokens")
                                                              : count_of(chunk.find("timings"), "cache_n");
}

class Client;

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Client& client, size_t trace_idx, LoadCall call);
  void start();
  void finish(std::string error);  // once; "" = a whole answer
  void cancel();
  bool is_done() const { return is_done_; }
  std::string take_body() { return std::move(body_); }

 private:
  void write();
  void read();
  void on_bytes(std::string_view bytes);
  bool take_body_bytes();  // false: it is finished
  bool on_event(const std::string& data);
  void on_answer_end();
  LoadTrace& trace();

  Client& client_;
  const size_t trace_idx_;
  LoadCall call_;
  tcp::socket socket_;
  asio::steady_timer deadline_;
  std::string request_, body_;
  std::array<char, 16384> chunk_{};
  HttpAnswerParser parser_;
  EventStream events_;
  bool is_done_ = false, is_stream_over_ = false;
};

class Client : public LoadClient {
 public:
  Client(LoadTarget where, double timeout) : target(std::move(where)), timeout_s(timeout) {}

  Status look_up() {
    error_code error;
    tcp::resolver resolver(io);
    addresses = resolver.resolve(target.host, target.port, error);
    if (error || addresses.empty())
      return fail(ErrorCode::network, "{}:{}: {}", target.host, target.port, error.message());
    return {};
  }

  size_t send(LoadCall call) override {
    const size_t idx = n_taken_ + traces_.size();
    traces_.push_back({.client = call.client, .sent = now()});
    const auto exchange = std::make_shared<Exchange>(*this, idx, std::move(call));
    open_[idx] = exchange;
    exchange->start();
    return idx;
  }

  void cancel(size_t trace_idx) override {
    const auto found = open_.find(trace_idx);
    if (found == open_.end()) return;
    const auto exchange = found->second;
    exchange->cancel();
  }

  void cancel_all() override {
    while (!open_.empty()) cancel(open_.begin()->first);
  }

  void plan(double when, std::function<void()> work) override {
    const auto timer = std::make_shared<asio::steady_timer>(io, start_ + to_duration(when));
    plans_.push_back(timer);
    timer->async_wait([this, timer, round = n_drops_, work = std::move(work)](const error_code& error) {
      if (!error && round == n_drops_) work();  // a timer that had run out cannot be cancelled any more
    });
  }

  void drop_plans() override {
    for (const auto& plan : plans_)
      if (const auto timer = plan.lock()) timer->cancel();
    plans_.clear();
    ++n_drops_;
  }

  double now() const override { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  Status run(const std::atomic<bool>& stop) override {
    io.restart();
    while (!io.stopped()) {
      io.run_for(kStopPoll);
      if (!stop.load()) continue;
      drop_plans();
      cancel_all();
      return fail(ErrorCode::cancelled, "stopped");
    }
    return {};
  }

  const LoadTrace& trace(size_t trace_idx) const override { return traces_[trace_idx - n_taken_]; }
  LoadTrace& trace(size_t trace_idx) { return traces_[trace_idx - n_taken_]; }

  std::vector<LoadTrace> take_traces() override {
    n_taken_ += traces_.size();
    plans_.clear();
    std::vector<LoadTrace> out(std::make_move_iterator(traces_.begin()), std::make_move_iterator(traces_.end()));
    traces_.clear();
    return out;
  }

  Result<Json> get(const std::string& path, const std::string& key, const std::atomic<bool>& stop) override {
    traces_.push_back({.sent = now()});
    const size_t idx = n_taken_ + traces_.size() - 1;
    const auto exchange = std::make_shared<Exchange>(*this, idx, LoadCall{.path = path, .key = key});
    open_[idx] = exchange;
    exchange->start();
    const Status ran = run(stop);
    const LoadTrace seen = std::move(traces_.back());
    traces_.pop_back();
    TAMIS_TRY_STATUS(ran);
    if (!seen.error.empty()) return fail(ErrorCode::network, "{}: {}", path, seen.error);
    auto json = Json::parse(exchange->take_body());
    if (!json) return fail(ErrorCode::network, "{}: the answer is not JSON: {}", path, json.error().message);
    return std::move(*json);
  }

  void on_end(size_t trace_idx) { open_.erase(trace_idx); }

  asio::io_context io;
  const LoadTarget target;
  const double timeout_s;
  tcp::resolver::results_type addresses;  // the first that takes the connection is used

 private:
  const Clock::time_point start_ = Clock::now();
  std::deque<LoadTrace> traces_;  // references stay while others are added
  size_t n_taken_ = 0;            // traces handed out already
  std::unordered_map<size_t, std::shared_ptr<Exchange>> open_;
  std::vector<std::weak_ptr<asio::steady_timer>> plans_;
  uint64_t n_drops_ = 0;
};

Exchange::Exchange(Client& client, size_t trace_idx, LoadCall call)
    : client_(client), trace_idx_(trace_idx), call_(std::move(call)), socket_(client.io), deadline_(client.io) {
  const bool is_get = call_.body.empty();
  const LoadTarget& target = client.target;
  const bool is_v6 = target.host.find(':') != std::string::npos;
  request_ = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}{}{}:{}\r\nConnection: close\r\nAccept: */*\r\n",
                         is_get ? "GET" : "POST", target.base_path, call_.path, is_v6 ? "[" : "", target.host,
                         is_v6 ? "]" : "", target.port);
  if (!call_.key.empty()) request_ += fmt::format("Authorization: Bearer {}\r\n", call_.key);
  if (!is_get) request_ += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", call_.body.size());
  request_ += "\r\n" + call_.body;
}

LoadTrace& Exchange::trace() { return client_.trace(trace_idx_); }

void Exchange::start() {
  const auto self = shared_from_this();
  deadline_.expires_after(to_duration(client_.timeout_s));
  deadline_.async_wait([self](const error_code& error) {
    if (!error) self->finish(fmt::format("no end within {} s", self->client_.timeout_s));
  });
  asio::async_connect(socket_, client_.addresses, [self](const error_code& error, const tcp::endpoint&) {
    if (self->is_done_) return;
    if (error) return self->finish("connect: " + error.message());
    error_code ignored;
    self->socket_.set_option(tcp::no_delay(true), ignored);
    self->write();
  });
}

// A server that refuses may answer before it has read all: whatever the write says, the answer is read.
void Exchange::write() {
  const auto self = shared_from_this();
  asio::async_write(socket_, asio::buffer(request_), [self](const error_code&, size_t) {
    if (!self->is_done_) self->read();
  });
}

void Exchange::read() {
  const auto self = shared_from_this();
  socket_.async_read_some(asio::buffer(chunk_), [self](const error_code& error, size_t n) {
    if (self->is_done_) return;
    if (!error) return self->on_bytes({self->chunk_.data(), n});
    if (error != asio::error::eof) return self->finish("read: " + error.message());
    const Status whole = self->parser_.end();
    if (!whole) return self->finish(whole.error().message);
    if (self->take_body_bytes()) self->on_answer_end();
  });
}

void Exchange::on_bytes(std::string_view bytes) {
  const Status fed = parser_.feed(bytes);
  if (!fed) return finish(fed.error().message);
  if (parser_.has_head()) trace().status = parser_.status();
  if (!take_body_bytes()) return;
  if (parser_.is_done()) return on_answer_end();
  read();
}

bool Exchange::take_body_bytes() {
  std::string body = parser_.take_body();
  if (!parser_.header("content-type").starts_with("text/event-stream") || parser_.status() != 200) {
    const bool is_answer = call_.body.empty() && parser_.status() == 200;
    if (is_answer && body_.size() + body.size() > kMaxAnswerBytes) {
      finish("the answer is too long");
      return false;
    }
    if (is_answer || body_.size() < kMaxErrorBytes) body_ += body;
    return true;
  }
  const auto events = events_.feed(body);
  if (!events) {
    finish(events.error().message);
    return false;
  }
  return std::all_of(events->begin(), events->end(), [&](const std::string& data) { return on_event(data); });
}

bool Exchange::on_event(const std::string& data) {
  if (data == "[DONE]") {
    is_stream_over_ = true;
    return true;
  }
  const auto chunk = Json::parse(data);
  if (!chunk) {
    finish("an event is not JSON");
    return false;
  }
  if (chunk->find("error") != nullptr) {
    finish("in the stream: " + message_of(*chunk));
    return false;
  }
  read_usage(*chunk, trace());
  if (!take_piece(*chunk, trace().text)) return true;
  trace().pieces.push_back(client_.now());
  if (call_.on_piece) call_.on_piece(trace());
  return !is_done_;  // the callback may have cancelled
}

void Exchange::on_answer_end() {
  const int status = parser_.status();
  if (status != 200) {
    const auto json = Json::parse(body_);
    const std::string message = json ? message_of(*json) : std::string();
    return finish(fmt::format("HTTP {}{}{}", status, message.empty() ? "" : ": ", message));
  }
  if (call_.body.empty()) return finish("");
  finish(is_stream_over_ ? "" : "the stream ended without [DONE]");
}

void Exchange::finish(std::string error) {
  if (is_done_) return;
  is_done_ = true;
  error_code ignored;
  socket_.close(ignored);
  deadline_.cancel();
  LoadTrace& seen = trace();
  seen.ended = client_.now();
  seen.error = std::move(error);
  if (seen.n_output == 0) seen.n_output = seen.pieces.size();
  const auto self = shared_from_this();
  client_.on_end(trace_idx_);
  if (call_.on_end) call_.on_end(seen);
}

void Exchange::cancel() {
  if (is_done_) return;
  trace().is_cancelled = true;
  finish("");
}

}  // namespace

Result<LoadTarget> parse_load_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://"))
    return fail(ErrorCode::unsupported, "{}: https is not supported here; measure behind the TLS", url);
  if (!url.starts_with(kScheme))
    return fail(ErrorCode::invalid_argument, "got \"{}\", expected http://HOST[:PORT][/PATH]", escape_for_display(url));
  std::string rest = url.substr(kScheme.size());
  LoadTarget target;
  const size_t slash = rest.find('/');
  if (slash != std::string::npos) target.base_path = rest.substr(slash);
  while (target.base_path.ends_with('/')) target.base_path.pop_back();
  rest.resize(std::min(slash, rest.size()));
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string::npos && rest.find(']', colon) == std::string::npos;
  target.port = has_port ? rest.substr(colon + 1) : "80";
  target.host = has_port ? rest.substr(0, colon) : rest;
  if (target.host.starts_with('[') && target.host.ends_with(']'))
    target.host = target.host.substr(1, target.host.size() - 2);
  const bool is_number =
      !target.port.empty() && target.port.size() <= 5 &&
      std::all_of(target.port.begin(), target.port.end(), [](char c) { return c >= '0' && c <= '9'; });
  const bool is_plain = std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < 127; });
  if (target.host.empty() || !is_number || !is_plain)
    return fail(ErrorCode::invalid_argument, "got \"{}\", expected http://HOST[:PORT][/PATH]", escape_for_display(url));
  return target;
}

Result<std::unique_ptr<LoadClient>> LoadClient::create(const LoadTarget& target, double timeout_s) {
  auto client = std::make_unique<Client>(target, timeout_s);
  TAMIS_TRY_STATUS(client->look_up());
  return client;
}

}  // namespace tamis::cli
