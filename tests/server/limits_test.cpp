// What a request may take: time, and memory that is not there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "tests/server/server_fixture.h"

namespace {

// The n-th large allocation from now on fails, whichever thread but the test's own makes it; < 0: none does.
std::atomic<int64_t> g_n_until_failure{-1};
thread_local bool is_spared = false;
constexpr size_t kLargeBytes = 4096;

}  // namespace

// Never inlined: GCC would take each for the partner of the other's malloc or free. The nothrow one is here because a
// sanitizer's own would not go with this delete.
[[gnu::noinline]] void* operator new(size_t n_bytes, const std::nothrow_t&) noexcept {
  if (n_bytes >= kLargeBytes && !is_spared && g_n_until_failure >= 0 && g_n_until_failure-- == 0) return nullptr;
  return std::malloc(n_bytes);
}
[[gnu::noinline]] void* operator new(size_t n_bytes) {
  if (void* const bytes = operator new(n_bytes, std::nothrow)) return bytes;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* bytes) noexcept { std::free(bytes); }
[[gnu::noinline]] void operator delete(void* bytes, size_t) noexcept { std::free(bytes); }

namespace tamis::server {
namespace {

using test::HttpAnswer;
using test::milliseconds;

class Limits : public test::ServerTest {
 protected:
  Limits() { n_ctx_train_ = 4096; }
  ~Limits() override { g_n_until_failure = -1; }
  HttpAnswer complete(const Json& body, std::string_view headers = "") const {
    return test::ask(server_->port(), test::json_post("/v1/completions", body.dump(), headers));
  }
  static Json body(size_t n_prompt, int n_tokens) {
    Json out = Json::object();
    out.set("prompt", std::string(n_prompt, 'a')).set("max_tokens", n_tokens).set("temperature", 0);
    return out.set("ignore_eos", true);
  }
};

// Makes every step take a millisecond at least.
class Brake : public GenerateListener {
 public:
  void on_token(const TokenEvent&) override { std::this_thread::sleep_for(milliseconds(1)); }
  void on_choice_end(const ChoiceEnd&) override {}
  void on_end(const RequestReport&) override {}
};

TEST_F(Limits, ATimeLimitEndsAnAnswer) {  // promise 19
  start();
  GenerateRequest slow;
  slow.prompt = {65};
  slow.ignore_eos = true;
  ASSERT_TRUE(model_->scheduler->submit(slow, std::make_shared<Brake>()));
  const HttpAnswer answer = complete(body(10, 4000), "X-Request-Timeout: 1.5\r\n");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto json = Json::parse(answer.body);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->find("choices")->as_array()[0].find("finish_reason")->as_string(), "timeout");
  EXPECT_LT(json->find("usage")->find("completion_tokens")->as_int(), 4000);
  for (const char* const wrong : {"-1", "0", "x", "1s", "1e9", "nan", ""})
    EXPECT_EQ(complete(body(10, 1), fmt::format("X-Request-Timeout: {}\r\n", wrong)).status, 400) << wrong;
}

TEST_F(Limits, TheServerMayHaveATimeLimit) {  // promise 19
  ServerOptions options;
  options.request_timeout_seconds = 1.5;
  start(std::move(options));
  GenerateRequest slow;
  slow.prompt = {65};
  slow.ignore_eos = true;
  ASSERT_TRUE(model_->scheduler->submit(slow, std::make_shared<Brake>()));
  const HttpAnswer answer = complete(body(10, 4000), "X-Request-Timeout: 100\r\n");  // no more than the server's
  EXPECT_NE(answer.body.find("\"timeout\""), std::string::npos) << answer.body;
}

TEST_F(Limits, ARequestWithoutMemoryFailsAlone) {  // promise 20
  start();
  is_spared = true;
  const Json large = body(3000, 4), small = body(10, 8);
  ASSERT_EQ(complete(large).status, 200);
  int n_failed = 0;
  for (int n = 0; n < 60; ++n) {
    g_n_until_failure = n;
    const HttpAnswer answer = complete(large);
    g_n_until_failure = -1;
    EXPECT_TRUE(answer.status == 200 || answer.status == 503 || answer.status == 0) << answer.status << answer.body;
    n_failed += answer.status == 503 ? 1 : 0;
    const HttpAnswer after = complete(small);
    EXPECT_EQ(after.status, 200) << n << after.body;
  }
  EXPECT_GT(n_failed, 0);
  EXPECT_EQ(model_->scheduler->stats().n_queued, 0U);  // who failed left its place
}

}  // namespace
}  // namespace tamis::server
