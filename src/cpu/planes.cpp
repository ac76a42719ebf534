// Repacking a matrix from the file's blocks into planes (kernels/planes.h): exact, type by type, panel by panel.
#include "cpu/planes.h"

#include <cstring>

#include "cpu/plane_parts.h"

namespace tamis::cpu {
namespace {

struct Row {
  PlaneType type;
  const PlanePacker* packer;
};

constexpr Row kRows[] = {
    {{DType::q4_0, 32, kBytesQ40, kPlaneQ40}, &kPackQ40},
    {{DType::q4_1, 32, kBytesQ41, kPlaneQ41}, &kPackQ41},
    {{DType::q5_0, 32, kBytesQ50, kPlaneQ50}, &kPackQ50},
    {{DType::q5_1, 32, kBytesQ51, kPlaneQ51}, &kPackQ51},
    {{DType::q8_0, 32, kBytesQ80, kPlaneQ80}, &kPackQ80},
    {{DType::iq4_nl, 32, kBytesIQ4NL, kPlaneIQ4NL}, &kPackIQ4NL},
    {{DType::mxfp4, 32, kBytesMXFP4, kPlaneMXFP4}, &kPackMXFP4},
    {{DType::nvfp4, 32, kBytesNVFP4, kPlaneNVFP4}, &kPackNVFP4},
    {{DType::q1_0, 32, kBytesQ10, kPlaneQ10}, &kPackQ10},
    {{DType::q2_0, 32, kBytesQ20, kPlaneQ20}, &kPackQ20},
    {{DType::q2_k, 256, kLayoutQ2K.bytes, kPlaneQ2K}, &kPackQ2K},
    {{DType::q3_k, 256, kLayoutQ3K.bytes, kPlaneQ3K}, &kPackQ3K},
    {{DType::q4_k, 256, kLayoutQ4K.bytes, kPlaneQ4K}, &kPackQ4K},
    {{DType::q5_k, 256, kLayoutQ5K.bytes, kPlaneQ5K}, &kPackQ5K},
    {{DType::q6_k, 256, kLayoutQ6K.bytes, kPlaneQ6K}, &kPackQ6K},
    {{DType::iq4_xs, 256, kLayoutNibbles.bytes, kPlaneIQ4XS}, &kPackIQ4XS},
    {{DType::iq3_s, 256, kLayoutNibbles.bytes, kPlaneIQ3S}, &kPackIQ3S},
    {{DType::iq3_xxs, 256, kLayoutNibbles.bytes, kPlaneIQ3XXS}, &kPackIQ3XXS},
    {{DType::iq2_xxs, 256, kLayoutIQ2XXS.bytes, kPlaneIQ2XXS}, &kPackIQ2XXS},
    {{DType::iq2_xs, 256, kLayoutIQ2S.bytes, kPlaneIQ2S}, &kPackIQ2XS},
    {{DType::iq2_s, 256, kLayoutIQ2S.bytes, kPlaneIQ2S}, &kPackIQ2S},
    {{DType::iq1_s, 256, kLayoutIQ1S.bytes, kPlaneIQ1S}, &kPackIQ1S},
    {{DType::iq1_m, 256, kLayoutIQ1M.bytes, kPlaneIQ1M}, &kPackIQ1M},
    {{DType::tq1_0, 256, kLayoutTernary.bytes, kPlaneTernary}, &kPackTQ10},
    {{DType::tq2_0, 256, kLayoutTernary.bytes, kPlaneTernary}, &kPackTQ20},
};

const Row* find_row(DType dtype) {
  for (const Row& row : kRows)
    if (row.type.dtype == dtype) return &row;
  return nullptr;
}

}  // namespace

const PlaneType* plane_type(DType dtype) {
  const Row* row = find_row(dtype);
  return row == nullptr ? nullptr : &row->type;
}

void pack_panel(const PlaneType& type, const PanelRows& rows, uint8_t* panel) {
  const PlanePacker& packer = *find_row(type.dtype)->packer;
  const DTypeInfo& info = dtype_info(type.dtype);
  const int n_parts = static_cast<int>(info.block_len / type.block_len);
  std::memset(panel, 0, rows.n_blocks * static_cast<size_t>(n_parts) * type.plane_block_bytes);
  Parts parts;
  for (size_t b = 0; b < rows.n_blocks; ++b)
    for (int part = 0; part < n_parts; ++part, panel += type.plane_block_bytes)
      for (size_t r = 0; r < rows.n_rows; ++r) {
        packer.take(rows.first + r * rows.stride + b * info.block_bytes, part, parts);
        packer.put(parts, static_cast<int>(r), panel);
      }
}

}  // namespace tamis::cpu
