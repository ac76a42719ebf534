// What the scenarios of `tamis bench serve` share: making requests, and turning what came into phases and facts.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/load_scenarios.h"

namespace tamis::cli {

struct LoadSizes {
  uint32_t n_clients = 1, n_requests = 1;  // requests: of all clients together
  TokenRange prompt, output;
};

// One request's words.
struct LoadMessage {
  std::string system, user;  // system "" = none
  uint64_t n_output = 1;     // exactly so many tokens are asked for
};

class LoadRun {
 public:
  LoadRun(LoadClient& client, const LoadOptions& options, const std::atomic<bool>& stop, std::string scenario)
      : client_(client), options_(options), stop_(stop), rng_(options.seed) {
    report_.scenario = std::move(scenario);
  }

  // Two short requests, outside every phase. Errors: network when one is not answered.
  Status learn_word_cost();

  // The scenario's sizes where the command line gives none.
  LoadSizes sizes(const LoadSizes& defaults) const;
  std::string words(uint64_t n_tokens) { return random_words(rng_, cost_.words_for(n_tokens)); }

  using OnTrace = std::function<void(const LoadTrace&)>;
  size_t send(uint32_t client, const LoadMessage& message, OnTrace on_piece = {}, OnTrace on_end = {});
  size_t send_messages(uint32_t client, const Json& messages, const Json& tools, uint64_t n_output);
  // `schema`: what answers are held to from now on; null = nothing.
  void set_form(Json schema) { schema_ = std::move(schema); }

  // `sizes.n_clients` clients, each sending the next request when its last one has ended, until all are sent.
  Status closed_phase(std::string name, const LoadSizes& sizes);
  void end_phase(std::string name);
  void fact(std::string name, double value, std::string unit) {
    report_.facts.push_back({std::move(name), value, std::move(unit)});
  }

  LoadClient& client() { return client_; }
  const LoadOptions& options() const { return options_; }
  const std::atomic<bool>& stop() const { return stop_; }
  Rng& rng() { return rng_; }
  const WordCost& cost() const { return cost_; }
  LoadReport& report() { return report_; }
  LoadReport take_report() { return std::move(report_); }
  double median_prompt_tokens() const;  // of the last phase
  std::string first_error() const;      // of the last phase; "no answer" when there is none

 private:
  Json body(uint64_t n_output) const;
  std::string key_of(uint32_t client) const;
  size_t send_body(uint32_t client, const Json& body, OnTrace on_piece, OnTrace on_end);

  LoadClient& client_;
  const LoadOptions& options_;
  const std::atomic<bool>& stop_;
  Rng rng_;
  WordCost cost_;
  Json schema_;
  LoadReport report_;
};

// Parts of bodies.
Json chat_message(std::string_view role, std::string content);
Json agent_tools();
// What an agent adds after an answer: the answer with a call of a tool, and what the tool said.
void append_tool_turn(Json& messages, uint32_t turn, std::string answer, std::string tool_result);
// A schema whose answers are long.
Json array_schema();

}  // namespace tamis::cli
