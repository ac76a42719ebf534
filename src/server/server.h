// The server: HTTP requests to one loaded model or several, in the dialects that clients speak. Over http (bytes) and
// the engine's scheduler (tokens).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/access_log.h"
#include "server/answer_format.h"
#include "server/api_description.h"
#include "server/api_keys.h"
#include "server/generation_call.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/model_shelf.h"
#include "server/served_model.h"
#include "server/trace_exporter.h"
#include "server/workers.h"

namespace tamis::server {

struct ServerOptions {
  HttpOptions http;
  ApiKeys keys;
  bool is_strict_model = false;  // requests must name the model
  double load_timeout_seconds =
      0;                // a request that waited that long for one of several models is refused; 0 = it waits
  std::string version;  // of the program
  AccessLog access_log = AccessLog::off;
  TraceSink trace_sink;  // --otlp-endpoint: where spans of requests go; null: there are none
  TraceLimits trace_limits;
  uint32_t n_workers = 2;
  double request_timeout_seconds = 0;  // from a request's first byte; then its answer ends as it is; 0 = none
  double stuck_after_seconds = 60;     // without a step while requests wait for one: then /health says 503
  std::string slot_save_dir;           // --slot-save-path: where sessions are kept; "": none are
  uint64_t slot_save_bytes = 0;        // --slot-save-bytes: of them at most; 0: see Sessions::open
  bool is_cache_per_key = false;  // --cache-per-key: prompts share what was computed among requests of one key only
};

class Sessions;

class Server : private HttpHandler {
 public:
  // Listens at once; until set_model() or set_models() everything but metrics answers 503. Errors: those of
  // HttpServer::open and Sessions::open.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void set_model(std::shared_ptr<const ServedModel> model);  // the only one
  void set_models(std::shared_ptr<ModelShelf> models);       // several in place of one
  // From the next request on, these keys are asked for. What runs goes on.
  void set_keys(ApiKeys keys);
  // Certificate and key of TLS are read again. Errors: those of HttpServer::reload_tls.
  Status reload_tls() { return http_->reload_tls(); }
  std::string url() const { return http_->url(); }
  uint16_t port() const { return http_->port(); }

  // Refuses new and waiting requests with 503, lets running ones end for up to `seconds`, then cancels what is left;
  // /health and /ready go on answering meanwhile. True when nothing had to be cancelled. For a caller that ends the
  // server next.
  bool drain(double seconds);

 private:
  struct Route;
  explicit Server(ServerOptions options);

  // HttpHandler
  bool accepts(const RequestHead& head, const std::string& peer, Response& refusal) override;
  void handle(Request request, std::shared_ptr<Reply> reply) override;
  Response refusal(int status, std::string_view message) override;
  void on_answered(const Answered& answered) override;

  // What is left of the time that a request may take, by the server's limit and the client's X-Request-Timeout
  // (seconds); 0 = no limit. Errors: 400; 503 when it is over.
  ApiResult<double> time_left(const Request& request) const;
  ApiResult<void> check_head(const RequestHead& head, const std::string& peer);
  bool is_known_host(const RequestHead& head) const;
  // A request on its way to a worker, and while it waits for a model.
  struct Job {
    const Route* route = nullptr;
    Request request;
    std::shared_ptr<Reply> reply;
    std::atomic<bool> has_left{false};  // the client
  };
  void begin(const std::shared_ptr<Job>& job);
  void work(const std::shared_ptr<Job>& job);
  void work_with(const Job& job, const Json& body, const ModelLease& lease);
  // The model that a request names, when it can be used at once; otherwise nothing, and the job goes on when it can.
  ApiResult<std::optional<ModelLease>> lease_for(const std::shared_ptr<Job>& job, const Json& body);
  ApiResult<void> submit(const Route& route, const Request& request, const Json& body, const ModelLease& lease,
                         const std::shared_ptr<Reply>& reply);
  // Where a request that generates stands in its client's trace; null: it has no spans.
  std::shared_ptr<RequestTrace> begin_trace(const Route& route, const RequestHead& head) const;
  // The salt under which prompts share what was computed, of a key's id and what its client asks for.
  std::string effective_salt(const std::string& tenant, const std::string& asked) const;
  ApiResult<void> check_model_name(const std::string& name, const ServedModel& model) const;

  std::shared_ptr<const ServedModel> model() const;
  std::shared_ptr<ModelShelf> models_shelf() const;
  bool has_models() const { return model() != nullptr || models_shelf() != nullptr; }
  std::vector<ModelStatus> model_list() const;  // none while the only one is being loaded
  // The model that a GET is about: the one that ?model= names, or the first that is in memory. Errors: 404; 503 while
  // it is not in memory.
  ApiResult<ModelLease> shown_model(const Request& request) const;
  std::shared_ptr<const ApiKeys> keys() const;

  // What routes do: quick ones on the input/output thread, the others on a worker's.
  using Quick = Response (Server::*)(const Request&);
  using Work = ApiResult<Json> (Server::*)(const ServedModel&, const Json&);
  using Begin = ApiResult<void> (Server::*)(const ModelLease&, const Request&, const Json&,
                                            const std::shared_ptr<Reply>&);  // the answer comes later
  using Parse = ApiResult<GenerationCall> (*)(const Json&, const CallLimits&);
  using Read = void (*)(const Json&, const CallLimits&);
  static const std::vector<Route>& routes();
  static std::vector<Route> quick_routes();
  static std::vector<Route> reading_routes();
  static std::vector<Route> generating_routes();
  static const Route* find_route(std::string_view method, std::string_view path);
  static std::string_view routed_method(const RequestHead& head);
  static const Route& model_route();
  static const Route& slot_route();
  static ApiOperation operation_of(const Route& route);
  static std::string allowed_methods(std::string_view path);  // "" for no such path

  Response health(const Request& request);
  Response ready(const Request& request);
  Response metrics_page(const Request& request);
  Response list_models(const Request& request);
  Response one_model(const Request& request);
  Response props(const Request& request);
  Response page(const Request& request);
  Response api_description(const Request& request);
  Response slots(const Request& request);
  Response version(const Request& request);
  Response tags(const Request& request);
  Response loaded_tags(const Request& request);
  ApiResult<Json> show(const ServedModel& model, const Json& body);
  ApiResult<Json> tokenize(const ServedModel& model, const Json& body);
  ApiResult<Json> detokenize(const ServedModel& model, const Json& body);
  ApiResult<Json> apply_template(const ServedModel& model, const Json& body);
  ApiResult<Json> count_tokens(const ServedModel& model, const Json& body);
  ApiResult<Json> count_input_tokens(const ServedModel& model, const Json& body);
  ApiResult<void> embeddings(const ModelLease& lease, const Request& request, const Json& body,
                             const std::shared_ptr<Reply>& reply);
  ApiResult<void> session(const ModelLease& lease, const Request& request, const Json& body,
                          const std::shared_ptr<Reply>& reply);

  const ServerOptions options_;
  Metrics metrics_;
  const std::shared_ptr<ModelMetrics> counts_ = std::make_shared<ModelMetrics>();  // of the only model
  const std::shared_ptr<std::atomic<uint64_t>> answer_bytes_ =
      std::make_shared<std::atomic<uint64_t>>(0);  // of large ones
  FailureLimit failures_;                          // of the input/output thread
  std::weak_ptr<const ServedModel> described_;     // of the input/output thread, as the next one
  std::string description_;                        // of the API with that model
  mutable std::mutex mutex_;
  std::shared_ptr<const ServedModel> model_;  // guarded; null while it is being loaded, and where there are several
  std::shared_ptr<ModelShelf> shelf_;         // guarded; null where there is one
  std::shared_ptr<const ApiKeys> keys_;       // guarded
  std::atomic<bool> is_draining_{false};
  std::shared_ptr<Sessions> sessions_;     // null: none are kept
  std::unique_ptr<AccessLogWriter> log_;   // null: none is written
  std::unique_ptr<TraceExporter> traces_;  // null: none are sent
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<HttpServer> http_;
};

// The time in so many seconds; none for 0.
std::optional<std::chrono::steady_clock::time_point> deadline_in(double seconds);

// Whether `host` means this machine, as text: a name that only looks so (127.0.0.1.example) does not.
bool is_loopback(std::string_view host);

// The prompts of a call as tokens, one of messages; `end`: what the template wrote behind the last message. Errors: 400
// for what the template refuses or the model lacks.
ApiResult<std::vector<std::vector<TokenId>>> build_prompts(const ServedModel& model, const GenerationCall& call,
                                                           std::string* end = nullptr);
ApiResult<std::string> render_prompt(const ServedModel& model, const GenerationCall& call);
CallLimits limits_of(const ServedModel& model);
// What the answer must be, over the model's vocabulary; null = anything. Errors: 400 naming the field and the place.
ApiResult<std::shared_ptr<const TokenMasks>> build_masks(const ServedModel& model, const GenerationCall& call);

}  // namespace tamis::server
