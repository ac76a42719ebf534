// Conversations that outlive a server: saved, restored by another one, erased; what is refused, and that nothing
// outside the directory is ever touched.
#include "server/sessions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "tests/base/full_disk.h"
#include "tests/base/temporary_dir.h"
#include "tests/server/fake_models.h"
#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

namespace fs = std::filesystem;
using test::Client;
using test::FakeModel;
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
  // As whoever has the key.
  HttpAnswer ask(std::string_view key, std::string_view target, std::string_view body) const {
    return test::ask(server_->port(), test::json_post(target, body, fmt::format("x-api-key: {}\r\n", key)));
  }
  std::string completion(std::string_view members) const {
    return fmt::format(R"({{"prompt":"{}","n_predict":20,"ignore_eos":true{}}})", prompt_, members);
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

TEST_F(SessionsTest, TheListTellsSlots) {
  restart();
  const auto stopper = test::hold_steps(*model_->scheduler);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
  Client waiting(server_->port());
  ASSERT_TRUE(waiting.send(test::json_post("/completion", completion(R"(,"id_slot":3)"))));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->sequences().size() == 2; }));
  const Json slots = json_of(get("/slots"));
  ASSERT_EQ(slots.as_array().size(), 2U);
  EXPECT_EQ(int_at(slots.as_array()[1], "id"), 3);
  stopper->let_go();
  EXPECT_EQ(waiting.answer().status, 200);
  EXPECT_EQ(act("save", R"({"filename":"chat"})", 3).status, 200);
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
  const std::string body = completion(R"(,"id_slot":1)");
  ASSERT_EQ(ask("one", "/completion", body).status, 200);
  const char* const chat = R"({"filename":"chat"})";
  EXPECT_EQ(ask("two", "/slots/1?action=save", chat).status, 404) << "another's slot";
  EXPECT_EQ(ask("one", "/slots/1?action=save", chat).status, 200);
  EXPECT_EQ(ask("two", "/slots/1?action=restore", chat).status, 404) << "another's file";
  EXPECT_EQ(ask("two", "/slots/1?action=erase", chat).status, 404);
  EXPECT_EQ(ask("one", "/slots/1?action=restore", chat).status, 200);
  EXPECT_EQ(ask("none", "/slots/1?action=restore", chat).status, 401);
}

TEST_F(SessionsTest, AKeyKeepsItsOwnWhereverItStands) {
  ServerOptions options;
  options.keys = *ApiKeys::parse("one\ntwo\n");
  restart(options);
  const char* const chat = R"({"filename":"chat"})";
  ASSERT_EQ(ask("one", "/completion", completion(R"(,"id_slot":1)")).status, 200);
  ASSERT_EQ(ask("one", "/slots/1?action=save", chat).status, 200);
  ASSERT_EQ(n_files(), 1U);
  const std::string name = fs::directory_iterator(dir_.path())->path().filename(), before = bytes_of(name);

  const auto expect_only_one_has_it = [&] {
    for (const char* const other : {"two", "three"}) {
      EXPECT_EQ(ask(other, "/slots/1?action=restore", chat).status, 404) << other;
      EXPECT_EQ(ask(other, "/slots/1?action=erase", chat).status, 404) << other;
    }
    EXPECT_TRUE(bytes_of(name) == before);
    EXPECT_EQ(ask("one", "/slots/2?action=restore", chat).status, 200);
  };
  server_->set_keys(*ApiKeys::parse("two\nthree\n# and\none\n"));  // as on SIGHUP
  EXPECT_EQ(ask("two", "/slots/1?action=save", chat).status, 404) << "another's slot";
  EXPECT_EQ(ask("one", "/slots/1?action=save", R"({"filename":"again"})").status, 200) << "its slot";
  expect_only_one_has_it();

  options.keys = *ApiKeys::parse("three\none\ntwo\n");
  restart(options);
  expect_only_one_has_it();
  ASSERT_EQ(ask("three", "/completion", completion(R"(,"id_slot":1)")).status, 200);
  ASSERT_EQ(ask("three", "/slots/1?action=save", chat).status, 200);
  EXPECT_EQ(n_files(), 3U);
  EXPECT_TRUE(bytes_of(name) == before);
}

TEST_F(SessionsTest, KeysShareStoredTokensUnlessTheyAreToBeApart) {
  for (const bool is_apart : {false, true}) {
    ServerOptions options;
    options.keys = *ApiKeys::parse("one\ntwo\n");
    options.is_cache_per_key = is_apart;
    restart(std::move(options));
    const uint64_t n_prompt = model_->engine->tokenizer()->encode(prompt_, {.add_special = true}).size();
    uint64_t n_computed = 0;
    const auto expect_cached = [&](const char* key, const char* members, int64_t expected) {
      const Json answer = json_of(ask(key, "/completion", completion(members)));
      EXPECT_EQ(int_at(answer, "tokens_cached"), expected) << key << members << is_apart;
      n_computed += n_prompt - static_cast<uint64_t>(expected);
    };
    const char* const salt = R"(,"cache_salt":"s")";
    expect_cached("one", "", 0);
    expect_cached("two", "", is_apart ? 0 : 128);
    expect_cached("one", "", 128);
    expect_cached("two", "", 128);
    expect_cached("two", salt, 0);
    expect_cached("one", salt, is_apart ? 0 : 128);
    expect_cached("two", salt, 128);
    EXPECT_TRUE(eventually([&] { return model_->scheduler->stats().n_computed_tokens == n_computed; }));
  }
}

TEST_F(SessionsTest, KeysThatAreApartKeepTheirSessions) {
  ServerOptions options;
  options.keys = *ApiKeys::parse("one\ntwo\n");
  options.is_cache_per_key = true;
  restart(options);
  const auto cached = [&](const char* key, const char* members) {
    return int_at(json_of(ask(key, "/completion", completion(members))), "tokens_cached");
  };
  const char* const salt = R"(,"cache_salt":"s")";
  const char* const plain_file = R"({"filename":"plain"})";
  const char* const salted_file = R"({"filename":"salted"})";
  EXPECT_EQ(cached("one", R"(,"id_slot":1)"), 0);
  EXPECT_EQ(cached("one", R"(,"id_slot":2,"cache_salt":"s")"), 0);
  ASSERT_EQ(ask("one", "/slots/1?action=save", plain_file).status, 200);
  ASSERT_EQ(ask("one", "/slots/2?action=save", salted_file).status, 200);

  restart(options);
  EXPECT_EQ(ask("one", "/slots/1?action=restore", plain_file).status, 200);
  EXPECT_EQ(cached("two", ""), 0);
  EXPECT_EQ(cached("one", ""), 128);
  EXPECT_EQ(cached("one", salt), 0);
  expect_refused(ask("one", "/slots/2?action=restore", salted_file), 400, "filename");

  restart(options);
  EXPECT_EQ(ask("one", "/slots/2?action=restore", R"({"filename":"salted","cache_salt":"s"})").status, 200);
  EXPECT_EQ(cached("one", salt), 128);
  EXPECT_EQ(cached("one", ""), 0);
  EXPECT_EQ(ask("one", "/slots/2?action=erase", "{}").status, 200);

  options.is_cache_per_key = false;  // it would be found by all keys now
  restart(options);
  expect_refused(ask("one", "/slots/1?action=restore", plain_file), 400, "filename");
}

TEST_F(SessionsTest, AKeyThatLeftWhileItsRequestCameIsNobodys) {
  ServerOptions options;
  options.keys = *ApiKeys::parse("one\ntwo\n");
  restart(std::move(options));
  const std::string body = completion("");
  Client client(server_->port());
  ASSERT_TRUE(
      client.send(fmt::format("POST /completion HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: one\r\n"
                              "Content-Type: application/json\r\nContent-Length: {}\r\n"
                              "Expect: 100-continue\r\n\r\n",
                              body.size())));
  ASSERT_EQ(client.receive(std::chrono::milliseconds(60000), "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  server_->set_keys(*ApiKeys::parse("two\n"));
  ASSERT_TRUE(client.send(body));
  EXPECT_EQ(client.answer().status, 401);
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(SessionsTest, TheActionIsAParameterAmongOthers) {
  restart();
  complete(prompt_);
  const char* const chat = R"({"filename":"chat"})";
  for (const char* const query : {"action=save&x=1", "model=m&action=save", "%61ction=s%61ve", "action=restore&"}) {
    const HttpAnswer answer = post(fmt::format("/slots/0?{}", query), chat);
    EXPECT_EQ(answer.status, 200) << query << answer.body;
  }
  for (const char* const query :
       {"", "x=1", "action", "action=", "action=SAVE", "xaction=save", "action=sa%76", "a=save"})
    expect_refused(post(fmt::format("/slots/0?{}", query), chat), 400, "action");
}

class SessionsOfSeveral : public SessionsTest {
 protected:
  ~SessionsOfSeveral() override {
    shelf_.reset();
    server_.reset();  // while the models are there
  }

  void start_several() {
    ServerOptions options;
    options.slot_save_dir = dir_.path();
    start(std::move(options), {}, false);
    std::vector<ModelSource> sources;
    for (FakeModel& fake : models_) sources.push_back(test::source_of(fake));
    auto shelf = ModelShelf::open(std::move(sources), {});
    ASSERT_TRUE(shelf) << shelf.error().to_string();
    shelf_ = *std::move(shelf);
    server_->set_models(shelf_);
  }
  static std::string named(std::string_view file, std::string_view model) {
    return fmt::format(R"({{"filename":"{}","model":"{}"}})", file, model);
  }
  Json complete_with(std::string_view model, int slot, std::string_view prompt) const {
    return complete(prompt, fmt::format(R"(,"model":"{}","id_slot":{})", model, slot));
  }

  std::deque<FakeModel> models_;
  std::shared_ptr<ModelShelf> shelf_;
};

TEST_F(SessionsOfSeveral, EachModelHasSlotsOfItsOwnAndRefusesAnothersFile) {
  models_.emplace_back("alpha", 1, test::TinyModel{.n_ctx_train = 512});
  models_.emplace_back("beta", 1, test::TinyModel{.n_expert = 2, .n_ctx_train = 512});
  start_several();
  const std::string first = text_at(complete_with("alpha", 1, prompt_), "content");
  expect_refused(act("save", named("b", "beta"), 1), 404, "");  // the other model's slot
  const std::string second = text_at(complete_with("beta", 1, prompt_), "content");
  ASSERT_NE(first, second);
  ASSERT_EQ(act("save", named("a", "alpha"), 1).status, 200);
  ASSERT_EQ(act("save", named("b", "beta"), 1).status, 200);
  EXPECT_FALSE(bytes_of("a") == bytes_of("b"));

  for (const char* const model : {"alpha", "beta"}) {
    const bool is_alpha = std::string_view(model) == "alpha";
    const HttpAnswer refused = act("restore", named(is_alpha ? "b" : "a", model), 2);
    expect_refused(refused, 400, "filename");
    EXPECT_NE(text_at(json_of(refused), "error", "message").find("model"), std::string::npos) << refused.body;
    expect_refused(act("save", named("c", model), 2), 404, "");  // nothing came of it
    EXPECT_GT(int_at(json_of(act("erase", fmt::format(R"({{"model":"{}"}})", model), 1)), "n_erased"), 0);
    EXPECT_EQ(act("restore", named(is_alpha ? "a" : "b", model), 2).status, 200);
    const Json again = complete_with(model, 3, prompt_);
    EXPECT_GE(int_at(again, "tokens_cached"), 128);
    EXPECT_EQ(text_at(again, "content"), is_alpha ? first : second);
  }
  EXPECT_EQ(n_files(), 2U);
}

TEST_F(SessionsOfSeveral, ASmallModelHasRoomBesideTheFilesOfALargeOne) {
  restart();  // for the size of a page
  const uint64_t page_bytes = model_->scheduler->stats().kv_page_bytes;
  server_.reset();
  models_.emplace_back("small", 1, test::TinyModel{.n_ctx_train = 512});
  models_.back().scheduling.kv_bytes = 4 * page_bytes;
  models_.emplace_back("large", 1, test::TinyModel{.n_ctx_train = 512});
  models_.back().scheduling.kv_bytes = 11 * page_bytes;
  start_several();
  ASSERT_NE(complete_with("large", 0, test::tiny_text(250)).find("content"), nullptr);
  const auto save_large = [&](int i) { return act("save", named(fmt::format("large{}", i), "large")); };
  for (int i = 0; i < 3; ++i) ASSERT_EQ(save_large(i).status, 200);  // 27 pages, more than four times the small pool
  ASSERT_NE(complete_with("small", 0, test::tiny_text(60)).find("content"), nullptr);
  EXPECT_EQ(act("save", named("small", "small")).status, 200);
  EXPECT_EQ(save_large(3).status, 200);
  EXPECT_EQ(save_large(4).status, 507) << "45 pages and 3 are more than four times the large pool";
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
  const SlotOwner owner{.alias = "model", .tenant = "", .n_slots = 3, .n_pages = 100};
  const auto ask = [&](std::vector<TokenId> prompt, int64_t wanted = -1) {
    GenerateRequest request;
    request.prompt = prompt;
    const uint32_t slot = (*sessions)->take_slot(owner, request, wanted);
    prompt.push_back(99);
    (*sessions)->put(owner, slot, "", prompt, request.prompt.size());
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
  EXPECT_EQ((*sessions)->take_slot({"model", "key 2", 3, 100}, other, -1), 0U) << "slots of its own";
  EXPECT_EQ((*sessions)->take_slot({"other", "", 3, 100}, other, -1), 0U) << "slots of its own";
  EXPECT_FALSE(Sessions::open(dir.file("none"), 0));
}

// What slots remember is bounded by the model's pages: here four times two pages, 256 tokens, whoever has them.
TEST(Slots, ThoseUsedLongAgoMakeRoom) {
  const test::TemporaryDir dir;
  const auto sessions = Sessions::open(dir.path(), 0);
  ASSERT_TRUE(sessions);
  const auto owner = [](std::string alias, std::string tenant) {
    return SlotOwner{.alias = std::move(alias), .tenant = std::move(tenant), .n_slots = 4, .n_pages = 2};
  };
  const SlotOwner one = owner("model", "one"), two = owner("model", "two"), apart = owner("other", "one");
  const auto put = [&](const SlotOwner& whose, uint32_t slot, size_t n) {
    (*sessions)->put(whose, slot, "", std::vector<TokenId>(n, 7), n);
  };
  const auto n_held = [&](const SlotOwner& whose, uint32_t slot) {
    const auto content = (*sessions)->content(whose, slot);
    return content ? content->tokens.size() : 0;
  };
  put(apart, 3, 100);
  put(one, 3, 100);  // four blocks
  put(two, 3, 64);   // two
  put(one, 2, 1);    // one
  put(two, 2, 32);   // one: eight
  EXPECT_EQ(n_held(one, 3), 100U);
  put(two, 1, 1);
  EXPECT_EQ(n_held(one, 3), 0U) << "nine were too many";
  put(two, 0, 90);  // eight again
  EXPECT_EQ(n_held(two, 3), 64U);
  put(two, 3, 60);  // the same room, and not used for the longest time no more
  EXPECT_EQ(n_held(one, 2), 1U);
  EXPECT_EQ((*sessions)->take_slot(one, {.prompt = std::vector<TokenId>(2, 7)}, -1), 2U) << "goes on";
  put(one, 1, 1);
  EXPECT_EQ(n_held(two, 2), 0U);
  EXPECT_EQ(n_held(one, 2), 1U);
  put(one, 0, 2000);  // more than there is: alone
  EXPECT_EQ(n_held(one, 0), 2000U);
  for (uint32_t slot = 0; slot < 4; ++slot) EXPECT_EQ(n_held(two, slot) + n_held(one, slot), slot == 0 ? 2000U : 0U);
  put(one, 1, 1);
  EXPECT_EQ(n_held(one, 0), 0U);
  EXPECT_EQ(n_held(apart, 3), 100U) << "each model has its own";
  EXPECT_EQ((*sessions)->take_slot(two, {.prompt = {7}}, -1), 0U) << "what made room is free";
}

}  // namespace
}  // namespace tamis::server
