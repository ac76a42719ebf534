// fuzz: rooms=convert,models,engine,text,compute,quants,formats,base
// A quantization_config, a zero byte, and any bytes as a safetensors file: every module of it is refused with a reason,
// or read as rows whose floats, blocks and integer codes are the same numbers.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/hf_rows.h"
#include "quants/registry.h"

namespace {

using namespace tamis;

constexpr uint64_t kMostElements = 1 << 16;

void require(bool holds) {
  if (!holds) std::abort();
}

bool is_same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void check_native(const RowSource& rows, const std::vector<float>& values) {
  const auto type = rows.native_type();
  if (!type || !rows.is_native_exact()) return;
  std::vector<std::byte> blocks(*dtype_bytes(*type, values.size()));
  require(rows.write_native(0, rows.n_rows(), blocks).has_value());
  std::vector<float> decoded(values.size());
  decode(*type, blocks.data(), decoded);
  for (size_t i = 0; i < values.size(); ++i) require(is_same(decoded[i], values[i]));
}

void check_codes(const RowSource& rows, const std::vector<float>& values) {
  const AffineRows* const codes = rows.affine(0);
  if (codes == nullptr) return;
  const AffineShape& shape = codes->shape();
  require(shape.n_out == rows.n_rows() && shape.n_in == rows.row_len() && shape.n_in % shape.group_len == 0);
  std::vector<float> row(shape.n_in);
  for (uint64_t r = 0; r < shape.n_out; ++r) {
    decode_affine_row(*codes, r, row);
    for (uint64_t k = 0; k < shape.n_in; ++k) {
      // Scales that are not finite make NaN of either form, in places of their own.
      const float value = values[r * shape.n_in + k];
      require(is_same(row[k], value) || !std::isfinite(value) || !std::isfinite(row[k]));
    }
  }
}

void check_rows(const RowSource& rows) {
  const uint64_t n = rows.n_rows() * rows.row_len();
  if (n > kMostElements) return;
  std::vector<float> values(n), last(rows.row_len());
  const Status read = rows.read(0, rows.n_rows(), values);
  require(read.has_value());
  require(rows.read(rows.n_rows() - 1, 1, last).has_value());
  for (uint64_t k = 0; k < last.size(); ++k) require(is_same(last[k], values[n - last.size() + k]));
  require(!rows.describe().empty());
  check_native(rows, values);
  check_codes(rows, values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t at = text.find('\0');
  if (at == text.npos) return 0;
  const auto config = Json::parse(text.substr(0, at), 8);
  if (!config) return 0;
  const auto quantization = HfQuantization::read(*config);
  if (!quantization) {
    require(!quantization.error().message.empty());
    return 0;
  }
  const std::span<const uint8_t> file(data + at + 1, size - at - 1);
  const auto set = SafetensorsSet::open(std::make_shared<MemorySource>(std::as_bytes(file)), "fuzz.safetensors");
  if (!set) return 0;
  for (const SafeTensor& tensor : set->tensors()) {
    std::string name = tensor.name;
    constexpr std::string_view kPacked = ".qweight";
    if (name.ends_with(kPacked)) name = name.substr(0, name.size() - kPacked.size()) + ".weight";
    std::vector<std::string> used;
    const auto rows = make_rows(*set, *quantization, name, used);
    if (!rows) {
      require(!rows.error().message.empty() && rows.error().code != ErrorCode::internal);
      continue;
    }
    require(*rows != nullptr && !used.empty());
    check_rows(**rows);
  }
  return 0;
}
