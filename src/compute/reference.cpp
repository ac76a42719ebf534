// The reference backend's ops, in the order of Backend: matrix maps first, then what is left of a layer. Every sum is a
// double's, in one fixed order; every result is rounded to f32 once.
#include "compute/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numbers>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "compute/reference_kernels.h"
#include "compute/routing.h"
#include "quants/registry.h"

namespace tamis {
namespace {

using reference::kTileRows;
using reference::kTileTokens;

constexpr size_t kRowsDecodedTogether = 16;  // their doubles stay in cache while all tokens pass by

class ReferenceWeight final : public WeightStorage {
 public:
  ReferenceWeight(DType dtype, size_t n_out, size_t n_in, const std::byte* bytes, size_t row_bytes)
      : WeightStorage(dtype, n_out, n_in), bytes_(bytes), row_bytes_(row_bytes) {}
  // Of numbers of its own.
  ReferenceWeight(size_t n_out, size_t n_in, std::unique_ptr<float[]> values)
      : ReferenceWeight(DType::f32, n_out, n_in, reinterpret_cast<const std::byte*>(values.get()),
                        n_in * sizeof(float)) {
    own_ = std::move(values);
  }

  void decode_row(size_t i, std::span<float> out) const { decode(dtype(), bytes_ + i * row_bytes_, out); }
  size_t resident_bytes() const override { return n_out() * row_bytes_; }

 private:
  const std::byte* bytes_;
  size_t row_bytes_;
  std::unique_ptr<float[]> own_;
};

const ReferenceWeight& reference_weight(const WeightStorage& weight) {
  return static_cast<const ReferenceWeight&>(weight);
}

double activation_of(double x, Activation activation) {
  switch (activation) {
    case Activation::silu: return x / (1.0 + std::exp(-x));
    case Activation::gelu_tanh: {
      const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1.0 + std::tanh(inner));
    }
    case Activation::gelu_erf: return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::relu: return x > 0.0 ? x : 0.0;
  }
  return x;
}

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(ThreadPool* pool) : pool_(pool) {}

  std::string_view name() const override { return "reference"; }

  Result<std::unique_ptr<WeightStorage>> load_weight(std::string_view name, DType dtype, const Shape& shape,
                                                     std::span<const std::byte> bytes) override;
  Result<std::unique_ptr<WeightStorage>> load_affine(std::string_view name, const AffineRows& rows, uint64_t first_row,
                                                     uint64_t n_rows) override;
  Result<Buffer> alloc(size_t n) override;
  void upload(std::span<const float> from, TensorView to) override {
    if (!from.empty()) std::memcpy(to.data, from.data(), from.size_bytes());
  }
  void download(TensorView from, std::span<float> to) override {
    if (!to.empty()) std::memcpy(to.data(), from.data, to.size_bytes());
  }
  Status finish() override {
    Status status = std::move(status_);
    status_ = {};
    return status;
  }

  void embed_rows(const WeightStorage& table, std::span<const int32_t> ids, float scale, TensorView out) override;
  void gather_rows(TensorView x, std::span<const uint32_t> rows, TensorView out) override;
  void rms_norm(TensorView x, const float* weight, float eps, TensorView out) override;
  void layer_norm(TensorView x, const float* weight, const float* bias, float eps, TensorView out) override;
  void matmul(TensorView x, const Linear& linear, TensorView out) override;
  void activate(TensorView x, Activation activation, TensorView factor) override;
  void rope(TensorView x, uint32_t head_dim, std::span<const uint32_t> positions, const RopeParams& params) override;
  void store_kv(std::span<const KvSlot> slots, uint32_t layer_idx, TensorView k, TensorView v) override;
  void attention(TensorView q, std::span<const KvSlot> slots, uint32_t layer_idx, const AttentionParams& params,
                 TensorView out) override;
  void add(TensorView x, TensorView y) override;
  void scale(TensorView x, float factor) override;
  void softcap(TensorView x, float cap) override;
  Routing route(TensorView logits, const RouterParams& params) override { return choose_experts(logits, params); }

 protected:
  void add_scaled_rows(TensorView x, std::span<const uint32_t> rows, std::span<const float> factor, bool is_first,
                       TensorView out) override;

 private:
  // fn(begin, end) over [0, n_items), on all threads; a failure is kept for finish().
  template <class Fn>
  void for_ranges(size_t n_items, size_t grain, Fn&& fn) {
    if (pool_ == nullptr) return fn(size_t{0}, n_items);
    Status status = pool_->parallel_for(n_items, grain, [&fn](size_t begin, size_t end, uint32_t) { fn(begin, end); });
    if (!status && status_) status_ = std::move(status);
  }
  void matmul_rows(const double* x, size_t n_tokens, const Linear& linear, size_t begin, size_t end,
                   TensorView out) const;

  ThreadPool* pool_;
  Status status_;
  std::vector<double> wide_;  // the activations of the running matmul, as doubles
};

Result<std::unique_ptr<WeightStorage>> ReferenceBackend::load_weight(std::string_view name, DType dtype,
                                                                     const Shape& shape,
                                                                     std::span<const std::byte> bytes) {
  const size_t n_out = shape.n_rows(), n_in = shape.row_len();
  const std::optional<uint64_t> row_bytes = dtype_bytes(dtype, n_in);
  const std::optional<uint64_t> all_bytes = row_bytes ? checked_mul(*row_bytes, n_out) : std::nullopt;
  if (!all_bytes || *all_bytes != bytes.size()) {
    return fail(ErrorCode::shape, "{}: {} bytes for shape {} of {}", escape_for_display(name), bytes.size(),
                shape.to_string(), dtype_name(dtype));
  }
  return std::make_unique<ReferenceWeight>(dtype, n_out, n_in, bytes.data(), *row_bytes);
}

// Decoded: there is no file to decode from later.
Result<std::unique_ptr<WeightStorage>> ReferenceBackend::load_affine(std::string_view name, const AffineRows& rows,
                                                                     uint64_t first_row, uint64_t n_rows) {
  const uint64_t n_in = rows.shape().n_in;
  const auto n = checked_mul(n_rows, n_in);
  std::unique_ptr<float[]> values(n ? new (std::nothrow) float[*n] : nullptr);
  if (values == nullptr)
    return fail(ErrorCode::out_of_memory, "{}: no memory for {} x {} floats", escape_for_display(name), n_rows, n_in);
  for_ranges(n_rows, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) decode_affine_row(rows, first_row + i, {values.get() + i * n_in, n_in});
  });
  return std::make_unique<ReferenceWeight>(n_rows, n_in, std::move(values));
}

Result<Buffer> ReferenceBackend::alloc(size_t n) {
  float* data = new (std::nothrow) float[n];
  if (data == nullptr) return fail(ErrorCode::out_of_memory, "no memory for {} floats", n);
  return Buffer(data, n, [](float* floats) { delete[] floats; });
}

void ReferenceBackend::embed_rows(const WeightStorage& table, std::span<const int32_t> ids, float scale,
                                  TensorView out) {
  const ReferenceWeight& weight = reference_weight(table);
  for (size_t i = 0; i < ids.size(); ++i) {
    weight.decode_row(static_cast<size_t>(ids[i]), {out.row(i), out.n_cols});
    for (size_t k = 0; k < out.n_cols; ++k) out.row(i)[k] *= scale;
  }
}

void ReferenceBackend::gather_rows(TensorView x, std::span<const uint32_t> rows, TensorView out) {
  for (size_t i = 0; i < rows.size(); ++i) std::memcpy(out.row(i), x.row(rows[i]), x.n_cols * sizeof(float));
}

void ReferenceBackend::rms_norm(TensorView x, const float* weight, float eps, TensorView out) {
  for_ranges(x.n_rows, 0, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const float* in = x.row(i);
      const double mean_square = reference::dot(in, in, x.n_cols) / static_cast<double>(x.n_cols);
      const double factor = 1.0 / std::sqrt(mean_square + eps);
      for (size_t k = 0; k < x.n_cols; ++k) {
        out.row(i)[k] = static_cast<float>(in[k] * factor * (weight != nullptr ? weight[k] : 1.0f));
      }
    }
  });
}

void ReferenceBackend::layer_norm(TensorView x, const float* weight, const float* bias, float eps, TensorView out) {
  for_ranges(x.n_rows, 0, [=](size_t begin, size_t end) {
    const auto n = static_cast<double>(x.n_cols);
    for (size_t i = begin; i < end; ++i) {
      const float* in = x.row(i);
      double sum = 0, squares = 0;
      for (size_t k = 0; k < x.n_cols; ++k) sum += in[k];
      const double mean = sum / n;
      for (size_t k = 0; k < x.n_cols; ++k) squares += (in[k] - mean) * (in[k] - mean);
      const double factor = 1.0 / std::sqrt(squares / n + eps);
      for (size_t k = 0; k < x.n_cols; ++k) {
        const double gain = weight != nullptr ? weight[k] : 1.0f;
        out.row(i)[k] = static_cast<float>((in[k] - mean) * factor * gain + (bias != nullptr ? bias[k] : 0.0f));
      }
    }
  });
}

// One tile of tokens against the decoded rows w[0 … n_rows-1].
template <size_t kTokens>
void multiply_tile(const double* const* x, const double* w, size_t n_in, size_t n_rows, double (*sums)[kTileRows],
                   const auto& store) {
  for (size_t r = 0; r < n_rows; r += kTileRows) {
    const double* rows[kTileRows] = {w + r * n_in, w + (r + 1) * n_in};
    reference::dot_tile<kTokens>(x, rows, n_in, sums);
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t j = 0; j < kTileRows && r + j < n_rows; ++j) store(t, r + j, sums[t][j]);
    }
  }
}

void ReferenceBackend::matmul_rows(const double* x, size_t n_tokens, const Linear& linear, size_t begin, size_t end,
                                   TensorView out) const {
  const ReferenceWeight& weight = reference_weight(*linear.weight);
  const size_t n_in = weight.n_in();
  std::vector<float> decoded(n_in);
  std::vector<double> w((kRowsDecodedTogether + 1) * n_in, 0.0);  // one row more: an odd last row is paired with it
  for (size_t first = begin; first < end; first += kRowsDecodedTogether) {
    const size_t n_rows = std::min(kRowsDecodedTogether, end - first);
    for (size_t r = 0; r < n_rows; ++r) {
      weight.decode_row(first + r, decoded);
      std::copy(decoded.begin(), decoded.end(), w.begin() + static_cast<std::ptrdiff_t>(r * n_in));
    }
    for (size_t t0 = 0; t0 < n_tokens; t0 += kTileTokens) {
      const size_t n = std::min(kTileTokens, n_tokens - t0);
      const double* inputs[kTileTokens];
      for (size_t t = 0; t < n; ++t) inputs[t] = x + (t0 + t) * n_in;
      double sums[kTileTokens][kTileRows];
      const auto store = [&](size_t t, size_t r, double sum) {
        sum *= linear.scale;
        if (linear.bias != nullptr) sum += linear.bias[first + r];
        out.row(t0 + t)[first + r] = static_cast<float>(sum);
      };
      if (n == 4) multiply_tile<4>(inputs, w.data(), n_in, n_rows, sums, store);
      if (n == 3) multiply_tile<3>(inputs, w.data(), n_in, n_rows, sums, store);
      if (n == 2) multiply_tile<2>(inputs, w.data(), n_in, n_rows, sums, store);
      if (n == 1) multiply_tile<1>(inputs, w.data(), n_in, n_rows, sums, store);
    }
  }
}

void ReferenceBackend::matmul(TensorView x, const Linear& linear, TensorView out) {
  wide_.assign(x.data, x.data + x.size());
  for_ranges(linear.weight->n_out(), kRowsDecodedTogether,
             [&](size_t begin, size_t end) { matmul_rows(wide_.data(), x.n_rows, linear, begin, end, out); });
}

void ReferenceBackend::activate(TensorView x, Activation activation, TensorView factor) {
  for_ranges(x.n_rows, 0, [=](size_t begin, size_t end) {
    for (size_t i = begin * x.n_cols; i < end * x.n_cols; ++i) {
      const double value = activation_of(x.data[i], activation);
      x.data[i] = static_cast<float>(factor.data != nullptr ? value * factor.data[i] : value);
    }
  });
}

void ReferenceBackend::rope(TensorView x, uint32_t head_dim, std::span<const uint32_t> positions,
                            const RopeParams& params) {
  const size_t n_pairs = params.inv_freq.size();
  const bool is_interleaved = params.pairs == RopePairs::interleaved;
  std::vector<double> cosine(n_pairs), sine(n_pairs);
  for (size_t t = 0; t < positions.size(); ++t) {
    for (size_t i = 0; i < n_pairs; ++i) {
      const double angle = positions[t] * params.inv_freq[i];
      cosine[i] = std::cos(angle) * params.magnitude;
      sine[i] = std::sin(angle) * params.magnitude;
    }
    for (float* head = x.row(t); head < x.row(t) + x.n_cols; head += head_dim) {
      for (size_t i = 0; i < n_pairs; ++i) {
        float& first = head[is_interleaved ? 2 * i : i];
        float& second = head[is_interleaved ? 2 * i + 1 : i + n_pairs];
        const double a = first, b = second;
        first = static_cast<float>(a * cosine[i] - b * sine[i]);
        second = static_cast<float>(a * sine[i] + b * cosine[i]);
      }
    }
  }
}

void ReferenceBackend::store_kv(std::span<const KvSlot> slots, uint32_t layer_idx, TensorView k, TensorView v) {
  for (size_t i = 0; i < slots.size(); ++i) slots[i].cache->store(layer_idx, slots[i].position, k.row(i), v.row(i));
}

struct HeadPlace {
  KvSlot slot;
  uint32_t layer_idx = 0, head = 0;
};

// One head of one token: scores of all keys in view, softmax, weighted sum; keys in order of position, all in double.
void attend_head(const HeadPlace& place, const float* q, const AttentionParams& params, std::vector<double>& scores,
                 float* out) {
  const auto& [slot, layer_idx, head] = place;
  const KvCache& cache = *slot.cache;
  const uint32_t head_kv = head / (params.n_head / params.n_head_kv);
  const uint32_t n_seen = slot.position + 1;
  const uint32_t first = params.window != 0 && n_seen > params.window ? n_seen - params.window : 0;
  scores.resize(n_seen - first);
  std::vector<float> row(std::max(params.k_dim, params.v_dim));
  double highest = -std::numeric_limits<double>::infinity();
  for (uint32_t p = first; p < n_seen; ++p) {
    cache.read_key(layer_idx, p, head_kv, row.data());
    double score = reference::dot(q, row.data(), params.k_dim) * params.scale;
    if (params.softcap > 0.0f) score = params.softcap * std::tanh(score / params.softcap);
    scores[p - first] = score;
    highest = std::max(highest, score);
  }
  double total = 0;
  std::vector<double> sums(params.v_dim, 0.0);
  for (uint32_t p = first; p < n_seen; ++p) {
    const double weight = std::exp(scores[p - first] - highest);
    cache.read_value(layer_idx, p, head_kv, row.data());
    total += weight;
    for (uint32_t d = 0; d < params.v_dim; ++d) sums[d] += weight * row[d];
  }
  for (uint32_t d = 0; d < params.v_dim; ++d) out[d] = static_cast<float>(sums[d] / total);
}

void ReferenceBackend::attention(TensorView q, std::span<const KvSlot> slots, uint32_t layer_idx,
                                 const AttentionParams& params, TensorView out) {
  for_ranges(slots.size() * params.n_head, 4, [&](size_t begin, size_t end) {
    std::vector<double> scores;
    for (size_t i = begin; i < end; ++i) {
      const size_t token = i / params.n_head;
      const auto head = static_cast<uint32_t>(i % params.n_head);
      attend_head({slots[token], layer_idx, head}, q.row(token) + size_t{head} * params.k_dim, params, scores,
                  out.row(token) + size_t{head} * params.v_dim);
    }
  });
}

void ReferenceBackend::add(TensorView x, TensorView y) {
  for (size_t i = 0; i < x.size(); ++i) x.data[i] += y.data[i];
}

void ReferenceBackend::scale(TensorView x, float factor) {
  for (size_t i = 0; i < x.size(); ++i) x.data[i] *= factor;
}

void ReferenceBackend::softcap(TensorView x, float cap) {
  for_ranges(x.n_rows, 0, [=](size_t begin, size_t end) {
    for (size_t i = begin * x.n_cols; i < end * x.n_cols; ++i) {
      x.data[i] = static_cast<float>(cap * std::tanh(static_cast<double>(x.data[i]) / cap));
    }
  });
}

void ReferenceBackend::add_scaled_rows(TensorView x, std::span<const uint32_t> rows, std::span<const float> factor,
                                       bool is_first, TensorView out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t k = 0; k < out.n_cols; ++k) {
      const float product = factor[i] * x.row(rows[i])[k];
      out.row(i)[k] = is_first ? product : out.row(i)[k] + product;
    }
  }
}

}  // namespace

std::unique_ptr<Backend> make_reference_backend(ThreadPool* pool) { return std::make_unique<ReferenceBackend>(pool); }

}  // namespace tamis
