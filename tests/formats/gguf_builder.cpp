// Encoding of fields, and where each one stands.
#include "tests/formats/gguf_builder.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/dtype.h"

namespace tamis::testing {

RawKv kv_arr(std::string key, uint32_t element_type, uint64_t n, std::string elements) {
  return {std::move(key), 9, u32(element_type) + u64(n) + std::move(elements)};
}

RawKv kv_strs(std::string key, const std::vector<std::string>& values) {
  std::string elements;
  for (const std::string& value : values) elements += str(value);
  return kv_arr(std::move(key), 8, values.size(), elements);
}

void RawGguf::put(const std::string& field, std::string_view content) {
  at[field] = bytes.size();
  bytes += content;
}

std::string RawGguf::with(const std::string& field, std::string_view content, uint64_t shift) const {
  std::string out = bytes;
  out.replace(at.at(field) + shift, content.size(), content);
  return out;
}

RawGguf build_gguf(const std::vector<RawKv>& kvs, const std::vector<RawTensor>& tensors, const RawOptions& options) {
  RawGguf out;
  out.put("magic", "GGUF");
  out.put("version", u32(options.version));
  out.put("n_tensors", u64(tensors.size()));
  out.put("n_kv", u64(kvs.size()));
  for (const RawKv& kv : kvs) {
    out.put("key:" + kv.key, str(kv.key));
    out.put("type:" + kv.key, u32(kv.type));
    out.put("val:" + kv.key, kv.value);
    if (kv.type != 9) continue;
    out.at["etype:" + kv.key] = out.at["val:" + kv.key];
    out.at["n:" + kv.key] = out.at["val:" + kv.key] + 4;
    out.at["val:" + kv.key] += 12;
  }
  uint64_t offset = 0;
  std::string data;
  for (const RawTensor& tensor : tensors) {
    out.put("tname:" + tensor.name, str(tensor.name));
    out.put("nd:" + tensor.name, u32(tensor.dims.size()));
    uint64_t n_elements = 1;
    for (size_t i = 0; i < tensor.dims.size(); ++i) {
      out.put("ne" + std::to_string(i) + ":" + tensor.name, u64(tensor.dims[i]));
      n_elements *= tensor.dims[i];
    }
    out.put("tt:" + tensor.name, u32(tensor.type));
    out.put("off:" + tensor.name, u64(offset));
    const DTypeInfo& info = *dtype_info(tensor.type);
    const uint64_t n_bytes = n_elements / info.block_len * info.block_bytes;
    for (uint64_t i = 0; i < n_bytes; ++i) data += static_cast<char>(i * 7 & 63);
    data.resize((data.size() + options.alignment - 1) / options.alignment * options.alignment, '\0');
    offset = data.size();
  }
  out.at["pad"] = out.bytes.size();
  out.bytes.resize((out.bytes.size() + options.alignment - 1) / options.alignment * options.alignment, '\0');
  out.at["data"] = out.bytes.size();
  if (options.has_data) out.bytes += data;
  return out;
}

std::vector<RawKv> base_kvs() {
  return {kv_str("general.architecture", "llama"),
          kv_u32("general.alignment", 32),
          kv_bool("t.b", true),
          kv_f64("t.f", 1.5),
          kv_strs("t.as", {"a", "bb", ""}),
          kv_arr("t.ai", 3, 3, le<int16_t>(1) + le<int16_t>(-2) + le<int16_t>(3))};
}

std::vector<RawTensor> base_tensors() { return {{"w0", 0, {4, 2}}, {"w1", 8, {32, 2}}, {"w2", 0, {4}}}; }

Result<size_t> TestSource::read_at(uint64_t offset, std::span<std::byte> out) {
  if (n_reads++ == fail_at_read) return fail(ErrorCode::io, "cannot read: Input/output error");
  if (offset >= bytes_.size()) return size_t{0};
  const size_t n = std::min({out.size(), max_read_bytes, static_cast<size_t>(bytes_.size() - offset)});
  std::memcpy(out.data(), bytes_.data() + offset, n);
  bytes_read += n;
  return n;
}

Result<GgufFile> open_bytes(std::string bytes, GgufMode mode) {
  return GgufFile::open(std::make_shared<TestSource>(std::move(bytes)), {.mode = mode});
}

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TAMIS_CHECK(out.good());
}

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace tamis::testing
