// A Hugging Face folder → one GGUF file: every tensor of the architecture's table found by its Hugging Face name,
// checked against the configuration, put in GGUF's order of rows and written in its type, tensor by tensor, some rows
// at a time. Source of names and keys: llama.cpp's converter.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "convert/recipe.h"
#include "formats/imatrix.h"
#include "quants/registry.h"

namespace tamis {

struct ConvertOptions {
  // "auto" (what the checkpoint holds: its float types, and packed codes as they are), "f32", "f16", "bf16", or a
  // recipe's name.
  std::string type = "auto";
  std::string name;  // general.name; "" = the folder's
  std::string pre;   // tokenizer.ggml.pre; "" = found by comparing
  EncodeMethod method = EncodeMethod::fast;
  const Imatrix* imatrix = nullptr;
  std::string imatrix_path;  // for the record
  RecipeOptions recipe;      // what was asked for by hand; recipe and has_imatrix are filled in here
  bool is_overwriting = false;
};

struct ConvertedTensor {
  std::string name;
  std::string source;  // how the checkpoint stores it: "BF16", "GPTQ of 4 bits, groups of 128"
  Shape shape;
  DType type = DType::f32;
  uint64_t size_bytes = 0;
  // Of packed codes, once written: relative root mean square difference between what the checkpoint and what the file
  // mean; exactly 0 when they are the same numbers.
  std::optional<double> error;
};

class ConvertPlan {
 public:
  // Reads the folder's headers, configuration and tokenizer; touches no weights. Errors: not_found (file, shard, or
  // tensor, by name), format, shape, unsupported (architecture, tokenizer, quantization), invalid_argument (type).
  // An importance matrix of another model is a shape error, located in its file.
  static Result<ConvertPlan> make(const std::string& folder, const ConvertOptions& options);
  ConvertPlan(ConvertPlan&&) noexcept;
  ConvertPlan& operator=(ConvertPlan&&) noexcept;
  ~ConvertPlan();

  const std::vector<ConvertedTensor>& tensors() const;  // in the file's order
  const std::vector<std::string>& warnings() const;
  uint64_t data_bytes() const;
  std::string type_name() const;  // of general.file_type

  // Writes the file, under its name only when complete; fills the tensors' errors. `progress` gets numbers of bytes
  // written. Errors: io, out_of_memory (disk), cancelled when `stop` turns true.
  Status write(const std::string& path, ThreadPool& pool, const std::function<void(uint64_t)>& progress = nullptr,
               const std::atomic<bool>* stop = nullptr);

  struct State;                            // convert_state.h
  std::unique_ptr<State> take_state() &&;  // for other ways to use a plan

 private:
  explicit ConvertPlan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tamis
