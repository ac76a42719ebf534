// The server's life, who may ask, and the way of a request to its route.
#include "server/server.h"

#include <algorithm>
#include <charconv>
#include <new>

#include "base/ascii.h"
#include "base/log.h"
#include "server/answer_job.h"
#include "server/answer_plan.h"
#include "server/fields.h"
#include "server/route.h"

namespace tamis::server {
namespace {

constexpr double kMaxTimeout = 86400;     // seconds
constexpr Milliseconds kLastWords{2000};  // for answers to reach their clients after the last token

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

AnswerSyntax syntax_of(std::string_view chat_template) {
  AnswerSyntax syntax = find_answer_syntax(chat_template);
  if (!syntax.offers_tools) syntax.calls = &call_syntaxes().back();
  return syntax;
}

// `work` with the two things that may be thrown past our code ending as answers: std::bad_alloc, and what a foreign
// library let through.
template <class WorkFn>
void at_seam(Reply& reply, const WorkFn& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    reply.fail(error_response(plain_error(503, "not enough memory for this request")), "");
  } catch (const std::exception& exception) {
    log_warning("a request failed: {}", exception.what());
    reply.fail(error_response(plain_error(500, "internal error")), "");
  }
}

}  // namespace

ServedModel::ServedModel(std::shared_ptr<const Engine> loaded)
    : engine(std::move(loaded)),
      chat_template(engine->model().file.get_string("tokenizer.chat_template").value_or("")),
      syntax(syntax_of(chat_template)) {}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  raise_descriptor_limit();
  std::unique_ptr<Server> server(new Server(std::move(options)));
  server->workers_ = std::make_unique<Workers>(server->options_.n_workers);
  TAMIS_TRY(server->http_, HttpServer::open(server->options_.http, *server));
  server->http_->run();  // handlers use everything above
  return server;
}

Server::~Server() {
  workers_->stop();    // requests still come: they are dropped, or told that there is no model
  set_model(nullptr);  // ends its scheduler, whose listeners still answer through http_
  http_.reset();
}

void Server::set_model(std::shared_ptr<const ServedModel> model) {
  {
    const std::lock_guard lock(mutex_);
    model_.swap(model);
  }
}

std::shared_ptr<const ServedModel> Server::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

void Server::set_keys(ApiKeys keys) {
  auto fresh = std::make_shared<const ApiKeys>(std::move(keys));
  const std::lock_guard lock(mutex_);
  keys_.swap(fresh);
}

std::shared_ptr<const ApiKeys> Server::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

bool Server::drain(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const auto served = model();
  if (served) served->scheduler->refuse_waiting();
  is_draining_ = true;
  const bool is_clean = !served || served->scheduler->drain(seconds);
  http_->close_when_answered();
  const auto left = std::chrono::duration_cast<Milliseconds>(until - std::chrono::steady_clock::now());
  return http_->wait_until_answered(std::max(left, kLastWords)) && is_clean;
}

Response Server::refusal(int status, std::string_view message) { return error_response(plain_error(status, message)); }

void Server::on_answered(const Answered& answered) {
  metrics_->on_answered(answered.status);
  log_access(options_.access_log, answered, unix_time());
}

bool Server::is_known_host(const RequestHead& head) const {
  const std::string& bound = options_.http.host;
  if (!is_loopback(bound)) return true;
  const std::string* const value = head.find("host");
  if (value == nullptr) return true;  // HTTP/1.0
  std::string host = to_lower(*value);
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return is_loopback(host) || host == bound;
}

// The method whose route decides about a request: HEAD is a GET, OPTIONS any that the path has.
std::string_view Server::routed_method(const RequestHead& head) {
  if (head.method == "HEAD") return "GET";
  if (head.method != "OPTIONS") return head.method;
  return find_route("GET", head.path()) != nullptr ? "GET" : "POST";
}

bool Server::accepts(const RequestHead& head, const std::string& peer, Response& refusal) {
  const auto checked = check_head(head, peer);
  if (checked) return true;
  refusal = error_response(checked.error());
  if (checked.error().status == 405) refusal.headers.emplace_back("allow", allowed_methods(head.path()));
  return false;
}

// Who asks, before what is asked: a key first, on every route but the public ones.
ApiResult<void> Server::check_head(const RequestHead& head, const std::string& peer) {
  if (!is_known_host(head)) return refused(403, "this Host is not served here");
  const std::string_view method = routed_method(head);
  const Route* const route = find_route(method, head.path());
  if (route == nullptr || !route->is_public) {
    const auto now = FailureLimit::Clock::now();
    if (failures_.is_blocked(peer, now)) return refused(429, "too many wrong API keys; wait a minute");
    if (!keys()->owner(head)) {
      failures_.on_failure(peer, now);
      return refused(401, "a valid API key is needed: Authorization: Bearer KEY");
    }
  }
  if (route == nullptr) {
    if (allowed_methods(head.path()).empty()) return refused(404, "there is no such path");
    return refused(405, "this path does not take that method");
  }
  if (head.method != "POST") return {};
  const std::string* const type = head.find("content-type");
  const std::string media = type == nullptr ? "" : to_lower(type->substr(0, std::min(type->find(';'), type->size())));
  if (media.substr(0, media.find_last_not_of(' ') + 1) != "application/json")
    return refused(415, "the content type must be application/json");
  if (head.find("content-encoding") != nullptr) return refused(415, "encoded bodies are not taken");
  if (head.find("content-length") == nullptr && head.find("transfer-encoding") == nullptr)
    return refused(411, "a Content-Length is needed");
  return {};
}

void Server::handle(Request request, std::shared_ptr<Reply> reply) {
  request.facts->owner = keys()->owner(request.head).value_or("");
  const Route* const route = find_route(routed_method(request.head), request.head.path());
  if (route == nullptr) return reply->send(refusal(404, "there is no such path"));
  if (request.head.method == "OPTIONS") {  // no page of another origin is let in: there are no headers for one
    Response allowed;
    allowed.status = 204;
    allowed.content_type.clear();
    allowed.headers.emplace_back("allow", allowed_methods(request.head.path()));
    return reply->send(std::move(allowed));
  }
  if (route->quick != nullptr) return at_seam(*reply, [&] { reply->send((this->*route->quick)(request)); });
  if (is_draining_) return reply->send(refusal(503, "the server is shutting down"));
  if (!model()) return reply->send(refusal(503, "the model is being loaded"));
  // Nothing is done for who leaves while it waits.
  const auto has_left = std::make_shared<std::atomic<bool>>(false);
  reply->on_gone([has_left] { *has_left = true; });
  workers_->run([this, route, has_left, request = std::move(request), reply = std::move(reply)] {
    if (!*has_left) work(*route, request, reply);
  });
}

ApiResult<double> Server::time_left(const Request& request) const {
  double limit = options_.request_timeout_seconds;
  if (const std::string* const text = request.head.find("x-request-timeout")) {
    double wanted = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), wanted);
    const bool is_number = error == std::errc() && end == text->data() + text->size();
    if (!is_number || !(wanted > 0 && wanted <= kMaxTimeout))
      return refused(400, "X-Request-Timeout: expected seconds, more than 0 and at most 86400");
    limit = limit > 0 ? std::min(limit, wanted) : wanted;
  }
  if (limit == 0) return 0.0;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - request.arrived;
  if (passed.count() >= limit) return refused(503, "the request's time is over");
  return limit - passed.count();
}

void Server::work(const Route& route, const Request& request, const std::shared_ptr<Reply>& reply) {
  at_seam(*reply, [&] {
    const auto body = parse_body(request.body);
    if (!body) return reply->send(error_response(body.error()));
    if (route.parse != nullptr) return generate(route, request, *body, reply);
    const auto served = model();
    if (!served) return reply->send(refusal(503, "the model is being loaded"));
    if (route.begin != nullptr) {
      const auto begun = (this->*route.begin)(served, request, *body, reply);
      if (!begun) reply->send(error_response(begun.error()));
      return;
    }
    const auto answer = (this->*route.work)(*served, *body);
    if (!answer) return reply->send(error_response(answer.error()));
    Response response;
    response.body = answer->dump() + "\n";
    reply->send(std::move(response));
  });
}

void Server::generate(const Route& route, const Request& request, const Json& body,
                      const std::shared_ptr<Reply>& reply) {
  const auto submitted = submit(route, request, body, reply);
  if (!submitted) reply->fail(error_response(submitted.error()), "");
}

ApiResult<void> Server::submit(const Route& route, const Request& request, const Json& body,
                               const std::shared_ptr<Reply>& reply) {
  const std::shared_ptr<const ServedModel> served = model();
  if (!served) return refused(503, "the model is being loaded");
  TAMIS_API_TRY(GenerationCall call, route.parse(body, limits_of(*served)));
  TAMIS_API_TRY_STATUS(check_model_name(call.model, *served));
  std::string prompt_end;
  TAMIS_API_TRY(call.request.prompt, build_prompt(*served, call, &prompt_end));
  TAMIS_API_TRY(AnswerPlan plan, plan_answer(*served, prompt_end, call));
  TAMIS_API_TRY(call.request.masks, build_masks(*served, call));
  call.request.tenant = request.facts->owner;
  TAMIS_API_TRY(call.request.time_limit_seconds, time_left(request));

  AnswerFacts facts;
  facts.id = request.id;
  facts.model = served->alias;
  facts.created = unix_time();
  facts.tokenizer = served->engine->tokenizer();
  facts.n_prompt = call.request.prompt.size();
  if (call.echoes_prompt) facts.echoed = call.text ? *call.text : facts.tokenizer->decode(call.tokens);
  facts.includes_usage = call.includes_usage;
  facts.has_logprobs = call.request.has_logprobs;
  facts.returns_tokens = call.returns_tokens;
  facts.repeated = std::move(call.repeated);

  AnswerJob::Setup setup;
  setup.reply = reply;
  setup.format = make_format(route.dialect, std::move(facts));
  setup.is_stream = call.is_stream;
  setup.n_choices = call.request.n_choices;
  setup.facts = request.facts;
  setup.metrics = metrics_;
  setup.plan = std::move(plan);
  setup.id = request.id;
  const auto id = served->scheduler->submit(std::move(call.request), std::make_shared<AnswerJob>(std::move(setup)));
  if (!id) return tl::unexpected<ApiError>(from_failure(id.error()));
  reply->on_gone([weak = std::weak_ptr(served), id = *id] {
    if (const auto still_served = weak.lock()) still_served->scheduler->cancel(id);
  });
  return {};
}

ApiResult<void> Server::check_model_name(const std::string& name, const ServedModel& model) const {
  if (!options_.is_strict_model || name == model.alias) return {};
  ApiError error = plain_error(404, fmt::format("model: \"{}\" is not served here", escape_for_display(name)));
  error.param = "model";
  error.code = "model_not_found";
  return tl::unexpected<ApiError>(std::move(error));
}

}  // namespace tamis::server
