// Answers of servers, whole and cut everywhere; events of a stream.
#include "cli/http_answer.h"

#include <gmock/gmock.h>

namespace tamis::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Read {
  int status = 0;
  std::string body, error;
};

// Fed `step` bytes at a time, then the connection ends.
Read read(std::string_view bytes, size_t step) {
  HttpAnswerParser parser;
  Read out;
  for (size_t i = 0; i < bytes.size(); i += step) {
    const Status fed = parser.feed(bytes.substr(i, step));
    if (!fed) return {parser.status(), out.body, fed.error().message};
    out.body += parser.take_body();
  }
  const Status ended = parser.end();
  out.status = parser.status();
  out.error = ended ? "" : ended.error().message;
  return out;
}

TEST(HttpAnswer, BodiesByLengthByChunksAndUntilTheEnd) {
  const std::string_view answers[] = {
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: 1\r\n\r\n",
      "HTTP/1.0 200 OK\r\n\r\nhello",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more",
  };
  for (const std::string_view answer : answers)
    for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, answer.size()}) {
      const Read got = read(answer, step);
      EXPECT_EQ(got.error, "") << answer;
      EXPECT_EQ(got.status, 200);
      EXPECT_EQ(got.body, "hello");
    }
}

TEST(HttpAnswer, HeadersAreFoundWhateverTheirCase) {
  HttpAnswerParser parser;
  ASSERT_TRUE(parser.feed("HTTP/1.1 503 No\r\nRetry-AFTER:  3 \r\nContent-Length: 0\r\n\r\n"));
  EXPECT_EQ(parser.header("retry-after"), "3");
  EXPECT_EQ(parser.header("server"), "");
  EXPECT_TRUE(parser.is_done());
  EXPECT_EQ(parser.status(), 503);
}

TEST(HttpAnswer, WhatEndsEarlyIsNotWhole) {
  EXPECT_THAT(read("", 1).error, HasSubstr("without an answer"));
  EXPECT_THAT(read("HTTP/1.1 200 OK\r\nContent-", 1).error, HasSubstr("within its answer"));
  EXPECT_THAT(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", 1).error, HasSubstr("within its answer"));
  EXPECT_THAT(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 1).error,
              HasSubstr("within its answer"));
}

TEST(HttpAnswer, WhatIsNotHttpIsRefused) {
  EXPECT_THAT(read("SSH-2.0-x\r\n", 3).error, HasSubstr("not HTTP"));
  EXPECT_THAT(read("HTTP/1.1 2x0 OK\r\n", 3).error, HasSubstr("not HTTP"));
  EXPECT_THAT(read("HTTP/1.1 200 OK\r\n: x\r\n", 3).error, HasSubstr("bad header"));
  EXPECT_THAT(read("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 3).error, HasSubstr("bad length"));
  EXPECT_THAT(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 3).error, HasSubstr("bad chunk"));
  EXPECT_THAT(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nhe\r\n", 3).error, HasSubstr("longer"));
  EXPECT_THAT(read("HTTP/1.1 200 OK\r\nx: " + std::string(20000, 'a'), 100).error, HasSubstr("line of more than"));
}

TEST(EventStream, DataOfEveryEventWhateverEndsItsLines) {
  const std::string_view stream =
      ": ping\n\ndata: {\"a\":1}\r\n\r\nevent: x\rdata:two\rdata: lines\r\rid: 3\n\ndata\n\ndata: open";
  for (const size_t step : {size_t{1}, size_t{3}, stream.size()}) {
    EventStream events;
    std::vector<std::string> got;
    for (size_t i = 0; i < stream.size(); i += step) {
      const auto found = events.feed(stream.substr(i, step));
      ASSERT_TRUE(found);
      got.insert(got.end(), found->begin(), found->end());
    }
    EXPECT_THAT(got, ElementsAre("{\"a\":1}", "two\nlines", ""));
  }
}

}  // namespace
}  // namespace tamis::cli
