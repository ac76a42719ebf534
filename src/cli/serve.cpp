// `tamis serve -m MODEL`: the HTTP server around one model or several, until a signal ends it.
#include "cli/serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "base/log_thread.h"
#include "cli/interrupt.h"
#include "cli/load_engine.h"
#include "cli/otlp.h"
#include "cli/program.h"
#include "cli/serve_models.h"
#include "convert/split.h"
#include "formats/json.h"
#include "server/server.h"

namespace tamis::cli {
namespace {

constexpr auto kPollTime = std::chrono::milliseconds(50);  // of the stop flag

// Where others can reach it, keys are asked for, unless the user says that none are wanted.
Status check_exposure(const std::string& host, bool has_keys, bool is_insecure) {
  if (server::is_loopback(host) || host.starts_with("unix:") || has_keys || is_insecure) return {};
  return fail(ErrorCode::invalid_argument,
              "--host {}: whoever reaches this address could use the model; give --api-key-file FILE, or --insecure "
              "where that is wanted",
              host);
}

Result<server::ServerOptions> server_options(const Args& args) {
  server::ServerOptions options;
  options.http.host = args.text("--host");
  options.http.port = static_cast<uint16_t>(args.integer("--port"));
  options.http.max_connections = static_cast<uint32_t>(args.integer("--max-connections"));
  options.http.max_connections_per_ip = static_cast<uint32_t>(args.integer("--max-connections-per-ip"));
  if (args.has("--api-key-file")) {
    TAMIS_TRY(options.keys, server::ApiKeys::read(args.text("--api-key-file")));
  }
  options.is_cache_per_key = args.flag("--cache-per-key");
  if (options.is_cache_per_key && options.keys.empty())
    return fail(ErrorCode::invalid_argument, "--cache-per-key: needs --api-key-file");
  if (args.has("--tls-cert") != args.has("--tls-key"))
    return fail(ErrorCode::invalid_argument, "--tls-cert and --tls-key need each other");
  options.http.tls_certificate = args.text("--tls-cert");
  options.http.tls_key = args.text("--tls-key");
  const std::string log = args.text("--access-log");
  options.access_log = log == "json"                                    ? server::AccessLog::json
                       : log == "text" || log_level() >= LogLevel::info ? server::AccessLog::text
                                                                        : server::AccessLog::off;
  TAMIS_TRY_STATUS(check_exposure(options.http.host, !options.keys.empty(), args.flag("--insecure")));
  if (args.has("--otlp-endpoint")) {
    TAMIS_TRY(const std::string url, otlp_traces_url(args.text("--otlp-endpoint")));
    options.trace_sink = otlp_sink(url);
  }
  options.request_timeout_seconds = args.real("--request-timeout");
  if (args.has("--slot-save-bytes") && !args.has("--slot-save-path"))
    return fail(ErrorCode::invalid_argument, "--slot-save-bytes: needs --slot-save-path");
  options.slot_save_dir = args.text("--slot-save-path");
  if (args.has("--slot-save-bytes")) {
    TAMIS_TRY(options.slot_save_bytes, parse_size(args.text("--slot-save-bytes")));
  }
  options.is_strict_model = args.flag("--strict-model");
  options.load_timeout_seconds = args.real("--queue-timeout");
  options.version = kVersion;
  return options;
}

Result<SchedulerOptions> scheduler_options(const Args& args) {
  SchedulerOptions options;
  options.itl_target_ms = static_cast<uint32_t>(args.integer("--itl-target-ms"));
  TAMIS_TRY(options.max_batched_tokens, integer_option(args, "--max-batched-tokens", 0));
  options.max_seqs = static_cast<uint32_t>(args.integer("--max-seqs"));
  TAMIS_TRY(options.max_queue, integer_option(args, "--max-queue", std::max(4 * options.max_seqs, 16U)));
  options.speculation = args.text("--spec") == "off" ? Speculation::off : Speculation::ngram;
  options.queue_timeout_seconds = args.real("--queue-timeout");
  if (args.has("--kv-bytes")) {
    TAMIS_TRY(options.kv_bytes, parse_size(args.text("--kv-bytes")));
  }
  if (args.has("--kv-spill-bytes") && !args.has("--kv-spill-dir"))
    return fail(ErrorCode::invalid_argument, "--kv-spill-bytes: needs --kv-spill-dir");
  options.spill_dir = args.text("--kv-spill-dir");
  if (args.has("--kv-spill-bytes")) {
    TAMIS_TRY(options.spill_bytes, parse_size(args.text("--kv-spill-bytes")));
  }
  return options;
}

Status announce(const std::string& url, bool as_json) {
  log_line(LogLevel::info, fmt::format("listening on {}", url));
  if (!as_json) return {};
  Json out = Json::object();
  return print_out(out.set("schema", 1).set("listening", url).dump() + "\n");
}

// What SIGHUP asks for: keys and certificate anew. What cannot be read stays as it was.
void reload(const Args& args, server::Server& serving) {
  bool is_all_read = true;
  if (args.has("--api-key-file")) {
    auto keys = server::ApiKeys::read(args.text("--api-key-file"));
    is_all_read = keys.has_value();
    if (keys)
      serving.set_keys(*std::move(keys));
    else
      log_warning("the keys stay as they were: {}", keys.error().to_string());
  }
  if (const Status read = serving.reload_tls(); !read) {
    is_all_read = false;
    log_warning("the certificate stays as it was: {}", read.error().to_string());
  }
  if (is_all_read) log_line(LogLevel::info, "keys and certificate are read again");
}

// Until a signal says to end.
void serve_until_stopped(const Args& args, server::Server& serving, std::atomic<bool>* hangup) {
  const std::atomic<bool>& stop = stop_flag();
  while (!stop.load()) {
    std::this_thread::sleep_for(kPollTime);
    if (hangup != nullptr && hangup->exchange(false)) reload(args, serving);
  }
}

Result<int> run_serve(const Args& args) {
  const LogThread log_thread;  // nobody who serves waits for whoever reads stderr
  const bool can_reload = args.has("--api-key-file") || args.has("--tls-cert");
  // From the beginning: a SIGHUP while the model is loaded is no end.
  std::atomic<bool>* const hangup = can_reload ? &hangup_flag() : nullptr;
  TAMIS_TRY(server::ServerOptions options, server_options(args));
  TAMIS_TRY_STATUS(check_models(args));
  ServeSetup setup;
  TAMIS_TRY(setup.scheduler, scheduler_options(args));
  if (options.keys.size() > 1) setup.scheduler.max_queue_per_tenant = (setup.scheduler.max_queue + 1) / 2;
  TAMIS_TRY(setup.engine.n_ctx, integer_option(args, "-c", 0, 0));
  setup.engine.n_batch = static_cast<uint32_t>(args.integer("-b"));

  std::unique_ptr<ThreadPool> pool;  // before the server, so that its threads outlive every request
  TAMIS_TRY(const std::unique_ptr<server::Server> serving, server::Server::start(std::move(options)));
  if (args.texts("-m").size() > 1) {
    TAMIS_TRY(auto models, open_shelf(args, setup, pool));
    serving->set_models(std::move(models));
  } else {
    TAMIS_TRY(auto model, load_only_model(args, setup, pool));
    serving->set_model(std::move(model));
  }
  stop_flag();
  TAMIS_TRY_STATUS(announce(serving->url(), args.flag("--json")));
  serve_until_stopped(args, *serving, hangup);

  log_info("shutting down; a second signal ends at once");
  if (!serving->drain(args.real("--drain-timeout"))) log_warning("some requests were cut short");
  return 0;
}

}  // namespace

Verb serve_verb() {
  return {
      .name = "serve",
      .summary = "serves models over HTTP: OpenAI's, Anthropic's, llama-server's and ollama's APIs",
      .details =
          "Many requests share the model's steps: prompts are read in pieces between the tokens of running answers, "
          "and prompts that begin alike share what was computed.\n\n"
          "Several -m serve several models, each under its name (the field `model` of requests; the first one without "
          "it). The first is loaded at once, another one when it is asked for; where --ram-budget does not hold all, "
          "those that nobody uses make room.\n\n"
          "Prints `tamis: listening on http://HOST:PORT` on stderr when the model is loaded. GET /health, /ready and "
          "/metrics tell how it does. The first SIGTERM or Ctrl-C refuses new requests and lets running ones end "
          "(--drain-timeout), then exits 0; the second ends at once.\n\n"
          "It listens on this machine only, unless --host says otherwise; then keys are needed (--api-key-file), "
          "shown by clients as `Authorization: Bearer KEY` or `x-api-key: KEY`. SIGHUP reads keys and certificate "
          "again.",
      .options = serve_options(),
      .run = run_serve};
}

}  // namespace tamis::cli
