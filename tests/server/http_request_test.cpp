// The request parser: what is taken, what is refused with which status, and that no cut of the bytes changes it.
#include "server/http_request.h"

#include <gtest/gtest.h>

#include <optional>

namespace tamis::server {
namespace {

struct Parsed {
  RequestParser::State state = RequestParser::State::head;
  int fault_status = 0;
  std::optional<RequestHead> head;
  std::string body;
  size_t n_taken = 0;
};

Parsed parse(std::string_view bytes, size_t step, const HttpLimits& limits = {}) {
  RequestParser parser(limits);
  Parsed out;
  for (size_t i = 0; i < bytes.size();) {
    const size_t n = std::min(step, bytes.size() - i);
    const size_t taken = parser.feed(bytes.substr(i, n));
    i += taken;
    out.n_taken = i;
    if (parser.state() == RequestParser::State::head_done) parser.read_body();
    const bool is_over = parser.state() == RequestParser::State::done || parser.state() == RequestParser::State::failed;
    if (is_over) break;
  }
  out.state = parser.state();
  if (out.state == RequestParser::State::failed) out.fault_status = parser.fault().status;
  if (out.state == RequestParser::State::done) {
    out.head = parser.take_head();
    out.body = parser.take_body();
  }
  return out;
}

int status_of(const std::string& bytes, const HttpLimits& limits = {}) {
  const int whole = parse(bytes, bytes.size(), limits).fault_status;
  for (const size_t step : {1, 2, 3, 7}) EXPECT_EQ(parse(bytes, step, limits).fault_status, whole) << bytes;
  return whole;
}

const std::string kHost = "Host: a\r\n";

TEST(RequestParser, TakesARequestHoweverItIsCut) {
  const std::string bytes =
      "POST /v1/x?y=1 HTTP/1.1\r\nHost: localhost:8080\r\nContent-Length: 5\r\nX-A:  b c \r\n\r\nhelloGET";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    const Parsed parsed = parse(bytes, step);
    ASSERT_EQ(parsed.state, RequestParser::State::done) << step;
    EXPECT_EQ(parsed.head->method, "POST");
    EXPECT_EQ(parsed.head->path(), "/v1/x");
    EXPECT_EQ(*parsed.head->find("x-a"), "b c");
    EXPECT_EQ(parsed.body, "hello");
    EXPECT_EQ(parsed.n_taken, bytes.size() - 3);  // the next request stays
  }
}

TEST(RequestParser, JoinsChunksHoweverTheyAreCut) {
  const std::string bytes =
      "POST / HTTP/1.1\r\n" + kHost +
      "Transfer-Encoding: chunked\r\n\r\n5;name=value\r\nhello\r\n00A\r\n, world!!!\r\n0\r\nTrailer: x\r\n\r\n";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    const Parsed parsed = parse(bytes, step);
    ASSERT_EQ(parsed.state, RequestParser::State::done) << step;
    EXPECT_EQ(parsed.body, "hello, world!!!");
    EXPECT_EQ(parsed.n_taken, bytes.size());
  }
}

TEST(RequestParser, RefusesWhatTwoReadersCouldReadDifferently) {  // promise 9
  const std::string post = "POST / HTTP/1.1\r\n" + kHost;
  const struct {
    std::string bytes;
    int status;
  } cases[] = {
      {post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
      {post + "Content-Length: 5, 5\r\n\r\n", 400},
      {post + "Content-Length: +5\r\n\r\n", 400},
      {post + "Content-Length: -5\r\n\r\n", 400},
      {post + "Content-Length: 0x5\r\n\r\n", 400},
      {post + "Content-Length:\r\n\r\n", 400},
      {post + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
      {post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {post + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n-2\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n+2\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n 2\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", 413},
      {post + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n2\r\nab2\r\n", 400},
      {post + "X: a\r\n b\r\n\r\n", 400},  // folded line
      {post + "X : a\r\n\r\n", 400},       // blank before the colon
      {post + "X\r\n\r\n", 400},
      {post + ": a\r\n\r\n", 400},
      {post + "X: a\n\r\n", 400},       // bare line feed
      {post + "X: a\rb\r\n\r\n", 400},  // bare carriage return
      {post + std::string("X: a\0b\r\n\r\n", 10), 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},  // no Host
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
      {"GET http://a/ HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"GET * HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"GET /a b HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"GET /\xc3\xa9 HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"GET /\r\n" + kHost + "\r\n", 400},
      {"G(T / HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"GET / HTTX/1.1\r\n" + kHost + "\r\n", 400},
      {"GET / HTTP/2.0\r\n" + kHost + "\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {post + "Expect: something\r\nContent-Length: 1\r\n\r\n", 417},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", 13), 400},  // TLS
  };
  for (const auto& each : cases) EXPECT_EQ(status_of(each.bytes), each.status) << each.bytes;
}

TEST(RequestParser, HoldsItsLimits) {  // promises 7 and 8
  HttpLimits limits{.line_bytes = 64, .head_bytes = 256, .n_headers = 4, .body_bytes = 10};
  EXPECT_EQ(status_of("GET /" + std::string(100, 'a') + " HTTP/1.1\r\n" + kHost + "\r\n", limits), 414);
  EXPECT_EQ(status_of("GET /" + std::string(100, 'a'), limits), 414);  // before its end
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + "X: " + std::string(100, 'a'), limits), 431);
  std::string many = "GET / HTTP/1.1\r\n" + kHost;
  for (int i = 0; i < 4; ++i) many += "X: a\r\n";
  EXPECT_EQ(status_of(many + "\r\n", limits), 431);
  std::string large = "GET / HTTP/1.1\r\n" + kHost;
  for (int i = 0; i < 3; ++i) large += "X: " + std::string(55, 'a') + "\r\n";
  EXPECT_EQ(status_of(large + "Y: " + std::string(55, 'a') + "\r\n\r\n", limits), 431);
  const std::string post = "POST / HTTP/1.1\r\n" + kHost;
  EXPECT_EQ(status_of(post + "Content-Length: 11\r\n\r\n", limits), 413);  // before the body
  EXPECT_EQ(status_of(post + "Content-Length: 10\r\n\r\n0123456789", limits), 0);
  EXPECT_EQ(status_of(post + "Transfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n5\r\n", limits), 413);
  EXPECT_EQ(status_of(post + "Transfer-Encoding: chunked\r\n\r\n" + std::string(300, '0') + "1\r\n", limits), 400);
  std::string trailer = post + "Transfer-Encoding: chunked\r\n\r\n0\r\n";
  for (int i = 0; i < 100; ++i) trailer += "X: a\r\n";
  EXPECT_EQ(status_of(trailer, limits), 431);
}

TEST(RequestParser, KnowsWhenAConnectionLives) {
  const auto lives = [](const std::string& text) { return parse(text, text.size()).head->keeps_alive(); };
  EXPECT_TRUE(lives("GET / HTTP/1.1\r\n" + kHost + "\r\n"));
  EXPECT_FALSE(lives("GET / HTTP/1.1\r\n" + kHost + "Connection: x, Close\r\n\r\n"));
  EXPECT_FALSE(lives("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(lives("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
}

TEST(RequestParser, OneByteChunksCostOneByteEach) {  // CVE-2025-23310's half a million chunks
  std::string bytes = "POST / HTTP/1.1\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 500000; ++i) bytes += "1\r\nx\r\n";
  bytes += "0\r\n\r\n";
  EXPECT_EQ(parse(bytes, 4096).body.size(), 500000U);
}

}  // namespace
}  // namespace tamis::server
