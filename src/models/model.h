// A GGUF file as a model: plan (which tensor goes where, everything checked, nothing touched) and load (weights handed
// to a backend). Between formats/gguf and models/decoder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compute/backend.h"
#include "compute/kv_cache.h"
#include "formats/gguf.h"
#include "models/arch.h"
#include "models/hyper.h"
#include "quants/affine_rows.h"

namespace tamis {

// Matrices that a checkpoint holds as packed codes: of a tensor of the file, matrix `matrix_idx` (an expert of a stack;
// else 0). Null: it is as the file says. Where there is one, the file's bytes of that tensor are not read.
using AffineTensors = std::function<const AffineRows*(std::string_view tensor, uint32_t matrix_idx)>;

struct LoadOptions {
  uint32_t n_ctx =
      0;  // context the caller will use; chooses LongRoPE's long or short factors. 0 = the model's training context
  Limits limits;
  AffineTensors affine;
  // Told of each tensor whose bytes in the file the model, once loaded, does not read again.
  std::function<void(const GgufTensor& tensor)> on_unread;
};

// One tensor of the file with its place in the model.
struct PlannedTensor {
  const GgufTensor* tensor = nullptr;
  Slot slot = Slot::token_embd;
  Part part = Part::weight;
  Role role = Role::linear;
  uint32_t layer_idx = 0;
  int32_t expert_idx = -1;  // ≥ 0: one expert of a file that stores them apart ("blk.0.ffn_gate.3.weight")
};

struct ModelPlan {
  ArchSpec arch;
  Hyper hyper;
  std::vector<PlannedTensor> tensors;
  std::vector<std::string> unused;    // tensors the architecture has no place for (S087)
  std::vector<std::string> warnings;  // one line each, ready to print
};

// Architecture, configuration and every tensor's existence, shape and type. Reads metadata only.
// Errors: unsupported (architecture, projector files), not_found (key or tensor, by name), format, shape: at its byte
// offset.
Result<ModelPlan> plan_model(const GgufFile& file, const Limits& limits = {});

// A linear map with what it owns. Unbound when weight is null.
struct OwnedLinear {
  std::unique_ptr<WeightStorage> weight;
  Buffer bias;
  float scale = 1;

  Linear bound() const { return {weight.get(), bias.empty() ? nullptr : bias.data(), scale}; }
};

struct LayerWeights {
  Buffer attn_norm, attn_post_norm, ffn_norm, ffn_post_norm, q_norm, k_norm;  // empty when the architecture has none
  OwnedLinear q, k, v, attn_output;                                           // a fused matrix is cut at load
  OwnedLinear gate, up, down;                                                 // dense layers
  OwnedLinear router;                                                         // mixture layers
  std::vector<OwnedLinear> gate_exps, up_exps, down_exps;                     // [n_expert]
};

// Owned by whoever runs it; immutable once loaded, so any number of sequences may share it. Holds the file open (its
// handle), since storages may view the mapped bytes.
struct Model {
  GgufFile file;
  ArchSpec arch;
  Hyper hyper;
  OwnedLinear token_embd;
  OwnedLinear output;  // unbound: tied to token_embd
  Buffer output_norm;
  std::vector<LayerWeights> layers;
  std::vector<double> rope_inv_freq, rope_inv_freq_windowed;  // [rot_dim / 2]
  double rope_magnitude = 1, rope_magnitude_windowed = 1;
  std::vector<std::string> warnings;

  const WeightStorage& output_weight() const { return output.weight ? *output.weight : *token_embd.weight; }
  uint32_t n_vocab() const { return hyper.n_vocab; }
  uint32_t n_ctx_train() const { return hyper.n_ctx_train; }
  // An empty cache of this model's shape. Requires: check_kv_types.
  KvCache make_cache(const KvTypes& types = {}) const;
};

// Whether the embedding is the output matrix too.
bool is_output_tied(const ModelPlan& plan);

// Memory of a plan's tensors on a backend.
struct ModelBytes {
  uint64_t weights = 0;  // matrices in the backend's form
  uint64_t vectors = 0;  // norms, biases and the like, decoded to f32
  uint64_t tables = 0;   // matrices whose rows are only looked up, in the mapped file: touched row by row
};

// What load_model would hold, without loading. Errors: out_of_memory when it does not fit 64 bits.
Result<ModelBytes> model_bytes(const ModelPlan& plan, const Backend& backend, const AffineTensors& affine = nullptr);

// What every layer stores for a token.
std::vector<KvLayerShape> kv_shapes(const Hyper& hyper);

// Errors: those of plan_model; io when the file shrank; out_of_memory, device.
Result<Model> load_model(const GgufFile& file, Backend& backend, const LoadOptions& options = {});

}  // namespace tamis
