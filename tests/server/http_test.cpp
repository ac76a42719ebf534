// Connections: deadlines, caps, streams, ends. The handler answers by path; deadlines are milliseconds.
#include "server/http.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/server/client.h"

namespace tamis::server {
namespace {

using test::Client;
using test::get;
using test::HttpAnswer;
using test::milliseconds;
using test::request;

// /echo answers with the body, /stream, /lines (which has no ping) and /held keep the reply for the test, /kept the
// request.
class Handler : public HttpHandler {
 public:
  bool accepts(const RequestHead& head, const std::string&, Response& refused) override {
    if (head.path() != "/forbidden") return true;
    refused = refusal(403, "no");
    return false;
  }
  void handle(Request request, std::shared_ptr<Reply> reply) override {
    reply->on_gone([this] { ++n_gone; });
    const bool is_lines = request.head.path() == "/lines", is_stream = is_lines || request.head.path() == "/stream";
    if (is_stream || request.head.path() == "/held") {
      if (is_stream) {
        Response head;
        head.content_type = is_lines ? "application/x-ndjson" : "text/event-stream";
        reply->start_stream(std::move(head), is_lines ? "" : ": ping\n\n");
      }
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(reply));
      arrived_.notify_all();
      return;
    }
    if (request.head.path() == "/kept") {
      const std::lock_guard lock(mutex_);
      kept_.push_back(request);
      held_.push_back(std::move(reply));
      arrived_.notify_all();
      return;
    }
    if (request.head.path() == "/dropped") return;  // never answers
    Response response;
    response.body = request.body + std::string(request.head.path());
    reply->send(std::move(response));
  }
  Response refusal(int status, std::string_view message) override {
    Response response;
    response.status = status;
    response.body = message;
    return response;
  }
  void on_answered(const Answered& answered) override { last_status = answered.status; }

  std::shared_ptr<Reply> wait_for_held(size_t n = 1) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::seconds(10), [&] { return held_.size() >= n; });
    return held_.size() >= n ? held_[n - 1] : nullptr;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_.clear();
    kept_.clear();
  }

  std::atomic<int> n_gone{0}, last_status{-1};

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::shared_ptr<Reply>> held_;
  std::vector<Request> kept_;
};

class Http : public testing::Test {
 protected:
  void start(HttpOptions options = {}) {
    options.port = 0;
    auto opened = HttpServer::open(options, handler_);
    ASSERT_TRUE(opened) << opened.error().to_string();
    server_ = std::move(*opened);
    server_->run();
  }
  uint16_t port() const { return server_->port(); }
  // Until `condition` holds; a machine may be slow, so there is no other limit than a long one.
  template <class Condition>
  static bool eventually(const Condition& condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }

  Handler handler_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Http, AnswersAndKeepsTheConnection) {
  start();
  Client client(port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(request("POST", "/echo", fmt::format("body {} of ", i))));
    const HttpAnswer answer = client.answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, fmt::format("body {} of /echo", i));
    EXPECT_EQ(answer.header("connection"), "keep-alive");
    EXPECT_EQ(answer.header("x-request-id").size(), 16U);
  }
  EXPECT_TRUE(client.send(request("GET", "/x", "", "Connection: close\r\n")));
  EXPECT_EQ(client.answer().header("connection"), "close");
  EXPECT_TRUE(client.is_closed_within(milliseconds(5000)));
}

TEST_F(Http, PipelinedRequestsAreAnsweredInOrder) {
  start();
  Client client(port());
  std::string all;
  for (int i = 0; i < 20; ++i) all += request("GET", fmt::format("/{}", i));
  ASSERT_TRUE(client.send(all));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.answer().body, fmt::format("/{}", i));
}

TEST_F(Http, HeadHasNoBody) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request("HEAD", "/abc") + request("GET", "/abc")));
  const std::string received = client.receive(milliseconds(5000), "/abc");
  EXPECT_EQ(received.find("/abc"), received.size() - 4);
  EXPECT_NE(received.find("content-length: 4"), std::string::npos);
}

TEST_F(Http, ContinueIsSentToWhoWaitsForIt) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send("POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(client.receive(milliseconds(5000), "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.send("hi"));
  EXPECT_EQ(client.answer().body, "hi/e");
}

TEST_F(Http, RefusedHeadsAreToldBeforeTheirBody) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send("POST /forbidden HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"));
  EXPECT_EQ(client.answer().status, 403);
  EXPECT_TRUE(client.is_closed_within(milliseconds(5000)));
}

TEST_F(Http, OversizeBodiesAreRefusedBeforeTheyAreRead) {  // promise 7
  HttpOptions options;
  options.limits.body_bytes = 1000;
  start(options);
  Client client(port());
  ASSERT_TRUE(client.send("POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000000\r\n\r\nx"));
  EXPECT_EQ(client.answer().status, 413);
}

TEST_F(Http, ManyBodiesTogetherAreBounded) {
  HttpOptions options;
  options.max_waiting_bytes = 100;
  start(options);
  Client first(port());
  ASSERT_TRUE(first.send("POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 80\r\n\r\nx"));
  EXPECT_EQ(first.receive(milliseconds(50)), "");
  EXPECT_EQ(test::ask(port(), "POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nx").status, 503);
  first.close();
  EXPECT_TRUE(eventually([&] { return test::ask(port(), request("POST", "/e", std::string(90, 'a'))).status == 200; }));
}

TEST_F(Http, BodiesCountUntilTheyAreGone) {  // a handler may be busy with them when their client has left
  HttpOptions options;
  options.max_waiting_bytes = 100;
  start(options);
  Client client(port());
  ASSERT_TRUE(client.send(request("POST", "/kept", std::string(80, 'a'))));
  ASSERT_TRUE(handler_.wait_for_held());
  client.close();
  ASSERT_TRUE(eventually([&] { return handler_.n_gone == 1; }));
  EXPECT_EQ(test::ask(port(), request("POST", "/e", std::string(30, 'a'))).status, 503);
  handler_.release();
  EXPECT_EQ(test::ask(port(), request("POST", "/e", std::string(90, 'a'))).status, 200);
}

TEST_F(Http, SlowHeadersEndAndKeepNobodyWaiting) {  // promise 3; fault of ten half-sent headers
  HttpOptions options;
  options.head_time = milliseconds(400);
  start(options);
  std::vector<Client> slow;
  for (int i = 0; i < 50; ++i) {
    slow.emplace_back(port());
    ASSERT_TRUE(slow.back().send("GET /x HTTP/1.1\r\nHost: a\r\nX-"));
  }
  EXPECT_EQ(get(port(), "/health").status, 200);
  for (Client& client : slow) {
    client.send("a");  // a byte now and then does not move the deadline
    EXPECT_EQ(client.answer(milliseconds(5000)).status, 408);
    EXPECT_TRUE(client.is_closed_within(milliseconds(5000)));
  }
  EXPECT_TRUE(eventually([&] { return server_->stats().n_connections == 0; }));
  EXPECT_EQ(server_->stats().n_timeouts, 50U);
}

TEST_F(Http, SlowBodiesEnd) {  // promise 4
  HttpOptions options;
  options.body_grace = milliseconds(200);
  start(options);
  Client client(port());
  ASSERT_TRUE(client.send("POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc"));
  EXPECT_EQ(client.answer(milliseconds(5000)).status, 408);
}

TEST_F(Http, IdleConnectionsEndWithoutAWord) {
  HttpOptions options;
  options.idle_time = milliseconds(100);
  options.head_time = milliseconds(100);
  start(options);
  Client silent(port()), idle(port());
  ASSERT_TRUE(idle.send(request("GET", "/x")));
  EXPECT_EQ(idle.answer().status, 200);
  EXPECT_TRUE(idle.is_closed_within(milliseconds(5000)));
  EXPECT_EQ(silent.receive(milliseconds(5000)), "");
  EXPECT_TRUE(silent.is_closed_within(milliseconds(100)));
}

TEST_F(Http, OneConnectionTooManyIsToldAtOnce) {  // promise 6: the 65th of an address
  HttpOptions options;
  options.max_connections_per_ip = 64;
  start(options);
  std::vector<Client> open;
  for (int i = 0; i < 64; ++i) {
    open.emplace_back(port());
    ASSERT_TRUE(open.back().send(request("GET", "/x")));
    ASSERT_EQ(open.back().answer().status, 200);
  }
  const auto before = std::chrono::steady_clock::now();
  Client refused(port());
  EXPECT_EQ(refused.answer().status, 503);  // without a request
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
  open.pop_back();
  EXPECT_TRUE(eventually([&] { return get(port(), "/x").status == 200; }));
  EXPECT_GE(server_->stats().n_refused, 1U);
}

TEST_F(Http, AllConnectionsTogetherAreCapped) {
  HttpOptions options;
  options.max_connections = 3;
  options.max_connections_per_ip = 0;
  start(options);
  std::vector<Client> open;
  for (int i = 0; i < 3; ++i) {
    open.emplace_back(port());
    ASSERT_TRUE(open.back().send(request("GET", "/x")));
    ASSERT_EQ(open.back().answer().status, 200);
  }
  EXPECT_EQ(get(port(), "/x").status, 503);
}

TEST_F(Http, StreamsComeInOrderAndEnd) {  // promise 18
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request("GET", "/stream") + request("GET", "/next")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    const std::string piece = fmt::format("data: {}\n\n", i);
    reply->write(piece);
    all += piece;
  }
  reply->finish();
  reply->write("after the end");
  const HttpAnswer answer = client.answer();
  EXPECT_TRUE(answer.is_whole);
  EXPECT_EQ(answer.body, all);
  EXPECT_EQ(client.answer().body, "/next");
  EXPECT_EQ(handler_.n_gone, 0);
}

TEST_F(Http, StreamsToHttp10EndWithTheConnection) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send("GET /stream HTTP/1.0\r\n\r\n"));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  reply->write("abc");
  reply->finish();
  const HttpAnswer answer = client.answer();
  EXPECT_EQ(answer.body, "abc");
  EXPECT_EQ(answer.header("transfer-encoding"), "");
}

TEST_F(Http, SilentStreamsPing) {
  HttpOptions options;
  options.ping_time = milliseconds(50);
  start(options);
  Client client(port());
  ASSERT_TRUE(client.send(request("GET", "/stream")));
  EXPECT_NE(client.receive(milliseconds(5000), ": ping").find("200 OK"), std::string::npos);
}

TEST_F(Http, AFailureBeforeTheFirstPieceHasItsOwnStatus) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request("GET", "/stream")));
  auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  reply->fail(handler_.refusal(503, "busy"), "late");
  EXPECT_EQ(client.answer().status, 503);

  ASSERT_TRUE(client.send(request("GET", "/stream")));
  reply = handler_.wait_for_held(2);
  ASSERT_TRUE(reply);
  reply->write("some");
  reply->fail(handler_.refusal(503, "busy"), "late");
  const HttpAnswer answer = client.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "somelate");
  EXPECT_TRUE(answer.is_whole);
}

TEST_F(Http, AnAbortedStreamIsNotWhole) {  // promise 18
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request("GET", "/stream")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  reply->write("some");
  EXPECT_NE(client.receive(milliseconds(5000), "some").find("some"), std::string::npos);
  reply->cut_off();
  EXPECT_TRUE(client.is_closed_within(milliseconds(5000)));
  EXPECT_EQ(client.receive(milliseconds(10)).find("0\r\n"), std::string::npos);
}

TEST_F(Http, WhoLeavesIsNoticed) {  // promise 15, the part below the scheduler
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request("GET", "/held")));
  ASSERT_TRUE(handler_.wait_for_held());
  client.close();
  EXPECT_TRUE(eventually([&] { return handler_.n_gone == 1; }));
  EXPECT_TRUE(eventually([&] { return handler_.last_status == 0; }));
}

const std::string kInterim = "HTTP/1.1 102 Processing\r\n\r\n";

TEST_F(Http, WhoEndsItsSideStillGetsItsAnswer) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request("GET", "/held")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  client.end_sending();
  EXPECT_EQ(client.receive(milliseconds(10000), kInterim), kInterim);  // the server has seen it
  Response response;
  response.body = "all of it";
  reply->send(std::move(response));
  const HttpAnswer answer = client.answer();
  EXPECT_EQ(answer.body, "all of it");
  EXPECT_TRUE(answer.is_whole);
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(client.is_closed_within(milliseconds(10000)));
  EXPECT_EQ(handler_.n_gone, 0);
  EXPECT_EQ(handler_.last_status, 200);
  EXPECT_TRUE(eventually([&] { return server_->stats().n_connections == 0; }));
}

TEST_F(Http, WhoEndsItsSideStillGetsItsStream) {
  start();
  int n_held = 0;
  for (const char* const path : {"/stream", "/lines"}) {
    Client client(port());
    ASSERT_TRUE(client.send(request("GET", path)));
    const auto reply = handler_.wait_for_held(static_cast<size_t>(++n_held));
    ASSERT_TRUE(reply);
    reply->write("first;");
    const std::string begin = client.receive(milliseconds(10000), "first;\r\n");
    EXPECT_NE(begin.find("connection: keep-alive"), std::string::npos) << begin;
    client.end_sending();
    if (path == std::string("/stream")) {
      EXPECT_EQ(client.receive(milliseconds(10000), ": ping\n\n\r\n"), "8\r\n: ping\n\n\r\n");
    }
    reply->write("second;");
    EXPECT_EQ(client.receive(milliseconds(10000), "second;\r\n"), "7\r\nsecond;\r\n");
    reply->finish();
    EXPECT_EQ(client.receive(milliseconds(10000)), "0\r\n\r\n");  // and the connection's end
    EXPECT_TRUE(client.is_closed_within(milliseconds(1)));
  }
  EXPECT_EQ(handler_.n_gone, 0);
}

TEST_F(Http, AStreamBegunBeforeItsClientEndsItsSideMayStillFail) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request("GET", "/stream")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  client.end_sending();
  EXPECT_EQ(client.receive(milliseconds(10000), kInterim), kInterim);  // and not the stream's head
  reply->fail(handler_.refusal(503, "busy"), "late");
  EXPECT_EQ(client.answer().status, 503);
}

TEST_F(Http, WhoEndsItsSideAndThenLeavesIsNoticed) {
  HttpOptions options;
  options.ping_time = milliseconds(50);
  start(options);
  Client client(port());
  ASSERT_TRUE(client.send(request("GET", "/held")));
  ASSERT_TRUE(handler_.wait_for_held());
  client.end_sending();
  EXPECT_EQ(client.receive(milliseconds(10000), kInterim), kInterim);
  EXPECT_EQ(handler_.n_gone, 0);
  client.close();
  EXPECT_TRUE(eventually([&] { return handler_.n_gone == 1; }));
}

TEST_F(Http, WhoLeavesInTheMiddleOfAStreamIsNoticedAtOnce) {
  start();
  Client client(port()), reader(port());
  ASSERT_TRUE(client.send(request("GET", "/stream")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  reply->write("some");
  EXPECT_NE(client.receive(milliseconds(10000), "some\r\n").find("some"), std::string::npos);
  client.close();  // all was read: its machine says no more than that it ends its side
  EXPECT_TRUE(eventually([&] { return handler_.n_gone == 1; }));

  ASSERT_TRUE(reader.send(request("GET", "/lines")));  // no ping: the next piece finds it out
  const auto lines = handler_.wait_for_held(2);
  ASSERT_TRUE(lines);
  lines->write("some");
  EXPECT_NE(reader.receive(milliseconds(10000), "some\r\n").find("some"), std::string::npos);
  reader.close();
  EXPECT_TRUE(eventually([&] {
    lines->write("more");
    return handler_.n_gone == 2;
  }));
}

TEST_F(Http, ToHttp10EndingItsSideIsLeaving) {  // it knows no interim responses
  start();
  Client client(port());
  ASSERT_TRUE(client.send("GET /held HTTP/1.0\r\n\r\n"));
  ASSERT_TRUE(handler_.wait_for_held());
  client.end_sending();
  EXPECT_TRUE(eventually([&] { return handler_.n_gone == 1; }));
  EXPECT_EQ(client.receive(milliseconds(10000)), "");
}

TEST_F(Http, WhoDoesNotReadIsDroppedAndCostsLittle) {  // promise 5
  HttpOptions options;
  options.max_unsent_bytes = 200000;
  start(options);
  Client client(port(), 4096);
  ASSERT_TRUE(client.send(request("GET", "/stream")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  const std::string piece(10000, 'x');
  size_t n_written = 0;
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 100; ++i, n_written += piece.size()) reply->write(piece);
    return handler_.n_gone == 1;
  })) << n_written;
  EXPECT_TRUE(eventually([&] { return server_->stats().n_dropped_readers == 1; }));  // told when it is closed
}

TEST_F(Http, AReaderThatStopsIsDroppedAfterAWhile) {  // promise 5
  HttpOptions options;
  options.write_time = milliseconds(200);
  options.max_unsent_bytes = uint64_t{1} << 30;
  start(options);
  Client client(port(), 4096);
  ASSERT_TRUE(client.send(request("GET", "/stream")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  for (int i = 0; i < 2000; ++i) reply->write(std::string(10000, 'x'));  // more than any socket buffers
  EXPECT_TRUE(eventually([&] { return handler_.n_gone == 1; }));
}

TEST_F(Http, ARequestThatIsNeverAnsweredGets500) {
  start();
  EXPECT_EQ(get(port(), "/dropped").status, 500);
}

TEST_F(Http, ConnectionsCloseWhenTheServerSaysSo) {
  start();
  Client idle(port()), busy(port());
  ASSERT_TRUE(idle.send(request("GET", "/x")));
  EXPECT_EQ(idle.answer().status, 200);
  ASSERT_TRUE(busy.send(request("GET", "/stream")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  reply->write("a");
  server_->close_when_answered();
  EXPECT_TRUE(idle.is_closed_within(milliseconds(5000)));
  EXPECT_FALSE(server_->wait_until_answered(milliseconds(50)));
  reply->write("b");
  reply->finish();
  EXPECT_TRUE(server_->wait_until_answered(milliseconds(5000)));
  EXPECT_EQ(busy.answer().body, "ab");
  EXPECT_TRUE(busy.is_closed_within(milliseconds(5000)));
  EXPECT_EQ(get(port(), "/health").header("connection"), "close");  // probes are still answered
}

TEST_F(Http, AnAnswerIsGivenWhenItIsWritten) {  // promise 17: a drain that ends earlier would cut it off
  start();
  Client client(port(), 4096);
  ASSERT_TRUE(client.send(request("GET", "/stream")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  const std::string piece(20000000, 'x');  // more than any socket buffers
  reply->write(piece);
  reply->finish();
  server_->close_when_answered();
  EXPECT_FALSE(server_->wait_until_answered(milliseconds(200)));
  const HttpAnswer answer = client.answer();
  EXPECT_TRUE(answer.is_whole);
  EXPECT_EQ(answer.body.size(), piece.size());
  EXPECT_TRUE(server_->wait_until_answered(milliseconds(5000)));
}

TEST_F(Http, RepliesOutliveTheServer) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request("GET", "/stream")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  server_.reset();
  reply->write("too late");
  reply->finish();
  EXPECT_TRUE(client.is_closed_within(milliseconds(5000)));
}

TEST_F(Http, ThePortMayBeTaken) {
  start();
  HttpOptions options;
  options.port = port();
  const auto second = HttpServer::open(options, handler_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::io);
  options.host = "nowhere";
  EXPECT_EQ(HttpServer::open(options, handler_).error().code, ErrorCode::invalid_argument);
}

TEST(NetworkOf, IsWhatOneClientIsLikelyToOwn) {  // promises 6 and 25
  EXPECT_EQ(network_of("2001:db8:1:2::1"), network_of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
  EXPECT_NE(network_of("2001:db8:1:2::1"), network_of("2001:db8:1:3::1"));
  EXPECT_EQ(network_of("192.0.2.7"), "192.0.2.7");
  EXPECT_NE(network_of("::ffff:192.0.2.7"), network_of("::ffff:192.0.2.8"));
  EXPECT_EQ(network_of(""), "");
}

TEST_F(Http, ServesUnixSockets) {
  HttpOptions options;
  options.host = "unix:" + testing::TempDir() + "tamis_http_test.sock";
  start(options);
  EXPECT_EQ(server_->url(), options.host);
  Client client(options.host.substr(5)), leaving(options.host.substr(5));
  ASSERT_TRUE(client.is_connected() && leaving.is_connected());
  ASSERT_TRUE(client.send(request("GET", "/held")));
  const auto reply = handler_.wait_for_held();
  ASSERT_TRUE(reply);
  client.end_sending();
  EXPECT_EQ(client.receive(milliseconds(10000), kInterim), kInterim);
  ASSERT_TRUE(leaving.send(request("GET", "/held")));
  ASSERT_TRUE(handler_.wait_for_held(2));
  leaving.close();
  EXPECT_TRUE(eventually([&] { return handler_.n_gone == 1; }));
  reply->send(Response());
  EXPECT_EQ(client.answer().status, 200);
  server_.reset();
  EXPECT_NE(::access(options.host.substr(5).c_str(), F_OK), 0);
}

}  // namespace
}  // namespace tamis::server
