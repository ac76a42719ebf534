// Plain sums over mean squares.  Source: llama.cpp, tools/imatrix (documented output of --show-statistics).
#include "formats/imatrix_statistics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

namespace tamis {
namespace {

constexpr double kActive = 1e-5;

std::vector<double> mean_squares(const ImatrixEntry& entry) {
  std::vector<double> values;
  const uint64_t n_cols = entry.n_cols();
  for (uint64_t i = 0; i < entry.n_mat(); ++i) {
    if (entry.counts[i] <= 0) continue;
    for (uint64_t k = 0; k < n_cols; ++k) values.push_back(entry.sums[i * n_cols + k] / entry.counts[i]);
  }
  return values;
}

// Splits "blk.3.attn_q.weight"; a name of another form is a kind of its own.
void split_name(ImatrixStatistics& out) {
  out.kind = out.name;
  constexpr std::string_view kPrefix = "blk.";
  if (!out.name.starts_with(kPrefix)) return;
  uint32_t layer = 0;
  const char* const end = out.name.data() + out.name.size();
  const auto [rest, error] = std::from_chars(out.name.data() + kPrefix.size(), end, layer);
  if (error != std::errc() || rest == end || *rest != '.') return;
  out.layer_idx = layer;
  out.kind.assign(rest + 1, end);
}

ImatrixStatistics statistics_of(const std::string& name, const std::vector<double>& values) {
  ImatrixStatistics out;
  out.name = name;
  split_name(out);
  out.n = values.size();
  if (values.empty()) return out;
  const auto n = static_cast<double>(values.size());
  const auto [min, max] = std::ranges::minmax(values);
  out.min = min;
  out.max = max;
  double squares = 0;
  for (const double value : values) {
    out.sum += value;
    out.active += value > kActive ? 1 / n : 0;
  }
  out.mean = out.sum / n;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  out.deviation = std::sqrt(squares / n);
  for (const double value : values) {
    if (out.sum > 0 && value > 0) out.entropy -= value / out.sum * std::log2(value / out.sum);
    if (std::abs(value - out.mean) > out.deviation) out.outlying += 1 / n;
  }
  out.normalised_entropy = n > 1 ? out.entropy / std::log2(n) : 0;
  return out;
}

std::optional<double> cosine_of(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::nullopt;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  if (aa == 0 || bb == 0) return std::nullopt;
  return ab / std::sqrt(aa) / std::sqrt(bb);
}

std::vector<ImatrixLayerStatistics> layers_of(const std::vector<ImatrixStatistics>& weights) {
  struct Sums {
    double n = 0, sum = 0, outlying = 0, cosine = 0, n_cosine = 0;
  };
  std::map<uint32_t, Sums> sums;
  for (const ImatrixStatistics& weight : weights) {
    if (!weight.layer_idx) continue;
    Sums& layer = sums[*weight.layer_idx];
    const auto n = static_cast<double>(weight.n);
    layer.n += n;
    layer.sum += n * weight.sum;
    layer.outlying += n * weight.outlying;
    if (weight.cosine) layer.cosine += n * *weight.cosine;
    if (weight.cosine) layer.n_cosine += n;
  }
  std::vector<ImatrixLayerStatistics> out;
  for (const auto& [layer_idx, layer] : sums) {
    const double n = std::max(layer.n, 1.0);
    out.push_back({layer_idx, layer.sum / n, layer.outlying / n, std::nullopt});
    if (layer.n_cosine > 0) out.back().cosine = layer.cosine / layer.n_cosine;
  }
  return out;
}

}  // namespace

ImatrixSummary summarise(const Imatrix& imatrix) {
  ImatrixSummary summary;
  std::map<std::pair<std::string, uint32_t>, std::vector<double>> by_kind;
  for (const auto& [name, entry] : imatrix.entries) {
    std::vector<double> values = mean_squares(entry);
    summary.weights.push_back(statistics_of(name, values));
    const ImatrixStatistics& last = summary.weights.back();
    if (last.layer_idx) by_kind[{last.kind, *last.layer_idx}] = std::move(values);
  }
  for (ImatrixStatistics& weight : summary.weights) {
    if (!weight.layer_idx || *weight.layer_idx == 0) continue;
    const auto before = by_kind.find({weight.kind, *weight.layer_idx - 1});
    if (before != by_kind.end()) weight.cosine = cosine_of(by_kind[{weight.kind, *weight.layer_idx}], before->second);
  }
  summary.layers = layers_of(summary.weights);
  std::ranges::stable_sort(summary.weights, std::ranges::greater{}, &ImatrixStatistics::sum);
  return summary;
}

}  // namespace tamis
