// The tiny model behind a server on a free port.
#include "tests/server/server_fixture.h"

#include <fmt/format.h>

#include "cpu/backend.h"
#include "tests/engine/tiny_model.h"

namespace tamis::test {

Json json_of(const HttpAnswer& answer) {
  const auto json = Json::parse(answer.body);
  EXPECT_TRUE(json) << answer.body;
  return json ? *json : Json();
}

std::string text_at(const Json& json, std::string_view a, std::string_view b) {
  const Json* found = json.find(a);
  if (found != nullptr && !b.empty()) found = found->find(b);
  return found != nullptr && found->is_string() ? found->as_string() : "";
}

const Json& first_choice(const Json& json) { return json.find("choices")->as_array().front(); }

bool matches(std::string_view pattern, std::string_view text) {
  const auto grammar = Grammar::from_regex(pattern);
  EXPECT_TRUE(grammar) << grammar.error().to_string();
  return grammar && grammar->matches(text);
}

void expect_discreet(const HttpAnswer& answer) {
  for (const std::string_view top : {"tmp", "root", "home", "usr", "work", "etc"})
    EXPECT_EQ(answer.body.find(fmt::format("/{}/", top)), std::string::npos) << answer.body;
  for (size_t at = answer.body.find("0x"); at != std::string::npos; at = answer.body.find("0x", at + 2)) {
    const size_t end = answer.body.find_first_not_of("0123456789abcdefABCDEF", at + 2);
    EXPECT_LT(std::min(end, answer.body.size()) - at, 8U) << answer.body;  // an address has more than five digits
  }
}

std::shared_ptr<Stopper> hold_steps(Scheduler& scheduler) {
  const auto stopper = std::make_shared<Stopper>();
  GenerateRequest request;
  request.prompt = {65};
  request.n_predict = 2;
  request.ignore_eos = true;
  EXPECT_TRUE(scheduler.submit(std::move(request), stopper));
  // Whatever ends a test lets go, or the scheduler would wait for ever.
  return {stopper.get(), [stopper](Stopper* held) { held->let_go(); }};
}

void ServerTest::start(server::ServerOptions options, SchedulerOptions scheduling, bool has_model) {
  options.http.port = 0;
  options.version = "1.2.3";
  auto started = server::Server::start(std::move(options));
  ASSERT_TRUE(started) << started.error().to_string();
  server_ = std::move(*started);
  if (has_model) load(scheduling);
}

void ServerTest::load(SchedulerOptions scheduling) {
  const auto served = std::make_shared<server::ServedModel>(
      load_tiny(write_tiny_model({.n_ctx_train = n_ctx_train_, .has_bos = has_bos_, .chat_template = chat_template_}),
                *make_cpu_backend()));
  scheduling.max_seqs = std::min(scheduling.max_seqs, 8U);
  auto scheduler = Scheduler::create(served->engine, scheduling);
  ASSERT_TRUE(scheduler) << scheduler.error().to_string();
  served->scheduler = std::move(*scheduler);
  served->alias = "tiny";
  served->type_label = "F32";
  served->architecture = "llama";
  served->max_seqs = scheduling.max_seqs;
  served->max_queue = scheduling.max_queue;
  auto trie = TokenTrie::create(*served->engine->tokenizer());
  ASSERT_TRUE(trie) << trie.error().to_string();
  served->grammars = std::make_shared<GrammarCache>(*std::move(trie));
  model_ = served;
  server_->set_model(served);
}

ServerTest::~ServerTest() {
  server_.reset();
  model_.reset();
}

HttpAnswer ServerTest::get(std::string_view target) const { return test::get(server_->port(), target); }

HttpAnswer ServerTest::post(std::string_view target, std::string_view body) const {
  HttpAnswer answer = test::post(server_->port(), target, body);
  expect_discreet(answer);
  return answer;
}

std::string ServerTest::chat_text(std::string_view members) const {
  const HttpAnswer answer = post(kChat, fmt::format("{{{},\"temperature\":0,{}}}", kHello, members));
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.status == 200 ? text_at(first_choice(json_of(answer)), "message", "content") : "";
}

}  // namespace tamis::test
