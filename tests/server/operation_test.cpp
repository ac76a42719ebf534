// What an operator and a browser meet before any model answers: the page's files, keys that change, the access log,
// TLS.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "formats/json.h"
#include "server/access_log.h"
#include "server/page.h"
#include "server/server.h"
#include "tests/base/small_pipe.h"
#include "tests/server/certificate.h"
#include "tests/server/client.h"

namespace tamis::server {
namespace {

using test::Client;
using test::HttpAnswer;
using test::milliseconds;
using test::request;
using test::SmallPipe;

class Operation : public testing::Test {
 protected:
  void start(ServerOptions options = {}) {
    if (!options.http.host.starts_with("unix:")) options.http.port = 0;
    auto started = Server::start(std::move(options));
    ASSERT_TRUE(started) << started.error().to_string();
    server_ = std::move(*started);
  }
  HttpAnswer get(std::string_view target, std::string_view headers = "") const {
    return test::ask(server_->port(), request("GET", target, "", headers));
  }

  std::unique_ptr<Server> server_;
};

TEST_F(Operation, ThePageIsServedUnderAStrictPolicy) {
  start();
  for (const PageFile& file : page_files()) {
    const HttpAnswer answer = get(file.path);
    EXPECT_EQ(answer.status, 200) << file.path;
    EXPECT_EQ(answer.body.size(), file.bytes.size());
    EXPECT_EQ(answer.header("content-type"), file.content_type);
    EXPECT_EQ(answer.header("x-content-type-options"), "nosniff");
    const std::string policy = answer.header("content-security-policy");
    EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
    EXPECT_EQ(policy.find("unsafe"), std::string::npos) << policy;
    // Nothing in it leads elsewhere.
    const std::string_view text = answer.body;
    EXPECT_EQ(text.find("src=\"http"), std::string_view::npos) << file.path;
    EXPECT_EQ(text.find("innerHTML"), std::string_view::npos) << file.path;
    EXPECT_EQ(text.find("url(http"), std::string_view::npos) << file.path;
  }
  EXPECT_EQ(get("/page/").status, 404);
  EXPECT_EQ(get("/page/index.html").status, 404);
  EXPECT_EQ(get("/page/../page/main.js").status, 404);
  EXPECT_EQ(test::ask(server_->port(), test::json_post("/", "{}")).status, 405);
}

TEST_F(Operation, ThePageIsSentOnce) {
  start();
  const std::string tag = get("/").header("etag");
  ASSERT_EQ(tag.size(), 18U);
  for (const std::string& known : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    Client client(server_->port());
    ASSERT_TRUE(
        client.send(request("GET", "/", "", "If-None-Match: " + known + "\r\n") + request("GET", "/api/version")));
    const std::string received = client.receive(milliseconds(10000), "\"version\"");
    EXPECT_TRUE(received.starts_with("HTTP/1.1 304 Not Modified\r\n")) << received;
    EXPECT_NE(received.find("\r\n\r\nHTTP/1.1 200 OK\r\n"), std::string::npos) << received;  // no body, no length
  }
  EXPECT_EQ(get("/", "If-None-Match: \"other\"\r\n").status, 200);
}

TEST_F(Operation, OnlyTheListedPathsNeedNoKey) {  // promise 24
  ServerOptions options;
  options.keys = *ApiKeys::parse("sesame\n");
  start(std::move(options));
  for (const char* const path : {"/", "/page/main.js", "/page/style.css"}) EXPECT_EQ(get(path).status, 200) << path;
  for (const char* const path : {"/health", "/v1/health", "/ready"}) EXPECT_EQ(get(path).status, 503) << path;
  for (const char* const path :
       {"/metrics", "/v1/models", "/models", "/v1/models/tiny", "/props", "/api/version", "/api/tags", "/api/ps",
        "/slots", "/page", "/page/nothing.js", "/docs", "/favicon.ico"})
    EXPECT_EQ(get(path).status, 401) << path;
  for (const char* const path :
       {"/", "/health", "/v1/chat/completions", "/chat/completions", "/v1/completions", "/completion", "/completions",
        "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/embeddings", "/api/chat", "/api/generate",
        "/api/show", "/tokenize", "/detokenize", "/apply-template"}) {
    const int status = test::ask(server_->port(), test::json_post(path, "{}")).status;
    EXPECT_TRUE(status == 401 || status == 429) << path << " " << status;  // so many wrong keys are one too many
  }
}

TEST_F(Operation, KeysCanChange) {
  ServerOptions options;
  options.keys = *ApiKeys::parse("old-key\n");
  start(std::move(options));
  const auto status = [&](const char* key) {
    return get("/v1/models", fmt::format("Authorization: Bearer {}\r\n", key)).status;
  };
  EXPECT_EQ(status("old-key"), 200);
  EXPECT_EQ(status("new-key"), 401);
  server_->set_keys(*ApiKeys::parse("new-key\n"));
  EXPECT_EQ(status("old-key"), 401);
  EXPECT_EQ(status("new-key"), 200);
}

Answered answered(const RequestFacts& facts) {
  return {.method = "POST",
          .path = "/v1/chat/completions",
          .id = "0123456789abcdef",
          .peer = "192.0.2.7",
          .status = 200,
          .seconds = 1.2345,
          .facts = &facts};
}

TEST(AccessLog, OneLineARequest) {  // promise 33
  RequestFacts facts;
  facts.owner = "key 2";
  facts.is_generation = true;
  facts.n_prompt = 230;
  facts.n_cached = 192;
  facts.n_generated = 48;
  facts.queue_ms = 3.21;
  facts.first_token_ms = 80;
  facts.end = "length";
  EXPECT_EQ(access_line(AccessLog::text, answered(facts), 1924923845),
            "2030-12-31T05:04:05Z 192.0.2.7 POST /v1/chat/completions 200 1234.5ms id=0123456789abcdef key=\"key 2\" "
            "prompt=230 cached=192 generated=48 queue=3.2ms first=80.0ms end=length");
  const auto json = Json::parse(access_line(AccessLog::json, answered(facts), 1924923845));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->find("time")->as_string(), "2030-12-31T05:04:05Z");
  EXPECT_EQ(json->find("status")->as_int(), 200);
  EXPECT_EQ(json->find("key")->as_string(), "key 2");
  EXPECT_EQ(json->find("generated_tokens")->as_int(), 48);
  EXPECT_EQ(json->find("end")->as_string(), "length");
}

TEST(AccessLog, WhatClientsChooseCannotForgeALine) {  // promise 33
  Answered hostile{.path = "/a\r\n2030-01-01T00:00:00Z forged\x1b[31m\"x", .status = 404};
  for (const AccessLog format : {AccessLog::text, AccessLog::json}) {
    const std::string line = access_line(format, hostile, 0);
    for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << line;
  }
  const std::string long_path = "/" + std::string(8000, 'a');
  hostile.path = long_path;
  const std::string cut = access_line(AccessLog::text, hostile, 0);
  EXPECT_LT(cut.size(), 600U);
  EXPECT_NE(cut.find("/" + std::string(200, 'a')), std::string::npos) << cut;
  EXPECT_TRUE(Json::parse(access_line(AccessLog::json, hostile, 0)));
}

TEST(AccessLog, WhoDoesNotReadItKeepsNobodyWaiting) {  // promise 33
  constexpr uint64_t kDropped = 10;
  const RequestFacts facts;
  const Answered each = answered(facts);
  SmallPipe pipe;
  AccessLogWriter writer(AccessLog::text, pipe.in());
  size_t n_written = 0;
  for (; writer.n_dropped() < kDropped; ++n_written) writer.write(each, 0);
  EXPECT_GT(n_written * access_line(AccessLog::text, each, 0).size(), LineWriter::kMaxWaitingBytes);
  const size_t n_kept = n_written - kDropped;
  const std::vector<std::string> lines = pipe.read(n_kept + 1);
  ASSERT_EQ(lines.size(), n_kept + 1);
  for (size_t i = 0; i < n_kept; ++i) ASSERT_EQ(lines[i], access_line(AccessLog::text, each, 0));
  EXPECT_EQ(lines.back(), "1970-01-01T00:00:00Z 10 lines of the log were dropped");
  writer.write(each, 1);
  EXPECT_EQ(pipe.read(n_kept + 2).back(), access_line(AccessLog::text, each, 1));
  EXPECT_EQ(writer.n_dropped(), kDropped);
  const auto json = Json::parse(dropped_line(AccessLog::json, 7, 0));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->find("dropped_lines")->as_int(), 7);
}

TEST(AccessLog, ItsEndDoesNotWaitForItsReader) {
  const RequestFacts facts;
  SmallPipe pipe;
  constexpr size_t kLines = 1000;
  {
    AccessLogWriter writer(AccessLog::json, pipe.in());
    for (size_t i = 0; i < kLines; ++i) writer.write(answered(facts), 0);
  }
  EXPECT_EQ(pipe.read(kLines).size(), kLines);  // whoever reads after all gets them
  SmallPipe other;
  {
    AccessLogWriter writer(AccessLog::text, other.in());
    for (size_t i = 0; i < 10; ++i) writer.write(answered(facts), 0);
  }
  EXPECT_EQ(other.read(10).size(), 10U);
}

class Tls : public Operation {
 protected:
  ServerOptions options() const {
    ServerOptions out;
    out.http.tls_certificate = certificate_.certificate_path();
    out.http.tls_key = certificate_.key_path();
    return out;
  }
  test::Certificate certificate_;
};

TEST_F(Tls, WhoSpeaksNoTlsIsClosed) {
  start(options());
  EXPECT_TRUE(server_->url().starts_with("https://127.0.0.1:"));
  Client plain(server_->port());
  ASSERT_TRUE(plain.send(request("GET", "/health")));
  EXPECT_EQ(plain.answer().status, 0);
  EXPECT_TRUE(plain.is_closed_within(milliseconds(10000)));
}

TEST_F(Tls, AHandshakeHasADeadline) {  // promise 3
  ServerOptions given = options();
  given.http.head_time = milliseconds(200);
  given.http.max_connections_per_ip = 2;
  given.http.linger_time = milliseconds(200);
  start(std::move(given));
  Client silent(server_->port()), slow(server_->port());
  ASSERT_TRUE(slow.send("\x16\x03\x01"));  // a record begins
  Client refused(server_->port());         // one too many: waits for a handshake to be told
  EXPECT_TRUE(silent.is_closed_within(milliseconds(10000)));
  EXPECT_TRUE(slow.is_closed_within(milliseconds(10000)));
  EXPECT_TRUE(refused.is_closed_within(milliseconds(10000)));
}

TEST_F(Tls, CertificatesAreChecked) {
  const auto code = [&](const std::string& certificate, const std::string& key) {
    ServerOptions given;
    given.http.port = 0;
    given.http.tls_certificate = certificate;
    given.http.tls_key = key;
    const auto started = Server::start(std::move(given));
    return started ? std::optional<ErrorCode>() : started.error().code;
  };
  const test::Certificate other;
  EXPECT_EQ(code(certificate_.certificate_path(), certificate_.key_path()), std::nullopt);
  EXPECT_EQ(code("nothing.pem", certificate_.key_path()), ErrorCode::not_found);
  EXPECT_EQ(code(certificate_.key_path(), certificate_.key_path()), ErrorCode::format);
  EXPECT_EQ(code(certificate_.certificate_path(), certificate_.certificate_path()), ErrorCode::format);
  EXPECT_EQ(code(certificate_.certificate_path(), other.key_path()), ErrorCode::format);
}

TEST_F(Tls, ABadCertificateLeavesTheOldOne) {
  start(options());
  EXPECT_TRUE(server_->reload_tls());
  std::ofstream(certificate_.certificate_path()) << "no certificate";
  EXPECT_FALSE(server_->reload_tls());
}

TEST_F(Operation, ASocketLeftBehindIsReplacedAndAnotherServersIsNot) {
  const std::string path = testing::TempDir() + "tamis_stale.sock";
  std::filesystem::remove(path);
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(left);  // as a killed server does: the name stays
  ServerOptions options;
  options.http.host = "unix:" + path;
  start(options);
  EXPECT_FALSE(Server::start(options));
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "a file";
  EXPECT_FALSE(Server::start(options));
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tamis::server
