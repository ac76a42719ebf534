// The table of tensor types: how each decodes and encodes. Geometry (block length and bytes) is base/dtype's table.
#include "quants/registry.h"

#include <array>
#include <cmath>

#include "base/fault.h"
#include "quants/iq1_m.h"
#include "quants/iq1_s.h"
#include "quants/iq2_s.h"
#include "quants/iq2_xs.h"
#include "quants/iq2_xxs.h"
#include "quants/iq3_s.h"
#include "quants/iq3_xxs.h"
#include "quants/iq4_nl.h"
#include "quants/iq4_xs.h"
#include "quants/mxfp4.h"
#include "quants/nvfp4.h"
#include "quants/plain.h"
#include "quants/q1_0.h"
#include "quants/q2_0.h"
#include "quants/q2_k.h"
#include "quants/q3_k.h"
#include "quants/q4_0.h"
#include "quants/q4_1.h"
#include "quants/q4_k.h"
#include "quants/q5_0.h"
#include "quants/q5_1.h"
#include "quants/q5_k.h"
#include "quants/q6_k.h"
#include "quants/q8_0.h"
#include "quants/q8_1.h"
#include "quants/q8_k.h"
#include "quants/tq1_0.h"
#include "quants/tq2_0.h"

namespace tamis {
namespace {

constexpr auto kPlain = OperandClass::plain;
constexpr auto kAffine = OperandClass::affine;
constexpr auto kLookup = OperandClass::lookup;
constexpr auto kGrid = OperandClass::grid;

template <class Block>
constexpr CodeGrid codes_of() {
  return {Block::kCodes, Block::kGroupLen, recode_block<Block>};
}
template <class Block>
constexpr CodeGrid scales_of() {
  return {Block::kCodes,  Block::kGroupLen,         recode_block<Block>,
          Block::kScales, read_block_scales<Block>, write_block_scales<Block>};
}

constexpr QuantType kTypes[] = {
    {DType::f32, kPlain, decode_f32, encode_f32},
    {DType::f16, kPlain, decode_f16, encode_f16},
    {DType::bf16, kPlain, decode_bf16, encode_bf16},
    {DType::f64, kPlain, decode_number<double>, nullptr},
    {DType::i8, kPlain, decode_number<int8_t>, nullptr},
    {DType::i16, kPlain, decode_number<int16_t>, nullptr},
    {DType::i32, kPlain, decode_number<int32_t>, nullptr},
    {DType::i64, kPlain, decode_number<int64_t>, nullptr},
    {DType::q4_0, kAffine, decode_blocks<BlockQ4_0>, encode_blocks<BlockQ4_0>, encode_q4_0, scales_of<BlockQ4_0>()},
    {DType::q4_1, kAffine, decode_blocks<BlockQ4_1>, encode_blocks<BlockQ4_1>, encode_q4_1, scales_of<BlockQ4_1>()},
    {DType::q5_0, kAffine, decode_blocks<BlockQ5_0>, encode_blocks<BlockQ5_0>, encode_q5_0, scales_of<BlockQ5_0>()},
    {DType::q5_1, kAffine, decode_blocks<BlockQ5_1>, encode_blocks<BlockQ5_1>, encode_q5_1, scales_of<BlockQ5_1>()},
    {DType::q8_0, kAffine, decode_blocks<BlockQ8_0>, encode_blocks<BlockQ8_0>, encode_q8_0, scales_of<BlockQ8_0>()},
    {DType::q8_1, kAffine, decode_blocks<BlockQ8_1>, nullptr},
    {DType::q8_k, kAffine, decode_blocks<BlockQ8K>, nullptr},
    {DType::q2_k, kAffine, decode_blocks<BlockQ2K>, encode_blocks<BlockQ2K>, encode_q2_k, scales_of<BlockQ2K>()},
    {DType::q3_k, kAffine, decode_blocks<BlockQ3K>, encode_blocks<BlockQ3K>, encode_q3_k, scales_of<BlockQ3K>()},
    {DType::q4_k, kAffine, decode_blocks<BlockQ4K>, encode_blocks<BlockQ4K>, encode_q4_k, scales_of<BlockQ4K>()},
    {DType::q5_k, kAffine, decode_blocks<BlockQ5K>, encode_blocks<BlockQ5K>, encode_q5_k, scales_of<BlockQ5K>()},
    {DType::q6_k, kAffine, decode_blocks<BlockQ6K>, encode_blocks<BlockQ6K>, encode_q6_k, scales_of<BlockQ6K>()},
    {DType::iq1_s, kGrid, decode_blocks<BlockIQ1S>, encode_blocks<BlockIQ1S>, encode_iq1_s},
    {DType::iq1_m, kGrid, decode_blocks<BlockIQ1M>, encode_blocks<BlockIQ1M>, encode_iq1_m},
    {DType::iq2_xxs, kGrid, decode_blocks<BlockIQ2XXS>, encode_blocks<BlockIQ2XXS>, encode_iq2_xxs},
    {DType::iq2_xs, kGrid, decode_blocks<BlockIQ2XS>, encode_blocks<BlockIQ2XS>, encode_iq2_xs},
    {DType::iq2_s, kGrid, decode_blocks<BlockIQ2S>, encode_blocks<BlockIQ2S>, encode_iq2_s},
    {DType::iq3_xxs, kGrid, decode_blocks<BlockIQ3XXS>, encode_blocks<BlockIQ3XXS>, encode_iq3_xxs},
    {DType::iq3_s, kGrid, decode_blocks<BlockIQ3S>, encode_blocks<BlockIQ3S>, encode_iq3_s},
    {DType::iq4_nl, kLookup, decode_blocks<BlockIQ4NL>, encode_blocks<BlockIQ4NL>, encode_iq4_nl,
     scales_of<BlockIQ4NL>()},
    {DType::iq4_xs, kLookup, decode_blocks<BlockIQ4XS>, encode_blocks<BlockIQ4XS>, encode_iq4_xs,
     scales_of<BlockIQ4XS>()},
    {DType::tq1_0, kAffine, decode_blocks<BlockTQ1_0>, encode_blocks<BlockTQ1_0>, encode_tq1_0},
    {DType::tq2_0, kAffine, decode_blocks<BlockTQ2_0>, encode_blocks<BlockTQ2_0>, encode_tq2_0,
     scales_of<BlockTQ2_0>()},
    {DType::mxfp4, kLookup, decode_blocks<BlockMXFP4>, encode_blocks<BlockMXFP4>, encode_mxfp4, codes_of<BlockMXFP4>()},
    {DType::nvfp4, kLookup, decode_blocks<BlockNVFP4>, encode_blocks<BlockNVFP4>, encode_nvfp4, codes_of<BlockNVFP4>()},
    {DType::q1_0, kAffine, decode_blocks<BlockQ1_0>, encode_blocks<BlockQ1_0>, encode_q1_0, scales_of<BlockQ1_0>()},
    {DType::q2_0, kAffine, decode_blocks<BlockQ2_0>, encode_blocks<BlockQ2_0>, encode_q2_0, scales_of<BlockQ2_0>()},
};

constexpr size_t kMaxId = 43;

// Row number + 1 by type id; 0 where there is no type.
constexpr std::array<uint8_t, kMaxId> rows_by_id() {
  std::array<uint8_t, kMaxId> rows{};
  for (size_t i = 0; i < std::size(kTypes); ++i)
    rows[static_cast<size_t>(kTypes[i].dtype)] = static_cast<uint8_t>(i + 1);
  return rows;
}
constexpr auto kRows = rows_by_id();

}  // namespace

const QuantType& quant_type(DType dtype) {
  const auto id = static_cast<size_t>(dtype);
  TAMIS_CHECK(id < kMaxId && kRows[id] != 0);
  return kTypes[kRows[id] - 1];
}

std::span<const QuantType> all_quant_types() { return kTypes; }

void decode(DType dtype, const std::byte* blocks, std::span<float> out) {
  const uint32_t block_len = dtype_info(dtype).block_len;
  TAMIS_CHECK(out.size() % block_len == 0);
  quant_type(dtype).decode(blocks, out.data(), out.size() / block_len);
}

Status decode_checked(DType dtype, std::span<const std::byte> blocks, std::span<float> out) {
  const DTypeInfo& info = dtype_info(dtype);
  const size_t n_blocks = out.size() / info.block_len + (out.size() % info.block_len != 0 ? 1 : 0);
  if (TAMIS_CHECKED(21, out.size() % info.block_len != 0))
    return fail(ErrorCode::shape, "{} elements of {} are not whole blocks of {}", out.size(), info.name,
                info.block_len);
  if (TAMIS_CHECKED(22, blocks.size() / info.block_bytes < n_blocks))
    return fail(ErrorCode::shape, "{} bytes hold fewer than {} blocks of {} ({} bytes each)", blocks.size(), n_blocks,
                info.name, info.block_bytes);
  quant_type(dtype).decode(blocks.data(), out.data(), n_blocks);
  return {};
}

Status encode_plain(DType dtype, std::span<const float> values, std::span<std::byte> blocks) {
  const QuantType& type = quant_type(dtype);
  const DTypeInfo& info = dtype_info(dtype);
  if (type.encode_plain == nullptr) return fail(ErrorCode::unsupported, "no textbook encoder for {}", info.name);
  const size_t n_blocks = values.size() / info.block_len;
  if (values.size() % info.block_len != 0)
    return fail(ErrorCode::shape, "{} values are not whole blocks of {} ({})", values.size(), info.name,
                info.block_len);
  if (TAMIS_CHECKED(23, blocks.size() / info.block_bytes < n_blocks))
    return fail(ErrorCode::shape, "{} blocks of {} need {} bytes each, {} bytes given", n_blocks, info.name,
                info.block_bytes, blocks.size());
  type.encode_plain(values.data(), blocks.data(), n_blocks);
  return {};
}

std::string_view encode_method_name(EncodeMethod method) {
  if (method == EncodeMethod::plain) return "plain";
  return method == EncodeMethod::hessian ? "hessian" : "fast";
}

namespace {

Status check_importance(std::span<const float> importance, uint64_t row_len) {
  if (!importance.empty() && importance.size() != row_len)
    return fail(ErrorCode::shape, "importance of {} columns, expected {}", importance.size(), row_len);
  for (size_t i = 0; i < importance.size(); ++i)
    if (!(importance[i] >= 0.0f) || std::isinf(importance[i]))
      return fail(ErrorCode::invalid_argument, "importance of column {} is {}, expected a finite number >= 0", i,
                  importance[i]);
  return {};
}

}  // namespace

Status encode_rows(DType dtype, EncodeMethod method, std::span<const float> values, uint64_t row_len,
                   std::span<const float> importance, std::span<std::byte> blocks) {
  const QuantType& type = quant_type(dtype);
  const DTypeInfo& info = dtype_info(dtype);
  if (method == EncodeMethod::plain || type.encode_fast == nullptr) return encode_plain(dtype, values, blocks);
  if (row_len == 0 || row_len % info.block_len != 0 || values.size() % row_len != 0)
    return fail(ErrorCode::shape, "{} values in rows of {} are not whole rows of whole blocks of {} ({})",
                values.size(), row_len, info.name, info.block_len);
  TAMIS_TRY_STATUS(check_importance(importance, row_len));
  const size_t blocks_per_row = row_len / info.block_len;
  const size_t n_rows = values.size() / row_len;
  if (blocks.size() / info.block_bytes / blocks_per_row < n_rows)
    return fail(ErrorCode::shape, "{} rows of {} blocks of {} need {} bytes a block, {} bytes given", n_rows,
                blocks_per_row, info.name, info.block_bytes, blocks.size());
  const float* weights = importance.empty() ? nullptr : importance.data();
  for (size_t row = 0; row < n_rows; ++row)
    type.encode_fast(values.data() + row * row_len, weights, blocks.data() + row * blocks_per_row * info.block_bytes,
                     blocks_per_row);
  return {};
}

}  // namespace tamis
