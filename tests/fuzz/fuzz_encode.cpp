// fuzz: rooms=quants,base
// Any bytes as values and importance, every type and method. Encoding takes or refuses them by the stated rules, writes
// whole blocks that decode, the same bytes each time; the searching encoders give finite weights for finite values.
//
// Input: byte 0 = type, byte 1 bit 0 = method, bit 1 = with importance, byte 2 = blocks a row (1 to 4), byte 3 = rows
// (1 to 3), the rest = floats: a row of importance if there is one, then the values; what is missing is 0.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "quants/registry.h"

namespace {

bool are_all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const auto types = tamis::all_quant_types();
  const tamis::QuantType& type = types[data[0] % types.size()];
  const tamis::DTypeInfo& info = tamis::dtype_info(type.dtype);
  const bool is_fast = (data[1] & 1) != 0;
  const size_t row_len = info.block_len * (1 + data[2] % 4);
  std::vector<float> importance((data[1] & 2) != 0 ? row_len : 0);
  std::vector<float> values(row_len * (1 + data[3] % 3));
  const size_t n_floats = (size - 4) / sizeof(float);
  const size_t n_weights = std::min(importance.size(), n_floats);
  if (n_weights != 0) std::memcpy(importance.data(), data + 4, n_weights * sizeof(float));
  const size_t n_values = std::min(values.size(), n_floats - n_weights);
  if (n_values != 0) std::memcpy(values.data(), data + 4 + n_weights * sizeof(float), n_values * sizeof(float));

  const bool has_search = is_fast && type.encode_fast != nullptr;
  bool is_taken = has_search || type.encode_plain != nullptr;
  if (has_search)
    for (const float weight : importance) is_taken = is_taken && weight >= 0.0f && std::isfinite(weight);
  const auto method = is_fast ? tamis::EncodeMethod::fast : tamis::EncodeMethod::plain;
  std::vector<std::byte> blocks(values.size() / info.block_len * info.block_bytes);
  if (tamis::encode_rows(type.dtype, method, values, row_len, importance, blocks).has_value() != is_taken) std::abort();
  if (!is_taken) return 0;

  std::vector<std::byte> again(blocks.size(), std::byte{0xa5});
  if (!tamis::encode_rows(type.dtype, method, values, row_len, importance, again).has_value()) std::abort();
  if (blocks != again) std::abort();
  std::vector<float> back(values.size());
  tamis::decode(type.dtype, blocks.data(), back);
  if (has_search && are_all_finite(values) && !are_all_finite(back)) std::abort();
  return 0;
}
