// The interface every device implements: about twenty fused ops over f32 activations and opaque weights. models/decoder
// calls them in order; there is no graph. A backend may override the composed ops (qkv, gate_up, expert_…) with fused
// ones.
//
// Exactness: a row of any op's output depends only on that row's inputs (and, for attention, on the keys of its own
// sequence), with one fixed order of floating-point steps: never on the other rows of the batch or the number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/result.h"
#include "base/shape.h"
#include "compute/kv_cache.h"
#include "compute/tensor.h"
#include "quants/affine_rows.h"

namespace tamis {

// A matrix [n_out, n_in] in the form one backend chose for it. Made by Backend::load_weight of the same backend only.
class WeightStorage {
 public:
  WeightStorage(DType dtype, size_t n_out, size_t n_in) : dtype_(dtype), n_out_(n_out), n_in_(n_in) {}
  virtual ~WeightStorage() = default;
  WeightStorage(const WeightStorage&) = delete;
  WeightStorage& operator=(const WeightStorage&) = delete;

  DType dtype() const { return dtype_; }  // as in the file
  size_t n_out() const { return n_out_; }
  size_t n_in() const { return n_in_; }

  // Bytes of memory this storage keeps in use: its own, or of the file's view where it works on that.
  virtual size_t resident_bytes() const = 0;
  // Whether products read the file's bytes. If not, a mapped file's pages may be given back: they come again by
  // themselves when a row is looked up.
  virtual bool reads_file() const { return true; }

 private:
  DType dtype_;
  size_t n_out_, n_in_;
};

// A linear map y = scale · W x + bias, bound for a call. `bias` is [n_out] or null.
struct Linear {
  const WeightStorage* weight = nullptr;
  const float* bias = nullptr;
  float scale = 1.0f;

  bool is_bound() const { return weight != nullptr; }
};

enum class Activation : uint8_t {
  silu,       // x · sigmoid(x)
  gelu_tanh,  // 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))
  gelu_erf,   // 0.5 x (1 + erf(x/√2))
  relu,
};

enum class RopePairs : uint8_t {
  interleaved,  // element 2i with 2i+1 (GGUF's "norm": llama)
  halves,       // element i with i + rot_dim/2 (GGUF's "neox")
};

// Rotation of one layer, all scaling rules already folded in (models/rope.h): the angle of pair i at position p is
// p · inv_freq[i]; cosine and sine are multiplied by `magnitude`.
struct RopeParams {
  RopePairs pairs = RopePairs::interleaved;
  std::span<const double> inv_freq;  // [rot_dim / 2], radians a position
  double magnitude = 1.0;            // YaRN's and LongRoPE's attention factor
};

struct AttentionParams {
  uint32_t n_head = 0, n_head_kv = 0;  // n_head_kv divides n_head; head h reads kv head h / (n_head / n_head_kv)
  uint32_t k_dim = 0, v_dim = 0;       // of one head
  float scale = 1.0f;                  // multiplies q·k
  float softcap = 0.0f;                // s → cap·tanh(s/cap) after scaling; 0 = none
  uint32_t window = 0;                 // keys at distance ≥ window are not seen; 0 = all
};

enum class RouterScore : uint8_t { softmax, sigmoid };

struct RouterParams {
  RouterScore score = RouterScore::softmax;
  uint32_t n_used = 0;        // experts a token
  bool is_normalised = true;  // the chosen weights are divided by their sum
  float scale = 1.0f;         // multiplies the weights at the end
};

// The experts of a batch: row i holds token i's n_used experts, best first (equal scores: the lower index first).
struct Routing {
  uint32_t n_used = 0;
  std::vector<uint32_t> expert;  // [n_tokens · n_used]
  std::vector<float> weight;     // [n_tokens · n_used]
};

struct Experts {
  std::span<const Linear> gate, up, down;  // [n_expert]; gate, up [n_ff, n_embd], down [n_embd, n_ff]
  Activation activation = Activation::silu;
};

// Consecutive rows of a matrix that belong to one expert.
struct ExpertRows {
  uint32_t expert_idx = 0;
  size_t first = 0, n = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "reference", "cpu"

  // Takes over the matrix `shape` = [n_out, n_in] of `dtype`. `bytes` (n_out rows of whole blocks) stay valid and
  // unchanged as long as the storage lives, so a backend may keep the view instead of a copy. `name`: the tensor, for
  // errors. Errors: unsupported (dtype), out_of_memory, device.
  virtual Result<std::unique_ptr<WeightStorage>> load_weight(std::string_view name, DType dtype, const Shape& shape,
                                                             std::span<const std::byte> bytes) = 0;
  // The same for a matrix whose rows are only looked up (embed_rows), never multiplied.
  virtual Result<std::unique_ptr<WeightStorage>> load_table(std::string_view name, DType dtype, const Shape& shape,
                                                            std::span<const std::byte> bytes) {
    return load_weight(name, dtype, shape, bytes);
  }
  // The same for rows [first_row, first_row + n_rows) of packed codes, which are copied: `rows` need not outlive the
  // call. The storage's dtype is f32, what the weights are as numbers. Errors: unsupported where the backend has no
  // form for them; out_of_memory.
  virtual Result<std::unique_ptr<WeightStorage>> load_affine(std::string_view name, const AffineRows& rows,
                                                             uint64_t first_row, uint64_t n_rows);
  // resident_bytes() of what load_affine would make.
  virtual std::optional<uint64_t> affine_bytes(const AffineShape& shape, uint64_t n_rows) const {
    return weight_bytes(DType::f32, Shape{n_rows, shape.n_in});
  }
  // Told of bytes that no product will read, between parts of a matrix that is taken in and after many looked-up rows:
  // a mapped file's pages can be given back. Called by the thread that loads or runs ops, as long as the storage lives.
  using OnTaken = std::function<void(std::span<const std::byte> bytes)>;
  void set_on_taken(OnTaken on_taken) { on_taken_ = std::move(on_taken); }
  // resident_bytes() of the storage that load_weight would make, known without the bytes. Nothing when the number does
  // not fit.
  virtual std::optional<uint64_t> weight_bytes(DType dtype, const Shape& shape) const {
    const std::optional<uint64_t> row_bytes = dtype_bytes(dtype, shape.row_len());
    return row_bytes ? checked_mul(*row_bytes, shape.n_rows()) : std::nullopt;
  }
  // Uninitialised floats of this backend. Errors: out_of_memory.
  virtual Result<Buffer> alloc(size_t n) = 0;
  // Copies between host memory and the backend's.
  virtual void upload(std::span<const float> from, TensorView to) = 0;
  virtual void download(TensorView from, std::span<float> to) = 0;
  // Waits for all ops issued. Errors: device, the first since the last call.
  virtual Status finish() { return {}; }

  // out[i] = scale · row ids[i] of the table.  out [n_ids, n_in].  Requires: ids < n_out.
  virtual void embed_rows(const WeightStorage& table, std::span<const int32_t> ids, float scale, TensorView out) = 0;
  // out[i] = x[rows[i]].  out [rows.size(), x.n_cols]; may not overlap x.
  virtual void gather_rows(TensorView x, std::span<const uint32_t> rows, TensorView out) = 0;

  // out = x / sqrt(mean(x²) + eps) · weight, row by row.  x, out [n, width] (may be the same), weight [width] or null
  // (ones). Source: Zhang & Sennrich 2019, arXiv:1910.07467.
  virtual void rms_norm(TensorView x, const float* weight, float eps, TensorView out) = 0;
  // out = (x − mean) / sqrt(variance + eps) · weight + bias.  bias [width] or null.  Source: Ba et al. 2016,
  // arXiv:1607.06450.
  virtual void layer_norm(TensorView x, const float* weight, const float* bias, float eps, TensorView out) = 0;

  // out = linear(x).  x [n_tokens, n_in], out [n_tokens, n_out]; no overlap.
  virtual void matmul(TensorView x, const Linear& linear, TensorView out) = 0;
  // Three maps of one input. Composed of matmul unless overridden.
  virtual void qkv(TensorView x, std::span<const Linear, 3> linears, std::span<const TensorView, 3> out);
  // out = activation(gate(x)) · up(x).  out [n_tokens, n_ff]; scratch: as large as out.
  virtual void gate_up(TensorView x, const Linear& gate, const Linear& up, Activation activation, TensorView out,
                       TensorView scratch);
  // Whether gate_up writes to its scratch; without, it may be empty.
  virtual bool uses_scratch() const { return true; }
  // x = activation(x) · factor, element by element; factor.data null: x = activation(x).
  virtual void activate(TensorView x, Activation activation, TensorView factor) = 0;

  // Rotates x in place by position.  x [n_tokens, n_head · head_dim]; only the first 2·inv_freq.size() elements of each
  // head move. positions [n_tokens].  Source: Su et al. 2021, arXiv:2104.09864, eq. 34.
  virtual void rope(TensorView x, uint32_t head_dim, std::span<const uint32_t> positions, const RopeParams& params) = 0;

  // Writes k [n_tokens, k_width] and v [n_tokens, v_width] to their slots.  Requires: slots reserved.
  virtual void store_kv(std::span<const KvSlot> slots, uint32_t layer_idx, TensorView k, TensorView v) = 0;
  // Causal attention: token i sees the keys of its own cache at positions 0 … slots[i].position (all stored already).
  //   q [n_tokens, n_head · k_dim]   out [n_tokens, n_head · v_dim]
  // Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; grouped heads: Ainslie et al. 2023, arXiv:2305.13245.
  virtual void attention(TensorView q, std::span<const KvSlot> slots, uint32_t layer_idx, const AttentionParams& params,
                         TensorView out) = 0;

  // x += y.
  virtual void add(TensorView x, TensorView y) = 0;
  // x *= factor.
  virtual void scale(TensorView x, float factor) = 0;
  // x = cap · tanh(x / cap).  Requires: cap > 0.
  virtual void softcap(TensorView x, float cap) = 0;

  // Chooses experts from router logits [n_tokens, n_expert].  Requires: 1 ≤ n_used ≤ n_expert.
  virtual Routing route(TensorView logits, const RouterParams& params) = 0;
  // Shown the inputs of the experts' maps: `input` [n, n_embd] of gate and up, `hidden` [n, n_ff] of down, rows sorted
  // by expert, each expert's in the order of the tokens.
  using OnExperts = std::function<void(TensorView input, TensorView hidden, std::span<const ExpertRows> rows)>;
  // out[i] = Σ over token i's experts, best first, of weight · down(activation(gate(x_i)) · up(x_i)).  x, out
  // [n_tokens, n_embd].  Errors: out_of_memory.
  Status moe_ffn(TensorView x, const Experts& experts, const Routing& routing, TensorView out,
                 const OnExperts& on_experts = nullptr);

 protected:
  // Rows of x sorted by expert, those with most rows first: out = activation(gate(x)) · up(x), and out = down(x), each
  // row by its expert's maps. `scratch`: as large as out. Composed of gate_up and matmul unless overridden.
  virtual void expert_gate_up(TensorView x, const Experts& experts, std::span<const ExpertRows> rows, TensorView out,
                              TensorView scratch);
  virtual void expert_down(TensorView x, const Experts& experts, std::span<const ExpertRows> rows, TensorView out);
  // out[i] (+)= factor[i] · x[rows[i]], row by row; `is_first`: out is set, not added to.  out [n, width].
  virtual void add_scaled_rows(TensorView x, std::span<const uint32_t> rows, std::span<const float> factor,
                               bool is_first, TensorView out) = 0;

  OnTaken on_taken_;
};

}  // namespace tamis
