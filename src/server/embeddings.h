// /v1/embeddings: what is asked for, and the job that computes it input by input through the scheduler, a few at a
// time. Beside the answers of generated text (answer_job).
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/generation_call.h"
#include "server/server.h"

namespace tamis::server {

struct EmbeddingsCall {
  static constexpr size_t kMaxInputs = 2048;

  struct Input {
    std::string field;            // "input[3]"; "input" when there is one alone
    std::string text;             // unless there are tokens
    std::vector<TokenId> tokens;  // not empty where they were given
  };
  std::string model;
  std::vector<Input> inputs;
  bool is_base64 = false;
};

// Errors: 400 naming the field.
ApiResult<EmbeddingsCall> parse_embeddings(const Json& body, const CallLimits& limits);

// How the model's file says that hidden states become one vector; the mean where it says nothing. Errors: 501 for ways
// that are not there.
ApiResult<Pooling> pooling_of(const ServedModel& model);

// An input's tokens. Errors: 400 naming its field, for one that is empty or longer than the context.
ApiResult<std::vector<TokenId>> build_embedding_prompt(const ServedModel& model, const EmbeddingsCall::Input& input);

// The most bytes that the answer can have.
uint64_t most_bytes(const EmbeddingsCall& call, const CallLimits& limits);

// Counts n bytes among the `total` of the answers that are made or being sent, for as long as the result lives; null
// when that would be more than kMaxHeldBytes. From any thread.
constexpr uint64_t kMaxHeldBytes = uint64_t{512} << 20;
std::shared_ptr<void> hold_bytes(const std::shared_ptr<std::atomic<uint64_t>>& total, uint64_t n);

class EmbeddingJob : public std::enable_shared_from_this<EmbeddingJob> {
 public:
  struct Setup {
    std::shared_ptr<Reply> reply;
    std::weak_ptr<const ServedModel> model;
    std::shared_ptr<const void> hold;  // on it (model_shelf.h)
    std::string alias, tenant;
    Pooling pooling = Pooling::mean;
    bool is_base64 = false;
    std::vector<std::vector<TokenId>> prompts;
    uint64_t max_bytes = 0;      // of the answer
    std::shared_ptr<void> held;  // these bytes
    size_t n_at_once = 1;
    std::optional<std::chrono::steady_clock::time_point> deadline;  // of all inputs together
  };
  explicit EmbeddingJob(Setup setup);
  void start();  // once; the reply is answered later

 private:
  class Listener;
  struct Done {
    size_t idx = 0;
    std::vector<float> values;
    RequestReport report;
    std::optional<ApiError> failure;
  };

  void on_done(Done done);  // from any thread
  void handle_done();       // this and the rest: on the input/output thread
  void take(const Done& done);
  void submit_more();
  void finish();
  void fail(const ApiError& error);
  void cancel_all();

  Setup setup_;
  std::mutex mutex_;
  std::vector<Done> done_;  // guarded

  std::string body_;                     // of the answer, up to the first embedding that is not there
  std::map<size_t, std::string> early_;  // JSON of those behind it
  size_t n_written_ = 0;                 // in body_
  std::vector<RequestId> running_;       // all that were submitted; those that have ended do no harm
  size_t n_submitted_ = 0, n_done_ = 0, n_tokens_ = 0;
  bool is_over_ = false;
};

}  // namespace tamis::server
