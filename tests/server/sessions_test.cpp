// Conversations that outlive a server: saved, restored by another one, erased; what is refused, and that nothing
// outside the directory is ever touched.
#include "server/sessions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/base/full_disk.h"
#include "tests/base/temporary_dir.h"
#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

namespace fs = std::filesystem;
using test::HttpAnswer;
using test::json_of;
using test::ServerTest;
using test::text_at;

int64_t int_at(const Json& json, std::string_view name) {
  const Json* const found = json.find(name);
  return found != nullptr && found->is_int() ? found->as_int() : -1;
}

class SessionsTest : public ServerTest {
 protected:
  // A new server, as after a restart: nothing of the one before but its files.
  void restart(ServerOptions options = {}, SchedulerOptions scheduling = {}) {
    server_.reset();
    model_.reset();
    options.slot_save_dir = dir_.path();
    start(std::move(options), scheduling);
  }
  Json complete(std::string_view prompt, std::string_view members = "") const {
    return json_of(
        post("/completion",
             fmt::format(R"({{"prompt":"{}","n_predict":40,"temperature":0,"ignore_eos":true{}}})", prompt, members)));
  }
  HttpAnswer act(std::string_view action, std::string_view body = R"({"filename":"chat"})", int slot = 0) const {
    return post(fmt::format("/slots/{}?action={}", slot, action), body);
  }
  size_t n_files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(dir_.path()), {})); }
  std::string bytes_of(const std::string& name) const {
    std::ifstream file(dir_.file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put_bytes(const std::string& name, std::string_view bytes) const {
    std::ofstream(dir_.file(name), std::ios::binary) << bytes;
  }
  void expect_refused(const HttpAnswer& answer, int status, std::string_view param) const {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(text_at(json_of(answer), "error", "param"), param) << answer.body;
    EXPECT_FALSE(text_at(json_of(answer), "error", "message").empty());
  }

  test::TemporaryDir dir_;
  const std::string prompt_ = test::tiny_text(150);
};

TEST_F(SessionsTest, AConversationOutlivesTheServer) {
  restart();
  const Json first = complete(prompt_);
  EXPECT_EQ(int_at(first, "id_slot"), 0);
  const std::string conversation = prompt_ + text_at(first, "content");
  const HttpAnswer saved = act("save");
  ASSERT_EQ(saved.status, 200) << saved.body;
  const int64_t n_saved = int_at(json_of(saved), "n_saved");
  EXPECT_GE(n_saved, 128);
  EXPECT_EQ(int_at(json_of(saved), "n_written"), static_cast<int64_t>(fs::file_size(dir_.file("chat"))));
  EXPECT_EQ(text_at(json_of(saved), "filename"), "chat");
  EXPECT_EQ(n_files(), 1U);

  restart();
  const Json expected = complete(prompt_, R"(,"cache_salt":"other")");
  EXPECT_EQ(int_at(expected, "tokens_cached"), 0);
  const HttpAnswer restored = act("restore", R"({"filename":"chat"})", 3);
  ASSERT_EQ(restored.status, 200) << restored.body;
  EXPECT_EQ(int_at(json_of(restored), "id_slot"), 3);
  EXPECT_EQ(int_at(json_of(restored), "n_restored"), n_saved);
  EXPECT_EQ(int_at(json_of(restored), "n_read"), int_at(json_of(saved), "n_written"));
  const Json again = complete(prompt_);
  EXPECT_GE(int_at(again, "tokens_cached"), 128) << "what was restored is used";
  EXPECT_EQ(text_at(again, "content"), text_at(first, "content"));
  EXPECT_EQ(text_at(again, "content"), text_at(expected, "content"));

  // From the slot it was restored to it can be saved again, as the same bytes.
  ASSERT_EQ(act("save", R"({"filename":"copy"})", 3).status, 200);
  EXPECT_EQ(bytes_of("copy"), bytes_of("chat"));
}

TEST_F(SessionsTest, WhatIsErasedIsGone) {
  restart();
  complete(prompt_);
  ASSERT_EQ(act("save").status, 200);
  EXPECT_GE(int_at(complete(prompt_), "tokens_cached"), 128);
  const HttpAnswer erased = act("erase", "{}");
  ASSERT_EQ(erased.status, 200) << erased.body;
  EXPECT_GE(int_at(json_of(erased), "n_erased"), 128);
  EXPECT_EQ(int_at(complete(prompt_), "tokens_cached"), 0);
  EXPECT_EQ(n_files(), 1U);
  ASSERT_EQ(act("erase").status, 200);
  EXPECT_EQ(n_files(), 0U);
  expect_refused(act("save"), 404, "");
  expect_refused(act("restore"), 404, "");
  expect_refused(act("erase"), 404, "");
  EXPECT_EQ(int_at(json_of(act("erase", "{}")), "n_erased"), 0);
}

TEST_F(SessionsTest, WhatIsNoSessionOfThisModelIsRefused) {
  restart();
  complete(prompt_, R"(,"cache_salt":"mine")");
  ASSERT_EQ(act("save").status, 200);
  const std::string good = bytes_of("chat");
  expect_refused(act("restore"), 400, "filename");  // of another salt
  const char* const mine = R"({"filename":"chat","cache_salt":"mine"})";
  for (const size_t n : {size_t{0}, size_t{7}, size_t{55}, size_t{56}, good.size() / 2, good.size() - 1}) {
    put_bytes("chat", std::string_view(good).substr(0, n));
    expect_refused(act("restore", mine), 400, "filename");
  }
  for (const size_t at : {size_t{0}, size_t{8}, size_t{20}, size_t{33}, size_t{40}, size_t{60}, good.size() - 9}) {
    std::string altered = good;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    put_bytes("chat", altered);
    expect_refused(act("restore", mine), 400, "filename");
  }
  put_bytes("chat", good + "x");
  expect_refused(act("restore", mine), 400, "filename");
  put_bytes("chat", std::string(good.substr(0, 8)) + std::string(64, '\xff'));
  expect_refused(act("restore", mine), 400, "filename");
  EXPECT_EQ(int_at(complete(prompt_, R"(,"cache_salt":"fresh")"), "tokens_cached"), 0);
  put_bytes("chat", good);
  EXPECT_EQ(act("restore", mine).status, 200);

  n_ctx_train_ = 256;  // another file of the same weights: the same keys and values
  restart();
  EXPECT_EQ(act("restore", mine).status, 200);
}

TEST_F(SessionsTest, NamesLeadNowhereElse) {
  restart();
  complete(prompt_);
  for (const char* const name :
       {"", "..", ".", "../chat", "a/b", "/etc/passwd", ".hidden", "a b", "a\\u0000b", "\\u00e4"})
    for (const char* const action : {"save", "restore", "erase"})
      if (*name != 0 || action != std::string_view("erase"))
        expect_refused(act(action, fmt::format(R"({{"filename":"{}"}})", name)), 400, "filename");
  expect_refused(act("save", fmt::format(R"({{"filename":"{}"}})", std::string(300, 'a'))), 400, "filename");
  EXPECT_EQ(act("save", fmt::format(R"({{"filename":"{}"}})", std::string(128, 'a'))).status, 200);
  const test::TemporaryDir outside;
  std::ofstream(outside.file("target")) << "mine";
  fs::create_symlink(outside.file("target"), dir_.file("chat"));
  expect_refused(act("restore"), 400, "filename");
  ASSERT_EQ(act("save").status, 200);
  EXPECT_EQ(fs::file_size(outside.file("target")), 4U) << "the link was replaced, not followed";
  EXPECT_FALSE(fs::is_symlink(dir_.file("chat")));

  expect_refused(act("save", "{}"), 400, "filename");
  expect_refused(act("restore", "{}"), 400, "filename");
  expect_refused(act("save", R"({"filename":1})"), 400, "filename");
  expect_refused(act("save", R"({"filename":"a","cache_salt":"b"})"), 400, "cache_salt");
  expect_refused(act("save", R"({"filename":"a","nonsense":1})"), 400, "nonsense");
  expect_refused(act("load"), 400, "action");
  expect_refused(post("/slots/0", R"({"filename":"a"})"), 400, "action");
  expect_refused(post("/slots/0?", R"({"filename":"a"})"), 400, "action");
  for (const char* const id : {"-1", "8", "x", "0x0", "4294967296", "0/1"})
    expect_refused(post(fmt::format("/slots/{}?action=save", id), R"({"filename":"a"})"), 400, "id_slot");
  EXPECT_EQ(post("/slots/", "{}").status, 404);
  EXPECT_EQ(get("/slots/0?action=save").status, 405);
}

TEST_F(SessionsTest, AFullDiskIsAnErrorAndNoHalfFile) {
  restart();
  complete(prompt_);
  ASSERT_EQ(act("save").status, 200);
  const std::string before = bytes_of("chat");
  complete(test::tiny_text(250), R"(,"id_slot":0)");
  {
    const test::FullDisk full(before.size() / 2);
    expect_refused(act("save"), 507, "");
    expect_refused(act("save", R"({"filename":"other"})"), 507, "");
  }
  EXPECT_EQ(bytes_of("chat"), before);
  EXPECT_EQ(n_files(), 1U);
  ASSERT_EQ(act("save").status, 200);
  EXPECT_GT(bytes_of("chat").size(), before.size());

  ServerOptions options;
  options.slot_save_bytes = bytes_of("chat").size() + 100;
  restart(std::move(options));
  complete(prompt_);
  expect_refused(act("save", R"({"filename":"other"})"), 507, "");
  EXPECT_EQ(n_files(), 1U);
  EXPECT_EQ(act("save").status, 200) << "in place of what has that name";
}

TEST_F(SessionsTest, WithoutADirectoryThereAreNone) {
  start();
  complete(prompt_, R"(,"id_slot":2)");
  expect_refused(act("save"), 403, "");
}

TEST_F(SessionsTest, EachKeyHasItsOwn) {
  ServerOptions options;
  options.keys = *ApiKeys::parse("one\ntwo\n");
  restart(std::move(options));
  const auto ask = [&](std::string_view key, std::string_view target, std::string_view body) {
    return test::ask(server_->port(), test::json_post(target, body, fmt::format("x-api-key: {}\r\n", key)));
  };
  const std::string body = fmt::format(R"({{"prompt":"{}","n_predict":20,"id_slot":1}})", prompt_);
  ASSERT_EQ(ask("one", "/completion", body).status, 200);
  const char* const chat = R"({"filename":"chat"})";
  EXPECT_EQ(ask("two", "/slots/1?action=save", chat).status, 404) << "another's slot";
  EXPECT_EQ(ask("one", "/slots/1?action=save", chat).status, 200);
  EXPECT_EQ(ask("two", "/slots/1?action=restore", chat).status, 404) << "another's file";
  EXPECT_EQ(ask("two", "/slots/1?action=erase", chat).status, 404);
  EXPECT_EQ(ask("one", "/slots/1?action=restore", chat).status, 200);
  EXPECT_EQ(ask("none", "/slots/1?action=restore", chat).status, 401);
}

TEST_F(SessionsTest, ManyAtOnceWhileAnswersRun) {
  restart();
  complete(prompt_);
  std::vector<std::thread> clients;
  std::atomic<int> n_good{0};
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&, i] {
      for (int j = 0; j < 5; ++j) {
        n_good += act("save", fmt::format(R"({{"filename":"chat{}"}})", j % 2)).status == 200 ? 1 : 0;
        n_good += act("restore", fmt::format(R"({{"filename":"chat{}"}})", j % 2), i + 1).status == 200 ? 1 : 0;
        n_good += complete(test::tiny_text(40), fmt::format(R"(,"id_slot":{})", 5 + i % 3)).find("content") != nullptr;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(n_good, 60);
}

TEST(Slots, AConversationKeepsItsSlot) {
  const test::TemporaryDir dir;
  const auto sessions = Sessions::open(dir.path(), 0);
  ASSERT_TRUE(sessions);
  const auto ask = [&](std::vector<TokenId> prompt, int64_t wanted = -1) {
    GenerateRequest request;
    request.prompt = prompt;
    const uint32_t slot = (*sessions)->take_slot({"model", ""}, request, wanted, 3);
    prompt.push_back(99);
    (*sessions)->put({"model", ""}, slot, "", prompt, request.prompt.size());
    return slot;
  };
  EXPECT_EQ(ask({1, 2}), 0U);
  EXPECT_EQ(ask({5}), 1U);
  EXPECT_EQ(ask({1, 2, 99, 3}), 0U) << "goes on";
  EXPECT_EQ(ask({1, 2}), 2U) << "does not";
  EXPECT_EQ(ask({1, 2, 99, 3, 4}), 0U) << "from the longest";
  EXPECT_EQ(ask({7}), 1U) << "not used for the longest time";
  EXPECT_EQ(ask({1, 2, 8}, 1), 1U);
  GenerateRequest other;
  other.prompt = {1, 2, 8};
  EXPECT_EQ((*sessions)->take_slot({"model", "key 2"}, other, -1, 3), 0U) << "slots of its own";
  EXPECT_EQ((*sessions)->take_slot({"other", ""}, other, -1, 3), 0U) << "slots of its own";
  EXPECT_FALSE(Sessions::open(dir.file("none"), 0));
}

}  // namespace
}  // namespace tamis::server
