// Several models behind one server: names, loads beside running answers, room that idle models make, failed loads.
#include <fmt/format.h>

#include <deque>
#include <set>
#include <thread>

#include "tests/server/fake_models.h"
#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

using test::Client;
using test::event_data;
using test::FakeModel;
using test::first_choice;
using test::hold_steps;
using test::HttpAnswer;
using test::json_of;
using test::json_post;
using test::kChat;
using test::kHello;
using test::ServerTest;
using test::text_at;
using test::TinyModel;

class SeveralModels : public ServerTest {
 protected:
  SeveralModels() {
    models_.emplace_back("alpha", 1, TinyModel());
    models_.emplace_back("beta", 1, TinyModel{.n_expert = 2});  // says other things
  }
  ~SeveralModels() override {
    for (FakeModel& fake : models_) fake.let_go();
    shelf_.reset();
    server_.reset();  // while the models are there
  }

  FakeModel& alpha() { return models_[0]; }
  FakeModel& beta() { return models_[1]; }

  void start_several(uint64_t budget_bytes = 0, ServerOptions options = {}) {
    start(std::move(options), {}, false);
    std::vector<ModelSource> sources;
    for (FakeModel& fake : models_) sources.push_back(test::source_of(fake));
    ShelfOptions shelf_options;
    shelf_options.budget_bytes = budget_bytes;
    auto shelf = ModelShelf::open(std::move(sources), shelf_options);
    ASSERT_TRUE(shelf) << shelf.error().to_string();
    shelf_ = *std::move(shelf);
    server_->set_models(shelf_);
  }

  static std::string body(std::string_view model, std::string_view more = "") {
    const std::string name = model.empty() ? "" : fmt::format(R"("model":"{}",)", model);
    return fmt::format(R"({{{}"prompt":"once","max_tokens":24,"temperature":0,"ignore_eos":true{}}})", name, more);
  }
  HttpAnswer complete(std::string_view model, std::string_view more = "") const {
    return post("/v1/completions", body(model, more));
  }
  std::string text(std::string_view model) const {
    const HttpAnswer answer = complete(model);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? text_at(first_choice(json_of(answer)), "text") : "";
  }
  static std::string streamed(const HttpAnswer& answer) {
    std::string out;
    for (const std::string& data : event_data(answer.body))
      if (data != "[DONE]") out += text_at(first_choice(*Json::parse(data)), "text");
    return out;
  }

  ModelStatus of(std::string_view name) const {
    for (ModelStatus& model : shelf_->list())
      if (model.card.alias == name) return std::move(model);
    return {};
  }
  bool is_loaded(std::string_view name) const { return of(name).state == ModelStatus::State::loaded; }
  Scheduler& scheduler(std::string_view name) const { return *of(name).lease->model->scheduler; }

  std::deque<FakeModel> models_;
  std::shared_ptr<ModelShelf> shelf_;
};

TEST_F(SeveralModels, EachAnswersUnderItsName) {
  start_several();
  const std::string first = text("alpha"), second = text("beta");
  EXPECT_NE(first, second);
  EXPECT_EQ(text(""), first);
  EXPECT_EQ(text_at(json_of(complete("beta")), "model"), "beta");
  EXPECT_EQ(text_at(json_of(complete("")), "model"), "alpha");
  const auto ask = [&](std::string_view path, std::string_view text) {
    return text_at(json_of(post(path, text)), "model");
  };
  EXPECT_EQ(ask(kChat, "{" + kHello + R"(,"max_tokens":1,"model":"beta"})"), "beta");
  EXPECT_EQ(ask("/v1/embeddings", R"({"input":"x","model":"beta"})"), "beta");
  EXPECT_EQ(ask("/v1/messages", "{" + kHello + R"(,"max_tokens":1,"model":"beta"})"), "beta");
  EXPECT_EQ(ask("/api/generate", R"({"prompt":"x","stream":false,"options":{"num_predict":1},"model":"beta"})"),
            "beta");
  EXPECT_EQ(ask("/completion", R"({"prompt":"x","n_predict":1,"model":"beta"})"), "beta");
}

TEST_F(SeveralModels, NamesThatAreNotServedAreNotFound) {
  start_several();
  for (const char* const name : {"gamma", "ALPHA", "../alpha", "alpha.gguf", "/etc/passwd", R"(a\u0000b\n\")"}) {
    for (const char* const path : {"/v1/completions", "/completion", "/v1/embeddings", "/tokenize", "/api/show"}) {
      const HttpAnswer answer = test::post(
          server_->port(), path, fmt::format(R"({{"prompt":"x","input":"x","content":"x","model":"{}"}})", name));
      EXPECT_EQ(answer.status, 404) << path << " " << answer.body;
      EXPECT_EQ(text_at(json_of(answer), "error", "code"), "model_not_found");
      EXPECT_EQ(answer.body.find("beta"), std::string::npos);
    }
  }
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"x","model":7})").status, 400);
  EXPECT_EQ(beta().n_measured, 0);
}

TEST_F(SeveralModels, StrictServersWantAName) {
  ServerOptions options;
  options.is_strict_model = true;
  start_several(0, std::move(options));
  EXPECT_EQ(complete("").status, 404);
  EXPECT_EQ(complete("alpha").status, 200);
  EXPECT_EQ(complete("beta").status, 200);
}

TEST_F(SeveralModels, ALoadDoesNotDisturbAStream) {
  start_several();
  const std::string alone = text("alpha");
  const auto stopper = hold_steps(scheduler("alpha"));
  Client client(server_->port());
  ASSERT_TRUE(client.send(json_post("/v1/completions", body("alpha", R"(,"stream":true)"))));
  ASSERT_TRUE(eventually([&] { return scheduler("alpha").sequences().size() == 2; }));
  beta().is_held = true;
  Client second(server_->port());
  ASSERT_TRUE(second.send(json_post("/v1/completions", body("beta"))));
  beta().n_begun.wait(0);
  // Everything else is answered while beta is loaded and alpha makes no step.
  for (const char* const path : {"/health", "/ready", "/slots", "/metrics", "/v1/models", "/props", "/api/ps"})
    EXPECT_EQ(get(path).status, 200) << path;
  EXPECT_EQ(post("/tokenize", R"({"content":"x"})").status, 200);
  beta().let_go();
  EXPECT_EQ(second.answer().status, 200);  // and answers while alpha still makes none
  stopper->let_go();
  const HttpAnswer answer = client.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(streamed(answer), alone);
}

TEST_F(SeveralModels, AnIdleModelMakesRoom) {
  start_several(1);
  const std::string first = text("alpha"), second = text("beta");
  EXPECT_FALSE(is_loaded("alpha"));
  EXPECT_EQ(text("alpha"), first);
  EXPECT_FALSE(is_loaded("beta"));
  EXPECT_EQ(text("beta"), second);
  EXPECT_EQ(alpha().n_loaded, 2);
  EXPECT_EQ(beta().n_loaded, 2);
}

TEST_F(SeveralModels, AModelThatRunsKeepsItsPlace) {
  ServerOptions options;
  options.load_timeout_seconds = 0.05;
  start_several(1, std::move(options));
  const std::string alone = text("alpha");
  const auto stopper = hold_steps(scheduler("alpha"));
  Client client(server_->port());
  ASSERT_TRUE(client.send(json_post("/v1/completions", body("alpha", R"(,"stream":true)"))));
  ASSERT_TRUE(eventually([&] { return scheduler("alpha").sequences().size() == 2; }));
  const HttpAnswer refused = complete("beta");
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_NE(refused.header("retry-after"), "");
  EXPECT_TRUE(is_loaded("alpha"));
  stopper->let_go();
  EXPECT_EQ(streamed(client.answer()), alone);
}

TEST_F(SeveralModels, AModelThatEmbedsKeepsItsPlace) {
  start_several(1);
  const auto stopper = hold_steps(scheduler("alpha"));
  Client client(server_->port()), waiting(server_->port());
  ASSERT_TRUE(client.send(json_post("/v1/embeddings", R"({"input":["a","b","c"],"model":"alpha"})")));
  ASSERT_TRUE(eventually([&] { return scheduler("alpha").sequences().size() > 1; }));
  ASSERT_TRUE(waiting.send(json_post("/v1/completions", body("beta"))));
  ASSERT_TRUE(eventually([&] { return of("beta").figures.n_waiting == 1; }));
  EXPECT_TRUE(is_loaded("alpha"));
  stopper->let_go();
  EXPECT_EQ(client.answer().status, 200);
  EXPECT_EQ(waiting.answer().status, 200);  // when it has ended
  EXPECT_FALSE(is_loaded("alpha"));
}

TEST_F(SeveralModels, AFailedLoadIsAnAnswerAndNoMore) {
  start_several();
  beta().fault = FakeModel::Fault::broken_file;
  for (int i = 0; i < 2; ++i) {
    const HttpAnswer answer = complete("beta", i == 0 ? "" : R"(,"stream":true)");
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(answer.body.find("secret"), std::string::npos) << answer.body;
    EXPECT_EQ(complete("alpha").status, 200);
  }
  EXPECT_EQ(get("/ready").status, 200);
  const Json told = json_of(get("/v1/models/beta"));
  EXPECT_EQ(text_at(told, "status", "value"), "unloaded");
  EXPECT_TRUE(told.find("status")->find("failed")->as_bool());
  beta().fault = FakeModel::Fault::none;
  EXPECT_EQ(complete("beta").status, 200);
}

TEST_F(SeveralModels, WhoLeavesDoesNotWait) {
  start_several();
  beta().is_held = true;
  Client client(server_->port());
  ASSERT_TRUE(client.send(json_post("/v1/completions", body("beta"))));
  ASSERT_TRUE(eventually([&] { return of("beta").figures.n_waiting == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return of("beta").figures.n_waiting == 0; }));
  beta().let_go();
  EXPECT_EQ(complete("beta").status, 200);
  EXPECT_EQ(scheduler("beta").stats().n_requests, 1U);
}

TEST_F(SeveralModels, ARequestsOwnTimeHoldsForTheLoad) {
  start_several();
  beta().is_held = true;
  const std::string request = body("beta");
  const HttpAnswer answer =
      test::ask(server_->port(), test::request("POST", "/v1/completions", request,
                                               "Content-Type: application/json\r\nX-Request-Timeout: 0.05\r\n"));
  EXPECT_EQ(answer.status, 503) << answer.body;
}

TEST_F(SeveralModels, FactsAreToldOfEach) {
  start_several();
  const auto names = [&](std::string_view path, std::string_view list, std::string_view name) {
    std::string out;
    const Json json = json_of(get(path));
    for (const Json& model : json.find(list)->as_array()) out += text_at(model, name) + " ";
    return out;
  };
  EXPECT_EQ(names("/v1/models", "data", "id"), "alpha beta ");
  EXPECT_EQ(names("/api/tags", "models", "name"), "alpha beta ");
  EXPECT_EQ(names("/api/ps", "models", "name"), "alpha ");
  EXPECT_EQ(text_at(json_of(get("/v1/models/beta")), "status", "value"), "unloaded");
  EXPECT_EQ(get("/props?model=beta").status, 503);
  EXPECT_EQ(get("/props?model=gamma").status, 404);
  EXPECT_EQ(text_at(json_of(get("/props")), "model_alias"), "alpha");

  EXPECT_EQ(complete("beta").status, 200);
  EXPECT_EQ(names("/api/ps", "models", "name"), "alpha beta ");
  EXPECT_EQ(text_at(json_of(get("/v1/models/b%65ta")), "status", "value"), "loaded");
  EXPECT_EQ(text_at(json_of(get("/props?x=1&model=b%65ta")), "model_alias"), "beta");
  EXPECT_EQ(text_at(json_of(post("/api/show", R"({"name":"beta"})")), "modelfile"), "");

  const auto stopper = hold_steps(scheduler("beta"));
  ASSERT_TRUE(eventually([&] { return scheduler("beta").sequences().size() == 1; }));
  EXPECT_EQ(json_of(get("/slots?model=beta")).as_array().size(), 1U);
  EXPECT_EQ(json_of(get("/slots?model=alpha")).as_array().size(), 0U);
  stopper->let_go();
}

TEST_F(SeveralModels, MetricsAreOfEachModel) {  // promise 32
  start_several(1);
  EXPECT_EQ(complete("alpha").status, 200);
  EXPECT_EQ(complete("beta").status, 200);
  const auto has = [&](std::string_view line) {
    return ("\n" + get("/metrics").body).find("\n" + std::string(line) + "\n") != std::string::npos;
  };
  EXPECT_TRUE(eventually([&] { return has(R"(vllm:generation_tokens_total{model_name="beta"} 24)"); }));
  EXPECT_TRUE(
      eventually([&] { return has(R"(vllm:request_success_total{model_name="beta",finished_reason="length"} 1)"); }));
  // What was counted stays when the model goes.
  EXPECT_TRUE(has(R"(vllm:request_success_total{model_name="alpha",finished_reason="length"} 1)"));
  EXPECT_TRUE(has(R"(tamis_model_loaded{model_name="alpha"} 0)"));
  EXPECT_TRUE(has(R"(tamis_model_loaded{model_name="beta"} 1)"));
  EXPECT_TRUE(has(R"(tamis_model_unloads_total{model_name="alpha"} 1)"));
  EXPECT_TRUE(has("tamis_draining 0"));
  // All lines of a name stand together, under one heading.
  const std::string page = get("/metrics").body;
  std::string family;
  std::set<std::string> families;
  for (size_t at = 0; at < page.size(); at = page.find('\n', at) + 1) {
    const std::string line = page.substr(at, page.find('\n', at) - at);
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << family;
    }
    EXPECT_TRUE(line.starts_with("# ") || line.starts_with(family)) << line;
  }
}

TEST_F(SeveralModels, DrainingWaitsForAll) {  // promise 17
  start_several();
  EXPECT_EQ(complete("beta").status, 200);
  const auto first = hold_steps(scheduler("alpha")), second = hold_steps(scheduler("beta"));
  ASSERT_TRUE(
      eventually([&] { return scheduler("alpha").stats().n_queued + scheduler("beta").stats().n_queued == 0; }));
  bool is_clean = false;
  std::thread draining([&] { is_clean = server_->drain(60); });
  EXPECT_TRUE(eventually([&] { return get("/ready").status == 503; }));
  EXPECT_EQ(complete("alpha").status, 503);
  EXPECT_EQ(complete("beta").status, 503);
  first->let_go();
  second->let_go();
  draining.join();
  EXPECT_TRUE(is_clean);
}

}  // namespace
}  // namespace tamis::server
