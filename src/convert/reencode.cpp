// Decode to f32, encode, a tensor at a time.
#include "convert/reencode.h"

#include <vector>

#include "formats/gguf_writer.h"
#include "quants/registry.h"

namespace tamis {
namespace {

DType type_for(const GgufTensor& tensor, DType wanted) {
  if (tensor.shape.n_dims < 2) return tensor.dtype;
  const bool is_layer = tensor.name.starts_with("blk.");
  for (const DType type : {is_layer ? wanted : DType::q8_0, DType::q8_0})
    if (tensor.shape.row_len() % dtype_info(type).block_len == 0) return type;
  return DType::f32;
}

Status write_tensor(const GgufFile& file, const GgufTensor& tensor, DType type, EncodeMethod method,
                    GgufWriter& writer) {
  if (type == tensor.dtype) return writer.write(file.data(tensor));
  std::vector<float> values(tensor.shape.n_elements());
  TAMIS_TRY_STATUS(decode_checked(tensor.dtype, file.data(tensor), values));
  if (type == DType::f32) return writer.write(std::as_bytes(std::span<const float>(values)));
  std::vector<std::byte> blocks(values.size() / dtype_info(type).block_len * dtype_info(type).block_bytes);
  TAMIS_TRY_STATUS(encode_rows(type, method, values, tensor.shape.row_len(), {}, blocks));
  return writer.write(blocks);
}

}  // namespace

Status reencode(const GgufFile& file, DType type, EncodeMethod method, const std::string& path) {
  GgufWriter writer;
  TAMIS_TRY_STATUS(writer.add_all(file, [](std::string_view key) { return !key.starts_with("split."); }));
  for (const GgufTensor& tensor : file.tensors())
    TAMIS_TRY_STATUS(writer.add_tensor(tensor.name, type_for(tensor, type), tensor.shape));
  TAMIS_TRY_STATUS(writer.begin(path, false));
  for (const GgufTensor& tensor : file.tensors())
    TAMIS_TRY_STATUS(write_tensor(file, tensor, type_for(tensor, type), method, writer));
  return writer.finish();
}

}  // namespace tamis
