// A model in another type: which tensor becomes what (plan_quantize), then the work (run_quantize). Tensors are written
// in the order of the source; metadata keeps its order and its bytes but for what quantization says about itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "convert/metadata_edit.h"
#include "convert/quantize_rows.h"
#include "convert/recipe.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/imatrix.h"

namespace tamis {

struct QuantizeOptions {
  RecipeName recipe;
  EncodeMethod method = EncodeMethod::fast;
  const Imatrix* imatrix = nullptr;  // may be null
  std::string imatrix_path;          // recorded in the file
  TensorTypes overrides;
  std::optional<DType> output_type, token_embd_type;
  bool is_pure = false;
  bool leaves_output = false;
  bool allows_requantize = false;
  bool keeps_split = false;
  std::vector<uint32_t> pruned_layers;
  std::vector<KvEdit> kv_overrides;
};

struct QuantizedTensor {
  size_t source = 0;  // index into GgufFile::tensors()
  std::string name;   // in the output
  Shape shape;
  DType from = DType::f32;
  TypeChoice choice;
  uint64_t size_bytes = 0;  // in the output
  const ImatrixEntry* importance = nullptr;
  std::shared_ptr<const Correlations> correlations;  // with the importance: for error feedback; null = none
};

// One file to write.
struct QuantizedFile {
  std::string path;
  std::vector<size_t> tensors;  // indices into the plan's
  GgufWriter writer;            // keys and tensors declared
  uint64_t size_bytes = 0;      // of the whole file, exactly
};

struct QuantizePlan {
  GgufFile source;
  QuantizeOptions options;
  std::vector<QuantizedTensor> tensors;
  std::vector<QuantizedFile> files;
  std::vector<std::string> warnings;
  std::optional<Error> refusal;  // why run_quantize will not do it: no encoder, or a source quantized already
  std::string missing_imatrix;   // the first tensor that an imatrix is needed for and lacks; "" = none

  uint64_t size_bytes() const;    // of all files
  uint64_t tensor_bytes() const;  // of all tensors, without padding
  uint64_t n_params() const;
};

// Everything that can be known before the work; reads headers only. `options.imatrix` must outlive the plan. out_path:
// with keeps_split and a source of several shards "x.gguf" is written as x-00001-of-0000N.gguf. Errors:
// invalid_argument for options that cannot be followed (layers that are not there, types that do not fit by hand, the
// output being the input); shape when the imatrix belongs to another model.
Result<QuantizePlan> plan_quantize(const GgufFile& source, const QuantizeOptions& options, const std::string& out_path);

struct QuantizeRun {
  ThreadPool* pool = nullptr;
  bool overwrites = false;
  // Goes on from PATH.partial where its journal proves that it fits, and leaves both when stopped or failed.
  bool resumes = false;
  const std::atomic<bool>* stop = nullptr;
  // Called before each tensor, and with each number of source bytes done.
  std::function<void(size_t tensor)> on_tensor;
  std::function<void(uint64_t n_bytes)> on_bytes;
};

struct QuantizeReport {
  uint64_t kept_bytes = 0;         // of an earlier run
  std::vector<std::string> exact;  // tensors encoded without loss though their type changed
};

// Writes the plan's files. Errors: the plan's refusal, and invalid_argument for a missing imatrix; out_of_memory when
// the disk has too little room, before anything is written; io; format for weights that are not finite;
// invalid_argument when a name is taken; cancelled. No file of the plan is left under its name when an error comes
// back, unless run.resumes and it is complete.
Result<QuantizeReport> run_quantize(QuantizePlan& plan, const QuantizeRun& run);

}  // namespace tamis
