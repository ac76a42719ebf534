// The decoder's probes show every input of a weight under a name; a table says which weight reads which.
#include "engine/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/cpu_clones.h"

namespace tamis {
namespace {

// Inputs of weights in one layer. The last, of the whole model, stands for one site behind all layers.
enum class Input : uint8_t { attn_norm, heads, ffn_norm, ffn_hidden, expert, expert_hidden, output_norm };
constexpr size_t kInputsOfLayer = static_cast<size_t>(Input::output_norm);

struct NamedInput {
  std::string_view probe_name;  // models/decoder.cpp
  Input input;
};
constexpr NamedInput kNamedInputs[] = {{"attn_norm", Input::attn_norm},
                                       {"heads", Input::heads},
                                       {"ffn_norm", Input::ffn_norm},
                                       {"ffn_hidden", Input::ffn_hidden},
                                       {"output_norm", Input::output_norm}};

// What a matrix in this place reads; nothing for tensors that are not multiplied.
std::optional<Input> input_of(Slot slot, bool is_tied) {
  switch (slot) {
    case Slot::attn_q:
    case Slot::attn_k:
    case Slot::attn_v:
    case Slot::attn_qkv: return Input::attn_norm;
    case Slot::attn_output: return Input::heads;
    case Slot::ffn_gate:
    case Slot::ffn_up:
    case Slot::ffn_gate_up:
    case Slot::router: return Input::ffn_norm;
    case Slot::ffn_down: return Input::ffn_hidden;
    case Slot::gate_exps:
    case Slot::up_exps: return Input::expert;
    case Slot::down_exps: return Input::expert_hidden;
    case Slot::output: return Input::output_norm;
    case Slot::token_embd: return is_tied ? std::optional(Input::output_norm) : std::nullopt;
    default: return std::nullopt;
  }
}

size_t site_index(uint32_t layer_idx, uint32_t n_layers, Input input) {
  if (input == Input::output_norm) return size_t{n_layers} * kInputsOfLayer;
  return size_t{layer_idx} * kInputsOfLayer + static_cast<size_t>(input);
}

constexpr size_t kColumnsTogether = 512;  // their sums stay in the first cache while the rows pass

// sums[k] += x[i][k]² for every row i, in order: the square of a float is exact in double, so only additions round.
TAMIS_WIDE void add_squares(const float* x, size_t stride, size_t n_rows, size_t n_cols, double* sums) {
  for (size_t i = 0; i < n_rows; ++i, x += stride) {
    for (size_t k = 0; k < n_cols; ++k) sums[k] += static_cast<double>(x[k]) * static_cast<double>(x[k]);
  }
}

// A strip of the triangle: so many columns at once.
constexpr size_t kPairTile = 64;

// Sixteen floats side by side. Never crosses a call.
using Vec = float __attribute__((vector_size(64), aligned(4), may_alias));

// sums[i][j] += Σ_t x[t][i] · x[t][j], i < 4, j < 32; t in order, on top of what is there, so that the sums do not
// depend on how many rows come together.
TAMIS_INLINE void add_outer(const float* xi, const float* xj, size_t stride, size_t n_rows, float* sums,
                            size_t sums_stride) {
  Vec acc[4][2];
  for (size_t i = 0; i < 4; ++i)
    for (size_t v = 0; v < 2; ++v) acc[i][v] = *reinterpret_cast<const Vec*>(sums + i * sums_stride + 16 * v);
  for (size_t t = 0; t < n_rows; ++t) {
    const Vec b0 = *reinterpret_cast<const Vec*>(xj + t * stride);
    const Vec b1 = *reinterpret_cast<const Vec*>(xj + t * stride + 16);
    for (size_t i = 0; i < 4; ++i) {
      const float a = xi[t * stride + i];
      acc[i][0] += a * b0;
      acc[i][1] += a * b1;
    }
  }
  for (size_t i = 0; i < 4; ++i)
    for (size_t v = 0; v < 2; ++v) *reinterpret_cast<Vec*>(sums + i * sums_stride + 16 * v) = acc[i][v];
}

// The same for rows [i0, i0 + n_i) and columns [j0, j0 + n_j) of the triangle.
struct PairTile {
  size_t i0, n_i, j0, n_j;
};
TAMIS_WIDE void add_outer_tile(const float* x, size_t stride, size_t n_rows, const PairTile& tile, float* sums) {
  const auto [i0, n_i, j0, n_j] = tile;
  if (n_i % 4 == 0 && n_j % 32 == 0) {
    for (size_t i = 0; i < n_i; i += 4)
      for (size_t j = 0; j < n_j; j += 32)
        add_outer(x + i0 + i, x + j0 + j, stride, n_rows, sums + (i0 + i) * stride + j0 + j, stride);
    return;
  }
  for (size_t i = i0; i < i0 + n_i; ++i) {
    for (size_t j = j0; j < j0 + n_j; ++j) {
      float sum = sums[i * stride + j];
      for (size_t t = 0; t < n_rows; ++t) sum += x[t * stride + i] * x[t * stride + j];
      sums[i * stride + j] = sum;
    }
  }
}

// The lower triangle of products [n, n] as correlations.
std::vector<int16_t> correlations_of(const std::vector<float>& products, uint64_t n) {
  std::vector<double> inverse(n);
  for (uint64_t i = 0; i < n; ++i) {
    const auto square = static_cast<double>(products[i * n + i]);
    inverse[i] = square > 0 ? 1 / std::sqrt(square) : 0;
  }
  std::vector<int16_t> lower;
  lower.reserve(n * (n - 1) / 2);
  for (uint64_t i = 0; i < n; ++i) {
    for (uint64_t j = 0; j < i; ++j) {
      const double value = static_cast<double>(products[i * n + j]) * inverse[i] * inverse[j];
      lower.push_back(static_cast<int16_t>(std::lrint(std::clamp(value, -1.0, 1.0) * Correlations::kUnit)));
    }
  }
  return lower;
}

}  // namespace

Calibrator::Calibrator(std::shared_ptr<const Engine> engine, const CalibrationOptions& options)
    : engine_(std::move(engine)),
      options_(options),
      sites_(size_t{engine_->model().hyper.n_layers} * kInputsOfLayer + 1) {}

Result<Calibrator> Calibrator::create(std::shared_ptr<const Engine> engine, const CalibrationOptions& options) {
  if (options.n_ctx < 4)
    return fail(ErrorCode::invalid_argument, "a window of {} tokens, expected at least 4", options.n_ctx);
  TAMIS_TRY(const ModelPlan model_plan, plan_model(engine->model().file));
  Calibrator calibrator(std::move(engine), options);
  const bool is_tied = is_output_tied(model_plan);
  for (const PlannedTensor& tensor : model_plan.tensors) calibrator.plan(tensor, is_tied);
  return calibrator;
}

uint64_t Calibrator::pair_bytes() const {
  uint64_t sum = 0;
  for (const Site& site : sites_)
    if (options_.has_correlations && site.counts.size() == 1) sum += site.n_cols * site.n_cols * sizeof(float);
  return sum;
}

void Calibrator::plan(const PlannedTensor& tensor, bool is_tied) {
  const auto input = tensor.part == Part::weight ? input_of(tensor.slot, is_tied) : std::nullopt;
  if (!input || (*input == Input::output_norm && !options_.has_output)) return;
  const Hyper& hyper = engine_->model().hyper;
  const size_t site_idx = site_index(tensor.layer_idx, hyper.n_layers, *input);
  const bool is_of_expert = *input == Input::expert || *input == Input::expert_hidden;
  Site& site = sites_[site_idx];
  site.n_cols = tensor.tensor->shape.row_len();
  site.counts.resize(is_of_expert ? hyper.n_expert : 1);
  site.sums.resize(site.counts.size() * site.n_cols);
  weights_.push_back({std::string(tensor.tensor->name), site_idx, tensor.expert_idx});
}

Status Calibrator::add(std::span<const TokenId> window) {
  if (window.size() != options_.n_ctx)
    return fail(ErrorCode::invalid_argument, "a window of {} tokens, expected {}", window.size(), options_.n_ctx);
  const std::vector<TokenId> tokens = window_of(window, options_.n_ctx, 0, engine_->tokenizer()->special());
  Session session(engine_);
  const uint32_t n_layers = engine_->model().hyper.n_layers;
  session.watch([this](std::string_view name, int32_t layer_idx, TensorView value) { show(name, layer_idx, value); },
                [&](uint32_t layer_idx, TensorView input, TensorView hidden, std::span<const ExpertRows> rows) {
                  see_experts(site_index(layer_idx, n_layers, Input::expert), input, rows);
                  see_experts(site_index(layer_idx, n_layers, Input::expert_hidden), hidden, rows);
                });
  if (options_.has_perplexity) {
    TAMIS_TRY(const std::vector<double> nll, score_window(session, tokens, options_.pool));
    perplexity_.add(nll);
    // The last token predicts nothing here, but it is an input like the others.
    TAMIS_TRY_STATUS(session.append_step(std::span(tokens).last(1), 1));
  } else {
    TAMIS_TRY_STATUS(session.append_all(tokens, tokens.size(), nullptr));
  }
  ++n_windows_;
  return check_sums();
}

void Calibrator::show(std::string_view name, int32_t layer_idx, TensorView value) {
  const auto* const named = std::ranges::find(kNamedInputs, name, &NamedInput::probe_name);
  if (named == std::end(kNamedInputs)) return;
  const auto layer = static_cast<uint32_t>(std::max(layer_idx, 0));
  see(site_index(layer, engine_->model().hyper.n_layers, named->input), value);
}

void Calibrator::see(size_t site_idx, TensorView x) {
  Site& site = sites_[site_idx];
  if (site.n_cols != x.n_cols) return;  // nobody reads it
  site.counts[0] += static_cast<double>(x.n_rows);
  const auto add_columns = [&](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i) {
      const size_t first = i * kColumnsTogether, n = std::min(kColumnsTogether, x.n_cols - first);
      add_squares(x.data + first, x.n_cols, x.n_rows, n, site.sums.data() + first);
    }
  };
  const size_t n_items = (x.n_cols + kColumnsTogether - 1) / kColumnsTogether;
  on_all_threads(n_items, add_columns);
  if (options_.has_correlations) see_pairs(site, x);
}

void Calibrator::see_pairs(Site& site, TensorView x) {
  const size_t n = x.n_cols, n_tiles = (n + kPairTile - 1) / kPairTile;
  site.products.resize(n * n);
  on_all_threads(n_tiles * (n_tiles + 1) / 2, [&](size_t begin, size_t end, uint32_t) {
    for (size_t item = begin; item < end; ++item) {
      auto row = static_cast<size_t>((std::sqrt(8.0 * static_cast<double>(item) + 1) - 1) / 2);
      if (row * (row + 1) / 2 > item) --row;
      if ((row + 1) * (row + 2) / 2 <= item) ++row;
      const size_t i0 = row * kPairTile, j0 = (item - row * (row + 1) / 2) * kPairTile;
      const PairTile tile{i0, std::min(kPairTile, n - i0), j0, std::min(kPairTile, n - j0)};
      add_outer_tile(x.data, n, x.n_rows, tile, site.products.data());
    }
  });
}

void Calibrator::see_experts(size_t site_idx, TensorView x, std::span<const ExpertRows> rows) {
  Site& site = sites_[site_idx];
  if (site.n_cols != x.n_cols) return;
  const auto add_parts = [&](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i) {
      const ExpertRows& part = rows[i];
      site.counts[part.expert_idx] += static_cast<double>(part.n);
      add_squares(x.row(part.first), x.n_cols, part.n, x.n_cols, site.sums.data() + part.expert_idx * x.n_cols);
    }
  };
  on_all_threads(rows.size(), add_parts);
}

Status Calibrator::check_sums() const {
  for (const WatchedWeight& weight : weights_) {
    for (const double sum : sites_[weight.site_idx].sums) {
      if (!std::isfinite(sum)) return fail(ErrorCode::internal, "{}: an input is not finite", weight.name);
    }
  }
  return {};
}

Imatrix Calibrator::imatrix() const {
  Imatrix imatrix;
  imatrix.n_chunks = n_windows_;
  imatrix.chunk_size = options_.n_ctx;
  std::map<size_t, std::shared_ptr<const Correlations>> of_site;
  for (const WatchedWeight& weight : weights_) {
    const Site& site = sites_[weight.site_idx];
    if (site.products.size() > 1) {
      auto& shared = of_site[weight.site_idx];
      if (shared == nullptr) shared = correlations_in_memory(site.n_cols, correlations_of(site.products, site.n_cols));
      imatrix.correlations.emplace(weight.name, shared);
    }
    ImatrixEntry entry{site.sums, site.counts};
    if (weight.expert_idx >= 0) {
      const auto expert = static_cast<size_t>(weight.expert_idx);
      const double* const sums = site.sums.data() + expert * site.n_cols;
      entry = {{sums, sums + site.n_cols}, {site.counts[expert]}};
    }
    imatrix.entries.emplace(weight.name, std::move(entry));
  }
  return imatrix;
}

}  // namespace tamis
