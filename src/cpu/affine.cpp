// Scales and offsets are computed with the roundings of quants/*.h: a product d · scale first, then one rounding a
// weight. Subtracting a minimum is adding its negative, and adding −0 changes no number, not even −0.
#include "cpu/affine.h"

#include <cstring>

#include "base/float16.h"
#include "cpu/plane_parts.h"

namespace tamis::cpu {
namespace {

enum class ScaleKind : uint8_t { d, d_m, k_signed, k_min, k_nibbles };

struct Row {
  DType dtype;
  AffineFormat format;
  const PlanePacker* packer;
  ScaleKind scales;
  int32_t zero;  // taken off the codes of 8-bit formats
};

constexpr Row kRows[] = {
    {DType::q4_0, {32, 32, 4, 8, false}, &kPackQ40, ScaleKind::d, 0},
    {DType::q4_1, {32, 32, 4, 0, true}, &kPackQ41, ScaleKind::d_m, 0},
    {DType::q5_0, {32, 32, 8, 0, false}, &kPackQ50, ScaleKind::d, 16},
    {DType::q5_1, {32, 32, 8, 0, true}, &kPackQ51, ScaleKind::d_m, 0},
    {DType::q8_0, {32, 32, 8, 0, false}, &kPackQ80, ScaleKind::d, 0},
    {DType::q2_k, {256, 16, 4, 0, true}, &kPackQ2K, ScaleKind::k_nibbles, 0},
    {DType::q3_k, {256, 16, 4, 4, false}, &kPackQ3K, ScaleKind::k_signed, 0},
    {DType::q4_k, {256, 32, 4, 0, true}, &kPackQ4K, ScaleKind::k_min, 0},
    {DType::q5_k, {256, 32, 8, 0, true}, &kPackQ5K, ScaleKind::k_min, 0},
    {DType::q6_k, {256, 16, 8, 0, false}, &kPackQ6K, ScaleKind::k_signed, 32},
};

const Row* find_row(DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return &row;
  return nullptr;
}

void set_scales(ScaleKind kind, const Parts& p, int g, AffineGroup& group) {
  const float d = f16_to_f32(p.d);
  group.scale = d;
  group.offset = -0.0f;
  if (kind == ScaleKind::d) return;
  const float m = f16_to_f32(p.m);
  switch (kind) {
    case ScaleKind::d: break;
    case ScaleKind::d_m: group.offset = m; break;
    case ScaleKind::k_signed: group.scale = d * static_cast<float>(static_cast<int8_t>(p.scales[g])); break;
    case ScaleKind::k_min:
      group.scale = d * static_cast<float>(p.scales[g]);
      group.offset = -(m * static_cast<float>(p.mins[g]));
      break;
    case ScaleKind::k_nibbles:
      group.scale = d * static_cast<float>(p.scales[g] & 15);
      group.offset = -(m * static_cast<float>(p.scales[g] >> 4));
      break;
  }
}

void put_group(const AffineFormat& format, const uint8_t* codes, float scale, float offset, size_t r, uint8_t* out) {
  std::memcpy(out + 4 * r, &scale, 4);
  std::memcpy(out + 4 * (kPanelRows + r), &offset, 4);
  const int n = static_cast<int>(format.group_len), row = static_cast<int>(r);
  if (format.code_bits == 4)
    put_vectors<4>(codes, n, row, out + kAffineHeader);
  else
    put_vectors<8>(codes, n, row, out + kAffineHeader);
}

}  // namespace

const AffineFormat* affine_format(DType dtype) {
  const Row* row = find_row(dtype);
  return row == nullptr ? nullptr : &row->format;
}

void pack_affine(const AffineFormat& format, size_t n_in, size_t n_rows,
                 const std::function<void(size_t r, size_t g, AffineGroup& group)>& read, uint8_t* panel) {
  std::memset(panel, 0, affine_panel_bytes(format, n_in));
  AffineGroup group;
  for (size_t g = 0; g < n_in / format.group_len; ++g)
    for (size_t r = 0; r < n_rows; ++r) {
      read(r, g, group);
      put_group(format, group.codes, group.scale, group.offset, r, panel + g * affine_group_bytes(format));
    }
}

void pack_affine_rows(DType dtype, const uint8_t* first_row, size_t row_bytes, size_t n_rows, uint8_t* panel) {
  const Row& row = *find_row(dtype);
  const AffineFormat& format = row.format;
  const DTypeInfo& info = dtype_info(dtype);
  const size_t n_blocks = row_bytes / info.block_bytes, n_groups = info.block_len / format.group_len;
  const size_t group_bytes = affine_group_bytes(format);
  std::memset(panel, 0, n_blocks * n_groups * group_bytes);
  Parts parts;
  AffineGroup group;
  for (size_t b = 0; b < n_blocks; ++b, panel += n_groups * group_bytes)
    for (size_t r = 0; r < n_rows; ++r) {
      row.packer->take(first_row + r * row_bytes + b * info.block_bytes, 0, parts);
      if (row.zero != 0)
        for (size_t i = 0; i < info.block_len; ++i) parts.codes[i] = static_cast<uint8_t>(parts.codes[i] - row.zero);
      for (size_t g = 0; g < n_groups; ++g) {
        set_scales(row.scales, parts, static_cast<int>(g), group);
        put_group(format, parts.codes + g * format.group_len, group.scale, group.offset, r, panel + g * group_bytes);
      }
    }
}

void unpack_affine(const AffineFormat& format, const uint8_t* panel, size_t first, size_t n, float* out) {
  const size_t group_bytes = affine_group_bytes(format);
  for (size_t g = first / format.group_len; g < (first + n) / format.group_len; ++g) {
    const uint8_t* const header = panel + g * group_bytes;
    const uint8_t* const codes = header + kAffineHeader;
    for (size_t k = 0; k < format.group_len; ++k, out += kPanelRows)
      for (size_t r = 0; r < kPanelRows; ++r) {
        float scale, offset;
        std::memcpy(&scale, header + 4 * r, 4);
        std::memcpy(&offset, header + 4 * (kPanelRows + r), 4);
        const size_t at = 4 * r + k % 4;
        const int code = format.code_bits == 8 ? static_cast<int8_t>(codes[k / 4 * 64 + at])
                                               : (codes[k / 8 * 64 + at] >> (k / 4 % 2 * 4) & 15) - format.zero;
        out[r] = scale * static_cast<float>(code) + offset;
      }
  }
}

}  // namespace tamis::cpu
