// What a user holds: one loaded model with its tokenizer, chat template and backend. Any number of sessions share it,
// one step at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "compute/backend.h"
#include "engine/tensor_trace.h"
#include "models/decoder.h"
#include "models/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tamis {

struct EngineOptions {
  uint32_t n_ctx = 0;      // context of one sequence, tokens; 0 = min(what the model was trained for, kDefaultContext)
  uint32_t n_batch = 512;  // most prompt tokens computed together; results do not depend on it
  KvTypes kv_types = {DType::f16, DType::f16};  // of stored keys and values
  bool has_tokenizer = true;                    // false: token ids only, no vocabulary is read
  uint64_t ram_budget_bytes = 0;  // most memory for weights and a full context; 0 = what this process may use
  TokenizerOptions tokenizer;
  Limits limits;
  AffineTensors affine;  // matrices that are packed codes in place of the file's bytes; asked while loading only
  std::function<void(const GgufTensor& tensor)> on_unread;  // as LoadOptions has it
  std::string trace_dir;  // every intermediate of every step is written there (engine/tensor_trace.h); "" = none
};

class Engine {
 public:
  static constexpr uint32_t kDefaultContext = 4096;

  // Opens `path`, checks everything, hands the weights to `backend`. Errors: those of GgufFile::open, load_model,
  // Tokenizer::from_gguf and check_kv_types; out_of_memory when weights and the keys and values of a full context
  // exceed the budget.
  static Result<std::shared_ptr<const Engine>> load(const std::string& path, std::unique_ptr<Backend> backend,
                                                    const EngineOptions& options = {});

  // The same of a file that is open; errors are located in it.
  static Result<std::shared_ptr<const Engine>> load(const GgufFile& file, std::unique_ptr<Backend> backend,
                                                    const EngineOptions& options = {});

  const Model& model() const { return model_; }
  uint32_t n_ctx() const { return n_ctx_; }
  uint32_t n_batch() const { return n_batch_; }
  const KvTypes& kv_types() const { return kv_types_; }
  uint64_t kv_bytes_of_context() const { return kv_bytes_; }  // of one sequence that fills the context
  std::string_view backend_name() const { return backend_->name(); }
  const std::vector<std::string>& warnings() const { return model_.warnings; }

  // Requires: loaded with has_tokenizer.
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }

  // The model's own chat template, parsed when first asked for: a broken one must not keep the model from loading
  // (B12). Errors: not_found when the file has none; format when it does not parse.
  Result<const ChatTemplate*> chat_template() const;
  bool has_chat_template() const { return model_.file.find("tokenizer.chat_template") != nullptr; }

  // One step; see models/decoder.h. Steps of several threads take turns.
  Result<std::vector<float>> forward(const Batch& batch, const Probe& probe = nullptr,
                                     const ExpertProbe& expert_probe = nullptr) const;

 private:
  Engine() = default;
  Result<std::vector<float>> run_step(const Batch& batch, const Probe& probe, const ExpertProbe& expert_probe) const;

  Model model_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<TensorTrace> trace_;
  uint32_t n_ctx_ = 0, n_batch_ = 0;
  uint64_t kv_bytes_ = 0;
  KvTypes kv_types_;
  mutable std::mutex stepping_, parsing_;
  mutable std::optional<Result<ChatTemplate>> template_;
};

// A loading error as the program reports it: a file that lacks a key or tensor is a bad file (format); only a missing
// file is not_found.
Error as_file_error(Error error);

// Bytes of keys and values of `n_ctx` tokens; nothing when the number does not fit 64 bits. Requires: check_kv_types.
std::optional<uint64_t> kv_bytes(const Hyper& hyper, uint32_t n_ctx, const KvTypes& types);

}  // namespace tamis
