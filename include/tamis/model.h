// A language model from a GGUF file.
//
//   auto model = tamis::api::LanguageModel::load("model.gguf");
//   if (!model) { report(model.error().to_string()); return; }
//   auto answer = model->complete("Once upon a time", {.n_predict = 64}, nullptr);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tamis/generate.h"
#include "tamis/result.h"

namespace tamis::api {

struct ModelOptions {
  std::string backend = "cpu";     // "cpu", or "reference": slow, double precision, the measure of all others
  std::string activations = "q8";  // 8 bits where the weights' type allows it; "f32": exact, slower
  std::string layout = "auto";     // of weights in memory: "planes", "affine", "dense"; "auto": the fastest
  uint64_t ram_budget_bytes = 0;   // loading is refused where weights and a full context need more; 0 = what there is
  uint32_t n_threads = 0;          // 0 = the cores this process may use
  uint32_t n_ctx = 0;              // context of one conversation, tokens; 0 = min(what the model was trained for, 4096)
  uint32_t n_batch = 512;          // prompt tokens computed together; changes no result
  // Types of stored keys and values: "f32", "f16", "bf16", "q8_0", "q4_0"; "" = f16, on the reference f32.
  std::string cache_type_k, cache_type_v;
  std::string pre;        // pre-tokenizer in place of the one the file names; "" = the file's
  std::string trace_dir;  // every intermediate is written there as .npy; "" = none
  bool parse_content_special =
      false;  // special tokens spelled out in messages become those tokens, as Hugging Face does
};

struct ModelInfo {
  std::string path, name, architecture, backend;
  uint64_t file_bytes = 0, n_parameters = 0;
  uint32_t n_layers = 0, n_embd = 0, n_vocab = 0;
  uint32_t n_ctx_train = 0, n_ctx = 0, n_threads = 0;
  uint64_t kv_bytes = 0;  // keys and values of one full context
  bool has_chat_template = false;
  std::vector<std::string> warnings;  // one line each
};

// A handle: copies share the loaded model, which lives as long as any of them or any Chat. One call computes at a time.
class LanguageModel {
 public:
  // Errors: io, not_found; format, unsupported, shape at a byte offset of the file; out_of_memory when a full context's
  // keys and values exceed this machine's memory; invalid_argument for options that make no sense.
  static Result<LanguageModel> load(const std::string& path, const ModelOptions& options = {});

  ModelInfo info() const;

  // Text ↔ token ids. `add_special`: BOS and the like as the model wants; `parse_special`: "<|im_end|>" spelled out in
  // the text becomes that token. Any bytes.
  std::vector<int32_t> tokenize(std::string_view text, bool add_special = false, bool parse_special = false) const;
  std::string detokenize(std::span<const int32_t> ids) const;

  // Continues `prompt` as it stands (BOS is added when the model wants one; special tokens are parsed). An empty prompt
  // is BOS alone. Errors: invalid_argument when the prompt does not fit the context, is empty and the model has no BOS,
  // or the options make no sense; internal when the model computes NaN; out_of_memory; whatever on_text returns.
  Result<Answer> complete(std::string_view prompt, const GenerateOptions& options, const OnText& on_text) const;

  // Logits after every token, [ids.size(), n_vocab], row-major. Errors: as complete.
  Result<std::vector<float>> logits(std::span<const int32_t> ids) const;

  struct State;
  const std::shared_ptr<const State>& state() const { return state_; }  // for the other parts of tamis

 private:
  explicit LanguageModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace tamis::api
