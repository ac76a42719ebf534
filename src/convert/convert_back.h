// A GGUF file → a Hugging Face folder: the tensors as floats under their transformers names and in that library's order
// of rows, config.json, and the tokenizer as far as the file holds it. The reverse of convert.h.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

namespace tamis {

struct ConvertBackOptions {
  std::optional<DType> type;  // f32, f16 or bf16; nothing: floats as they are, block types as f32
  bool is_overwriting = false;
};

// One tensor of the folder: rows of one tensor of the file.
struct BackTensor {
  std::string name;
  SafeType type = SafeType::f32;
  std::vector<uint64_t> shape;
  const GgufTensor* source = nullptr;
  uint64_t first_row = 0, n_rows = 0;  // rows of the source, as its last extent makes them
  uint64_t n_head = 0;                 // above 0: rows are permuted for RoPE, this many heads of them
  float offset = 0;                    // added to every value
};

struct ConvertBackPlan {
  std::vector<BackTensor> tensors;
  std::vector<std::pair<std::string, std::string>> files;  // name → text of everything but the weights
  std::vector<std::string> warnings;
  uint64_t data_bytes = 0;
  bool is_overwriting = false;
};

// Errors: those of plan_model; unsupported for what config.json cannot say (heads that differ from layer to layer,
// values narrower than keys), naming the key.
Result<ConvertBackPlan> plan_convert_back(const GgufFile& file, const ConvertBackOptions& options);

// Writes the folder under a temporary name and renames it. Errors: io, out_of_memory (disk), invalid_argument when
// `path` exists and overwriting was not asked for, cancelled.
Status write_convert_back(const GgufFile& file, const ConvertBackPlan& plan, const std::string& path,
                          const std::function<void(uint64_t)>& progress = nullptr,
                          const std::atomic<bool>* stop = nullptr);

// tokenizer.json or tokenizer.model, tokenizer_config.json, generation_config.json and the chat template.
Status add_tokenizer_files(const GgufFile& file, ConvertBackPlan& plan);

}  // namespace tamis
