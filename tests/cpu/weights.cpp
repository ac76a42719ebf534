// Random blocks whose scale fields hold sane numbers.
#include "tests/cpu/weights.h"

#include <cstdlib>
#include <cstring>

#include "base/float16.h"
#include "base/rng.h"
#include "quants/registry.h"

namespace tamis::test {
namespace {

// Offsets of the f16 fields in a block of random bytes, from the layouts in src/quants.
struct ScaleFields {
  DType dtype;
  std::vector<size_t> offsets;
};
const ScaleFields kScales[] = {
    {DType::q2_k, {80, 82}}, {DType::q3_k, {108}}, {DType::q4_k, {0, 2}}, {DType::q5_k, {0, 2}},
    {DType::q6_k, {208}},    {DType::iq4_nl, {0}}, {DType::iq4_xs, {0}},  {DType::iq2_xxs, {0}},
};

}  // namespace

std::vector<DType> matrix_types() {
  return {DType::f32,  DType::f16,    DType::bf16,   DType::q4_0,   DType::q4_1, DType::q5_0,
          DType::q5_1, DType::q8_0,   DType::q2_k,   DType::q3_k,   DType::q4_k, DType::q5_k,
          DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::iq2_xxs};
}

std::vector<float> random_floats(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(n);
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

std::vector<std::byte> random_weights(DType dtype, size_t n_rows, size_t n_cols, uint64_t seed) {
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<std::byte> bytes(*dtype_bytes(dtype, n_rows * n_cols));
  for (const ScaleFields& fields : kScales) {
    if (fields.dtype != dtype) continue;
    Rng rng(seed);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
    for (size_t block = 0; block < bytes.size(); block += info.block_bytes) {
      for (const size_t offset : fields.offsets) {
        const uint16_t scale = f32_to_f16(static_cast<float>(0.01 * rng.normal()));
        std::memcpy(&bytes[block + offset], &scale, 2);
      }
    }
    return bytes;
  }
  const std::vector<float> values = random_floats(n_rows * n_cols, seed);
  if (!encode_plain(dtype, values, bytes)) std::abort();
  return bytes;
}

}  // namespace tamis::test
