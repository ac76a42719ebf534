// The three steps over a batch of rows, so that a tile of H or of its factor, once in the cache, serves all of them.
#include "quants/hessian_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/float16.h"
#include "quants/code_levels.h"
#include "quants/feedback_kernels.h"
#include "quants/registry.h"

namespace tamis {
namespace {

constexpr uint64_t kTile = InputHessian::kTile;
constexpr uint64_t kBatch = 32;  // rows
constexpr uint32_t kMaxCodes = 256;
constexpr uint32_t kMaxGroup = 32;  // of types whose groups have scales

// A tile's blocks under encoding: scales by the search, codes by whoever rounds.
struct TileCode {
  std::vector<std::byte> blocks;
  std::vector<uint8_t> codes;  // [tile]
  std::vector<float> levels;   // [groups, n_codes]
  std::vector<float> decoded;  // [tile]
};

class RowBatch {
 public:
  RowBatch(const QuantType& type, const InputHessian& hessian, const FeedbackOptions& options)
      : type_(type),
        info_(dtype_info(type.dtype)),
        hessian_(hessian),
        options_(options),
        n_(hessian.n_cols()),
        row_bytes_(n_ / info_.block_len * info_.block_bytes),
        n_groups_(n_ / type.codes.group_len),
        trial_(new_tile()),
        importance_(n_),
        tile_importance_(n_) {
    for (uint64_t k = 0; k < n_; ++k) {
      importance_[k] = std::sqrt(hessian.conditional(k) * hessian.diagonal(k));
      tile_importance_[k] = std::sqrt(*hessian.tile_conditionals(k) * hessian.diagonal(k));
    }
    if (type.codes.put_scales == nullptr) return;
    find_unit_levels();
    if (has_group_scales()) factor_groups();
  }

  // Requires: at most kBatch rows.
  void encode(std::span<const float> values, std::span<std::byte> blocks) {
    n_rows_ = values.size() / n_;
    weights_ = values.data();
    blocks_ = blocks.data();
    targets_.assign(values.begin(), values.end());
    decoded_.assign(values.size(), 0.0f);
    errors_.assign(n_rows_ * kTile, 0.0f);
    codes_.assign(values.size(), 0);
    levels_.assign(n_rows_ * n_groups_ * type_.codes.n_codes, 0.0f);
    for (uint64_t first = 0; first < n_; first += kTile) round_tile(first);
    find_gradients();
    descend();
    for (uint32_t round = 0; round < options_.n_rounds; ++round) {
      if (!move_tiles()) break;
      descend();
    }
    for (uint64_t r = 0; r < n_rows_; ++r)
      for (uint64_t at = 0; at < n_; at += info_.block_len)
        type_.codes.put_codes(codes_.data() + r * n_ + at, blocks_ + r * row_bytes_ + block_offset(at));
  }

 private:
  TileCode new_tile() const {
    const uint64_t len = std::min(kTile, n_);
    return {std::vector<std::byte>(block_offset(len)), std::vector<uint8_t>(len),
            std::vector<float>(len / type_.codes.group_len * type_.codes.n_codes), std::vector<float>(len)};
  }
  uint64_t block_offset(uint64_t column) const { return column / info_.block_len * info_.block_bytes; }
  uint64_t tile_len(uint64_t first) const { return std::min(kTile, n_ - first); }
  float* row_levels(uint64_t r, uint64_t column) {
    return levels_.data() + (r * n_groups_ + column / type_.codes.group_len) * type_.codes.n_codes;
  }
  Levels levels_at(const float* values) const {
    Levels levels;
    levels.set(values, type_.codes.n_codes, type_.operand_class == OperandClass::affine);
    return levels;
  }

  // Scales for the tile's `target` into `tile`, and what the codes then mean.
  void choose_scales(const float* target, const float* importance, uint64_t len, TileCode& tile) {
    type_.encode_fast(target, importance, tile.blocks.data(), len / info_.block_len);
    find_levels(tile.blocks.data(), len, tile.levels.data());
  }

  // What the codes of `len` columns of blocks mean: [groups, n_codes].
  void find_levels(const std::byte* blocks, uint64_t len, float* levels) {
    const uint32_t n_codes = type_.codes.n_codes, group_len = type_.codes.group_len;
    float decoded[kTile];
    uint8_t same[kTile];
    std::vector<std::byte>& scratch = scratch_;
    scratch.assign(blocks, blocks + block_offset(len));
    for (uint32_t code = 0; code < n_codes; ++code) {
      std::memset(same, static_cast<int>(code), info_.block_len);
      for (uint64_t at = 0; at < len; at += info_.block_len)
        type_.codes.put_codes(same, scratch.data() + block_offset(at));
      type_.decode(scratch.data(), decoded, len / info_.block_len);
      for (uint64_t group = 0; group * group_len < len; ++group)
        levels[group * n_codes + code] = decoded[group * group_len];
    }
  }

  // Codes of the tile one by one: target [len] is used up, `factor` gives the row of the factor of a column, from the
  // tile's first column on. off[k] = what was chosen less `aim`[k].
  template <class Factor>
  void round_codes(float* target, const float* aim, uint64_t len, const Factor& factor, TileCode& tile, float* off) {
    const uint32_t group_len = type_.codes.group_len;
    for (uint64_t begin = 0; begin < len; begin += group_len) {
      const Levels levels = levels_at(tile.levels.data() + begin / group_len * type_.codes.n_codes);
      for (uint64_t k = begin; k < begin + group_len; ++k) {
        tile.codes[k] = levels.nearest(target[k]);
        tile.decoded[k] = levels.value(tile.codes[k]);
        off[k] = tile.decoded[k] - aim[k];
        subtract_multiple(off[k], factor(k) + k + 1, target + k + 1, len - k - 1);
      }
    }
  }

  void keep(uint64_t r, uint64_t first, uint64_t len, const TileCode& tile) {
    std::copy_n(tile.blocks.data(), block_offset(len), blocks_ + r * row_bytes_ + block_offset(first));
    std::copy_n(tile.codes.data(), len, codes_.data() + r * n_ + first);
    std::copy_n(tile.levels.data(), len / type_.codes.group_len * type_.codes.n_codes, row_levels(r, first));
    std::copy_n(tile.decoded.data(), len, decoded_.data() + r * n_ + first);
  }

  // Step 1 for the tile that begins at `first`, and its feedback to all columns behind it.
  void round_tile(uint64_t first) {
    const uint64_t len = tile_len(first), end = first + len;
    for (uint64_t r = 0; r < n_rows_; ++r) {
      float* const target = targets_.data() + r * n_ + first;
      float* const off = errors_.data() + r * kTile;
      choose_scales(target, importance_.data() + first, len, trial_);
      round_codes(
          target, weights_ + r * n_ + first, len, [&](uint64_t k) { return hessian_.factor(first + k) + first; },
          trial_, off);
      keep(r, first, len, trial_);
      for (uint64_t k = 0; k < len; ++k) off[k] = -off[k];
    }
    for (uint64_t at = end; at < n_; at += kChunk) {
      const uint64_t n = std::min(kChunk, n_ - at);
      for (uint64_t r = 0; r < n_rows_; ++r)
        add_products(errors_.data() + r * kTile, hessian_.factor(first) + at, n_, len, targets_.data() + r * n_ + at,
                     n);
    }
  }

  // gradients = H (ŵ − w), half the gradient of the error.
  void find_gradients() {
    gradients_.assign(n_rows_ * n_, 0.0f);
    for (uint64_t first = 0; first < n_; first += kTile) {
      const uint64_t len = tile_len(first);
      for (uint64_t r = 0; r < n_rows_; ++r)
        for (uint64_t k = 0; k < len; ++k)
          errors_[r * kTile + k] = decoded_[r * n_ + first + k] - weights_[r * n_ + first + k];
      feed_gradients(first, len);
    }
  }

  // gradients += H[tile]ᵀ · errors_.
  void feed_gradients(uint64_t first, uint64_t len) {
    for (uint64_t at = 0; at < n_; at += kChunk) {
      const uint64_t n = std::min(kChunk, n_ - at);
      for (uint64_t r = 0; r < n_rows_; ++r)
        add_products(errors_.data() + r * kTile, hessian_.row(first) + at, n_, len, gradients_.data() + r * n_ + at, n);
    }
  }

  // Step 2.
  void descend() {
    for (uint32_t sweep = 0; sweep < options_.n_sweeps; ++sweep) {
      uint64_t n_moved = 0;
      for (uint64_t first = 0; first < n_; first += kTile) {
        uint64_t n_here = 0;
        for (uint64_t r = 0; r < n_rows_; ++r) n_here += descend_tile(r, first, tile_len(first));
        if (n_here > 0) feed_gradients(first, tile_len(first));
        n_moved += n_here;
      }
      if (n_moved == 0) return;
    }
  }

  // Codes moved; their differences to errors_.
  uint64_t descend_tile(uint64_t r, uint64_t first, uint64_t len) {
    float* const moved = errors_.data() + r * kTile;
    std::fill_n(moved, len, 0.0f);
    float gradient[kTile];
    std::copy_n(gradients_.data() + r * n_ + first, len, gradient);
    float* const decoded = decoded_.data() + r * n_ + first;
    uint8_t* const codes = codes_.data() + r * n_ + first;
    const uint32_t group_len = type_.codes.group_len;
    uint64_t n_moved = 0;
    for (uint64_t begin = 0; begin < len; begin += group_len) {
      const Levels levels = levels_at(row_levels(r, first + begin));
      for (uint64_t k = begin; k < begin + group_len; ++k) {
        const float curvature = hessian_.diagonal(first + k);
        const uint8_t code = levels.nearest(decoded[k] - gradient[k] / curvature);
        if (code == codes[k]) continue;
        const float delta = levels.value(code) - decoded[k];
        if (!(delta * (2.0f * gradient[k] + curvature * delta) < 0.0f)) continue;
        codes[k] = code;
        decoded[k] += delta;
        moved[k] = delta;
        ++n_moved;
        subtract_multiple(-delta, hessian_.row(first + k) + first, gradient, len);
      }
    }
    return n_moved;
  }

  bool has_group_scales() const { return type_.codes.range.highest > type_.codes.range.lowest; }

  // What codes mean where d, the group's scale and nothing else count.
  void find_unit_levels() {
    std::vector<std::byte> block(info_.block_bytes);
    std::vector<uint8_t> codes(info_.block_len);
    std::vector<float> decoded(info_.block_len);
    BlockScales scales{1.0f, 0.0f};
    std::fill(std::begin(scales.scale), std::end(scales.scale), 1);
    std::fill(std::begin(scales.minimum), std::end(scales.minimum), type_.codes.range.lowest_minimum);
    type_.codes.put_scales(scales, block.data());
    unit_levels_.resize(type_.codes.n_codes);
    for (uint32_t code = 0; code < type_.codes.n_codes; ++code) {
      std::fill(codes.begin(), codes.end(), static_cast<uint8_t>(code));
      type_.codes.put_codes(codes.data(), block.data());
      type_.decode(block.data(), decoded.data(), 1);
      unit_levels_[code] = decoded[0];
    }
  }

  // The diagonal block of H of every group as U D Uᵀ.
  void factor_groups() {
    const uint32_t len = type_.codes.group_len;
    group_factor_.resize(n_ * len);
    group_conditional_.resize(n_);
    for (uint64_t first = 0; first < n_; first += len) {
      float* const u = group_factor_.data() + first * len;
      for (uint64_t i = 0; i < len; ++i) std::copy_n(hessian_.row(first + i) + first, len, u + i * len);
      // A diagonal block of a positive definite matrix is one.
      TAMIS_CHECK(factor_udu(u, len, len, group_conditional_.data() + first, nullptr));
    }
  }

  // Step 3 without the descent; false when nothing moved.
  bool move_tiles() {
    bool has_moved = false;
    for (uint64_t first = 0; first < n_; first += kTile) {
      bool has_moved_here = false;
      for (uint64_t r = 0; r < n_rows_; ++r) {
        const bool is_new = move_tile(r, first, tile_len(first));
        has_moved_here |= move_scales(r, first, tile_len(first)) || is_new;
      }
      if (has_moved_here) feed_gradients(first, tile_len(first));
      has_moved |= has_moved_here;
    }
    return has_moved;
  }

  bool move_tile(uint64_t r, uint64_t first, uint64_t len) {
    float* const moved = errors_.data() + r * kTile;
    const float* const now = decoded_.data() + r * n_ + first;
    const float* const gradient = gradients_.data() + r * n_ + first;
    float optimum[kTile], target[kTile], off[kTile];
    solve_tile(first, len, gradient, optimum);
    for (uint64_t k = 0; k < len; ++k) target[k] = optimum[k] = now[k] - optimum[k];
    choose_scales(target, tile_importance_.data() + first, len, trial_);
    round_codes(
        target, optimum, len, [&](uint64_t k) { return hessian_.tile_factor(first + k); }, trial_, off);
    float change = 0;
    for (uint64_t k = 0; k < len; ++k) moved[k] = trial_.decoded[k] - now[k];
    for (uint64_t k = 0; k < len; ++k)
      change += moved[k] * (2.0f * gradient[k] + dot(hessian_.row(first + k) + first, moved, len));
    if (!(change < 0.0f)) {
      std::fill_n(moved, len, 0.0f);
      return false;
    }
    keep(r, first, len, trial_);
    return true;
  }

  // The scales of the tile's blocks moved to where the row's error is less, codes rounded anew where a group's change;
  // on top of what errors_ says of the tile already.
  bool move_scales(uint64_t r, uint64_t first, uint64_t len) {
    if (type_.codes.put_scales == nullptr) return false;
    float* const moved = errors_.data() + r * kTile;
    std::copy_n(gradients_.data() + r * n_ + first, len, gradient_);
    for (uint64_t k = 0; k < len; ++k)
      if (moved[k] != 0.0f) subtract_multiple(-moved[k], hessian_.row(first + k) + first, gradient_, len);
    bool has_moved = false;
    for (uint64_t at = first; at < first + len; at += info_.block_len) {
      BlockScales scales;
      type_.codes.get_scales(block_at(r, at), scales);
      has_moved |= refit_block(r, first, len, at, scales);
      if (!has_group_scales()) continue;
      for (uint64_t column = at; column < at + info_.block_len; column += type_.codes.group_len)
        has_moved |= move_group(r, first, len, column, scales);
    }
    return has_moved;
  }
  std::byte* block_at(uint64_t r, uint64_t column) { return blocks_ + r * row_bytes_ + block_offset(column); }

  // d and dmin of least error for the block's codes and integers.
  bool refit_block(uint64_t r, uint64_t first, uint64_t len, uint64_t at, BlockScales& scales) {
    const uint32_t n = info_.block_len;
    if (scales.d == 0.0f) return false;
    const bool has_minima = type_.codes.range.lowest_minimum != 0 || type_.codes.range.highest_minimum != 0;
    float u[kTile], v[kTile];  // decoded = d u − dmin v
    for (uint32_t k = 0; k < n; ++k) {
      const auto group = k / type_.codes.group_len;
      u[k] = static_cast<float>(scales.scale[group]) * unit_levels_[codes_[r * n_ + at + k]];
      v[k] = static_cast<float>(scales.minimum[group]);
    }
    double uu = 0, uv = 0, vv = 0, ug = 0, vg = 0;
    for (uint32_t k = 0; k < n; ++k) {
      const float* const row = hessian_.row(at + k) + at;
      const double hu = static_cast<double>(dot(row, u, n));
      const double hv = has_minima ? static_cast<double>(dot(row, v, n)) : 0;
      const auto gradient = static_cast<double>(gradient_[at - first + k]);
      uu += static_cast<double>(u[k]) * hu;
      uv += static_cast<double>(u[k]) * hv;
      vv += static_cast<double>(v[k]) * hv;
      ug += static_cast<double>(u[k]) * gradient;
      vg += static_cast<double>(v[k]) * gradient;
    }
    // The least of 2 (δd ug − δdmin vg) + δd² uu − 2 δd δdmin uv + δdmin² vv.
    const double det = uu * vv - uv * uv;
    double d_change = uu > 0 ? -ug / uu : 0, dmin_change = 0;
    if (det > 1e-6 * uu * vv) {
      d_change = (uv * vg - vv * ug) / det;
      dmin_change = (uu * vg - uv * ug) / det;
    }
    BlockScales fitted = scales;
    fitted.d = stored(static_cast<double>(scales.d) + d_change);
    fitted.dmin = stored(static_cast<double>(scales.dmin) + dmin_change);
    const double a = static_cast<double>(fitted.d) - static_cast<double>(scales.d);
    const double b = static_cast<double>(fitted.dmin) - static_cast<double>(scales.dmin);
    if (!(2 * (a * ug - b * vg) + a * a * uu - 2 * a * b * uv + b * b * vv < 0)) return false;
    scales = fitted;
    apply(r, first, len, at, n, scales);
    return true;
  }
  static float stored(double value) {
    return f16_to_f32(f32_to_f16(static_cast<float>(std::clamp(value, -65504.0, 65504.0))));
  }

  // The group's scale and minimum, up to two steps away, with its codes rounded to them at the optimum that the rest of
  // the row leaves.
  bool move_group(uint64_t r, uint64_t first, uint64_t len, uint64_t column, BlockScales& scales) {
    const uint32_t n = type_.codes.group_len, n_codes = type_.codes.n_codes;
    const auto group = column % info_.block_len / n;
    const ScaleRange& range = type_.codes.range;
    const float* const factor = group_factor_.data() + column * n;
    const float* const now = decoded_.data() + r * n_ + column;
    const float* const gradient = gradient_ + (column - first);
    float optimum[kMaxGroup], target[kMaxGroup], delta[kMaxGroup], levels_of[kMaxCodes];
    solve(factor, group_conditional_.data() + column, n, n, gradient, optimum);
    for (uint32_t k = 0; k < n; ++k) optimum[k] = now[k] - optimum[k];
    uint8_t codes[kMaxGroup], best_codes[kMaxGroup];
    int best_scale = 0, best_minimum = 0;
    float best = 0;
    const int scale = scales.scale[group], minimum = scales.minimum[group];
    for (int s = std::max(range.lowest, scale - 2); s <= std::min(range.highest, scale + 2); ++s) {
      for (int m = std::max(range.lowest_minimum, minimum - 2); m <= std::min(range.highest_minimum, minimum + 2);
           ++m) {
        if (s == scale && m == minimum) continue;
        const float step = scales.d * static_cast<float>(s), offset = scales.dmin * static_cast<float>(m);
        for (uint32_t code = 0; code < n_codes; ++code) levels_of[code] = step * unit_levels_[code] - offset;
        const Levels levels = levels_at(levels_of);
        std::copy_n(optimum, n, target);
        for (uint32_t k = 0; k < n; ++k) {
          codes[k] = levels.nearest(target[k]);
          const float value = levels.value(codes[k]);
          delta[k] = value - now[k];
          subtract_multiple(value - optimum[k], factor + k * n + k + 1, target + k + 1, n - k - 1);
        }
        float change = 0;
        for (uint32_t k = 0; k < n; ++k)
          change += delta[k] * (2.0f * gradient[k] + dot(hessian_.row(column + k) + column, delta, n));
        if (!(change < best)) continue;
        best = change;
        best_scale = s;
        best_minimum = m;
        std::copy_n(codes, n, best_codes);
      }
    }
    if (best == 0) return false;
    scales.scale[group] = best_scale;
    scales.minimum[group] = best_minimum;
    std::copy_n(best_codes, n, codes_.data() + r * n_ + column);
    apply(r, first, len, column, n, scales);
    return true;
  }

  // Stores a block's scales; [column, column + n), a group of it or all of it, decodes anew, and what that changes goes
  // to errors_ and the tile's gradient.
  void apply(uint64_t r, uint64_t first, uint64_t len, uint64_t column, uint64_t n, const BlockScales& scales) {
    const uint64_t at = column / info_.block_len * info_.block_len;
    type_.codes.put_scales(scales, block_at(r, at));
    find_levels(block_at(r, at), info_.block_len, row_levels(r, at));
    float* const decoded = decoded_.data() + r * n_;
    float* const moved = errors_.data() + r * kTile;
    for (uint64_t k = column; k < column + n; ++k) {
      const float value = row_levels(r, k)[codes_[r * n_ + k]];
      const float delta = value - decoded[k];
      if (delta == 0.0f) continue;
      decoded[k] = value;
      moved[k - first] += delta;
      subtract_multiple(-delta, hessian_.row(k) + first, gradient_, len);
    }
  }

  // x with H_tile x = b, by the tile's U D Uᵀ.
  void solve_tile(uint64_t first, uint64_t len, const float* b, float* x) const {
    solve(hessian_.tile_factor(first), hessian_.tile_conditionals(first), len, kTile, b, x);
  }
  static void solve(const float* u, const float* d, uint64_t n, uint64_t stride, const float* b, float* x) {
    for (uint64_t k = n; k-- > 0;)  // U y = b
      x[k] = b[k] - dot(u + k * stride + k + 1, x + k + 1, n - k - 1);
    for (uint64_t k = 0; k < n; ++k) x[k] /= d[k];
    for (uint64_t k = 0; k < n; ++k)  // Uᵀ x = z
      subtract_multiple(x[k], u + k * stride + k + 1, x + k + 1, n - k - 1);
  }

  const QuantType& type_;
  const DTypeInfo& info_;
  const InputHessian& hessian_;
  const FeedbackOptions options_;
  const uint64_t n_, row_bytes_, n_groups_;
  TileCode trial_;
  std::vector<std::byte> scratch_;
  std::vector<float> importance_, tile_importance_;  // [n]
  std::vector<float> unit_levels_;                   // [n_codes]
  std::vector<float> group_factor_;                  // [n, group_len]
  std::vector<float> group_conditional_;             // [n]
  float gradient_[kTile] = {};                       // of the tile under move_scales()

  // Of the batch, [n_rows, n] but for errors_ [n_rows, kTile] and levels_ [n_rows, groups, codes].
  uint64_t n_rows_ = 0;
  const float* weights_ = nullptr;
  std::byte* blocks_ = nullptr;
  std::vector<float> targets_, decoded_, gradients_, errors_, levels_;
  std::vector<uint8_t> codes_;
};

}  // namespace

bool has_feedback_encoder(DType dtype) {
  const QuantType& type = quant_type(dtype);
  return type.codes.n_codes > 0 && type.encode_fast != nullptr;
}

Status encode_rows_with_feedback(DType dtype, std::span<const float> values, const InputHessian& hessian,
                                 const FeedbackOptions& options, std::span<std::byte> blocks) {
  const DTypeInfo& info = dtype_info(dtype);
  if (!has_feedback_encoder(dtype)) return fail(ErrorCode::unsupported, "no error feedback for {}", info.name);
  const uint64_t n = hessian.n_cols();
  if (n % info.block_len != 0 || values.size() % n != 0)
    return fail(ErrorCode::shape, "{} values in rows of {} are not whole rows of whole blocks of {} ({})",
                values.size(), n, info.name, info.block_len);
  const uint64_t row_bytes = n / info.block_len * info.block_bytes, n_rows = values.size() / n;
  if (blocks.size() / row_bytes < n_rows)
    return fail(ErrorCode::shape, "{} rows of {} need {} bytes each, {} bytes given", n_rows, info.name, row_bytes,
                blocks.size());
  RowBatch batch(quant_type(dtype), hessian, options);
  for (uint64_t row = 0; row < n_rows; row += kBatch) {
    const uint64_t n_here = std::min(kBatch, n_rows - row);
    batch.encode(values.subspan(row * n, n_here * n), blocks.subspan(row * row_bytes, n_here * row_bytes));
  }
  return {};
}

}  // namespace tamis
