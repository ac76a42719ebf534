// An architecture as data: what differs from llama, and the table of its tensors. One table serves loader (existence,
// shape), converter (names), `inspect` and quantize recipes (role).  architecture.md §3.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/backend.h"
#include "models/roles.h"

namespace tamis {

enum class Norm : uint8_t { none, rms };
enum class Residual : uint8_t {
  pre,       // x + f(norm(x))
  sandwich,  // x + norm(f(norm(x)))
};
enum class Need : uint8_t { none, optional, required };

// Which layers see only the last few positions, and how they rotate. Layer i has the window when i mod period < period
// − 1.
struct WindowSpec {
  bool is_used = false;               // reads <arch>.attention.sliding_window and sliding_window_pattern
  uint32_t default_window = 0;        // when the key is absent; 0 = none
  uint32_t default_period = 0;        // 0 = every layer
  double default_freq_base = 0;       // when <arch>.rope.freq_base_swa is absent; 0 = the model's
  bool is_scaling_full_only = false;  // RoPE scaling rules apply to layers without a window only
};

struct AttnSpec {
  bool is_fused_qkv = false;  // the converter writes one attn_qkv matrix (q, k, v rows in turn); either form loads
  Need qkv_bias = Need::optional;
  Need output_bias = Need::optional;
  Norm qk_norm = Norm::none;  // on each head of q and k, before RoPE
  RopePairs rope = RopePairs::interleaved;
  bool has_rope_freqs = false;       // rope_freqs.weight may divide the frequencies (Llama 3.1)
  bool has_rope_long_short = false;  // rope_factors_long/short.weight may (LongRoPE)
  WindowSpec window;
  bool has_softcap = false;  // reads <arch>.attn_logit_softcapping
  float default_softcap = 0;
  // Files do not carry gemma's query_pre_attn_scalar: at this layer count the scale is 1/sqrt(n_embd/n_head). 0 =
  // never.
  uint32_t scale_by_embd_at_n_layers = 0;
};

struct FfnSpec {
  Activation activation = Activation::silu;
  bool is_fused_gate_up = false;  // ffn_up holds gate (first n_ff rows) and up
  Need bias = Need::none;
};

// A mixture's tensors in a Hugging Face checkpoint: % = the layer's number, # = the expert's.
struct HfExpertNames {
  std::string_view router = "model.layers.%.mlp.gate.weight";
  std::string_view gate = "model.layers.%.mlp.experts.#.gate_proj.weight";
  std::string_view up = "model.layers.%.mlp.experts.#.up_proj.weight";
  std::string_view down = "model.layers.%.mlp.experts.#.down_proj.weight";
};

struct MoeSpec {
  Need need = Need::none;  // optional: experts when <arch>.expert_count > 0
  RouterScore score = RouterScore::softmax;
  bool is_normalised = true;
  HfExpertNames hf;
};

struct BlockSpec {
  Residual residual = Residual::pre;
  AttnSpec attn;
  FfnSpec ffn;
  MoeSpec moe;
  bool is_embedding_scaled = false;  // token embeddings are multiplied by sqrt(n_embd)
  bool has_final_softcap = false;    // reads <arch>.final_logit_softcapping
  float default_final_softcap = 0;
  bool is_always_tied = false;  // never an output.weight of its own
};

// A size that the configuration gives: the extents of tensors are products of these.
enum class Dim : uint8_t {
  none,
  one,
  n_embd,
  n_vocab,
  q_width,
  k_width,
  v_width,
  qkv_width,
  attn_width,
  k_dim,
  n_ff,
  n_ff_twice,
  n_ff_expert,
  n_expert,
  rope_pairs,
};

// Where a tensor's data goes in the forward pass.
enum class Slot : uint8_t {
  token_embd,
  output_norm,
  output,
  rope_freqs,
  rope_long,
  rope_short,  // once a model
  attn_norm,
  attn_q,
  attn_k,
  attn_v,
  attn_qkv,
  attn_output,
  q_norm,
  k_norm,
  attn_post_norm,  // once a layer
  ffn_norm,
  ffn_gate,
  ffn_up,
  ffn_gate_up,
  ffn_down,
  router,
  gate_exps,
  up_exps,
  down_exps,
  ffn_post_norm,
};

enum class Part : uint8_t { weight, bias, scale };

// Which layers or files have the tensor.
enum class When : uint8_t { always, dense, moe, split_qkv, fused_qkv };

struct TensorSpec {
  Slot slot;
  Part part = Part::weight;
  Role role;
  std::string_view name;      // "token_embd.weight"; of a layer: "blk.%.attn_q.weight", % = the layer's number
  std::array<Dim, 3> dims{};  // row-major, slowest first; Dim::none ends the list
  bool is_required = true;
  When when = When::always;
  // The same tensor in a Hugging Face checkpoint, # = the number of one expert of a stack; "" when the converter makes
  // it. A checkpoint's first module may lie deeper ("language_model.").
  std::string_view hf_name;

  bool is_per_layer() const { return name.substr(0, 5) == "blk.%"; }
};

// A class of the transformers library whose checkpoints have this architecture.
struct HfClass {
  std::string_view name;        // in config.json's "architectures"
  std::string_view model_type;  // config.json's "model_type" of the language model
  bool is_mixture = false;      // the class for files with experts, where the architecture has files without
};

// What config.json may leave out because the class has a default of its own.
struct HfDefault {
  std::string_view key;
  double value;
};

struct ArchSpec {
  std::string_view name;            // general.architecture
  std::vector<HfClass> hf_classes;  // the first is what files are written as
  std::vector<HfDefault> hf_defaults;
  float hf_norm_offset = 0;  // what is added to a checkpoint's norm gains
  BlockSpec block;
  std::vector<TensorSpec> tensors;
};

// "n_head*k_dim", for error messages.
std::string_view dim_name(Dim dim);

// The table of a decoder-only transformer with this block.
std::vector<TensorSpec> decoder_tensors(const BlockSpec& block);

// "blk.%.attn_q.weight" → "blk.3.attn_q.weight".
std::string tensor_name(std::string_view pattern, uint32_t layer_idx);

// The architecture a file names. Errors: unsupported, naming it and the known ones.
Result<ArchSpec> find_arch(std::string_view name);
std::vector<std::string_view> arch_names();

// The architecture of a transformers class. Errors: unsupported, naming it and the known ones, or what it is instead.
Result<ArchSpec> find_arch_of_class(std::string_view hf_class);

}  // namespace tamis
