// A server with a tiny model for tests, and what they say to it and read from it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "formats/json.h"
#include "server/server.h"
#include "tests/engine/tiny_model.h"
#include "tests/server/client.h"

namespace tamis::test {

inline constexpr const char* kChat = "/v1/chat/completions";
inline const std::string kHello = R"("messages":[{"role":"user","content":"hello there"}])";

Json json_of(const HttpAnswer& answer);  // a failure of the test when the body is none
// The string at a, or in the object at a at b; "" when there is none.
std::string text_at(const Json& json, std::string_view a, std::string_view b = "");
const Json& first_choice(const Json& json);
// Whether the regular expression matches the whole text.
bool matches(std::string_view pattern, std::string_view text);
// No reply names a file or an address (promise 26).
void expect_discreet(const HttpAnswer& answer);

// Keeps the step thread until it is let go.
class Stopper : public GenerateListener {
 public:
  void on_token(const TokenEvent&) override { is_free.wait(false); }
  void on_choice_end(const ChoiceEnd&) override {}
  void on_end(const RequestReport&) override {}
  void let_go() {
    is_free = true;
    is_free.notify_all();
  }
  std::atomic<bool> is_free{false};
};

// A request after which the model makes no step until the stopper lets go.
std::shared_ptr<Stopper> hold_steps(Scheduler& scheduler);

class ServerTest : public testing::Test {
 protected:
  void start(server::ServerOptions options = {}, SchedulerOptions scheduling = {}, bool has_model = true);
  void load(SchedulerOptions scheduling = {});
  ~ServerTest() override;

  // The server has seen who left when it has answered who came later, on the same thread, twice.
  void expect_seen() const {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(get("/health").status, 200);
  }
  HttpAnswer get(std::string_view target) const;
  HttpAnswer post(std::string_view target, std::string_view body) const;
  // The text of a whole greedy chat answer.
  std::string chat_text(std::string_view members) const;

  template <class Condition>
  static bool eventually(const Condition& condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }

  uint32_t n_ctx_train_ = 512;
  bool has_bos_ = true;
  std::string chat_template_ = TinyModel().chat_template;
  std::unique_ptr<server::Server> server_;
  std::shared_ptr<const server::ServedModel> model_;
};

}  // namespace tamis::test
