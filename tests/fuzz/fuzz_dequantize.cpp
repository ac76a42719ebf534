// fuzz: rooms=quants,base
// F15: any bytes as blocks of any type. Decoding equals the slow scalar definition bit for bit, encoding any floats
// gives blocks that decode, sizes that do not fit are errors; nothing is read or written outside the buffers.
//
// Input: byte 0 = type, byte 1 bit 0 = decode or encode, bytes 2–3 = elements asked for (u16), the rest = blocks or
// floats.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "quants/registry.h"
#include "tests/quants/slow_decode.h"

namespace {

void check_decode(tamis::DType dtype, const std::vector<std::byte>& bytes, size_t n) {
  std::vector<float> out(n);
  const tamis::DTypeInfo& info = tamis::dtype_info(dtype);
  const bool fits = n % info.block_len == 0 && bytes.size() / info.block_bytes >= n / info.block_len;
  if (tamis::decode_checked(dtype, bytes, out).has_value() != fits) std::abort();
  if (!fits) return;
  // Every weight of the first block; of the others, which go the same way, every seventh.
  for (size_t i = 0; i < n; i += i < info.block_len ? 1 : 7) {
    const auto* block = reinterpret_cast<const uint8_t*>(bytes.data()) + i / info.block_len * info.block_bytes;
    const float expected = tamis::slow::weight(dtype, block, i % info.block_len);
    const bool same = std::bit_cast<uint32_t>(out[i]) == std::bit_cast<uint32_t>(expected);
    if (!same && !(std::isnan(out[i]) && std::isnan(expected))) std::abort();
  }
}

void check_encode(tamis::DType dtype, const std::vector<std::byte>& bytes, size_t n) {
  std::vector<float> values(n);
  if (n != 0 && !bytes.empty()) std::memcpy(values.data(), bytes.data(), std::min(bytes.size(), 4 * n));
  const tamis::DTypeInfo& info = tamis::dtype_info(dtype);
  // The output buffer follows the input's length, so that it is sometimes too small.
  std::vector<std::byte> blocks(std::min<size_t>(bytes.size() * 3, 1 << 16));
  const bool fits = tamis::quant_type(dtype).encode_plain != nullptr && n % info.block_len == 0 &&
                    blocks.size() / info.block_bytes >= n / info.block_len;
  if (tamis::encode_plain(dtype, values, blocks).has_value() != fits) std::abort();
  if (fits && !tamis::decode_checked(dtype, blocks, values).has_value()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const auto types = tamis::all_quant_types();
  const tamis::DType dtype = types[data[0] % types.size()].dtype;
  const size_t n = (data[2] | static_cast<size_t>(data[3]) << 8) % 1025;
  std::vector<std::byte> bytes(size - 4);  // a buffer of exactly the input's size
  if (size > 4) std::memcpy(bytes.data(), data + 4, size - 4);
  if ((data[1] & 1) == 0) {
    check_decode(dtype, bytes, n);
  } else {
    check_encode(dtype, bytes, n);
  }
  return 0;
}
