// fuzz: rooms=formats,base
// Any bytes as a safetensors file: an error, or tensors whose ranges tile the data exactly.
#include <algorithm>
#include <cstdlib>
#include <span>

#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tamis::MemorySource source(std::as_bytes(std::span(data, size)));
  const auto tensors = tamis::read_safetensors_header(source, "fuzz");
  if (!tensors) return 0;
  uint64_t sum = 0, first = size;
  for (const tamis::SafeTensor& tensor : *tensors) {
    if (tensor.offset > size || tensor.size_bytes > size - tensor.offset) std::abort();
    uint64_t n_bytes = tamis::safe_type_bytes(tensor.type);
    for (const uint64_t extent : tensor.shape) n_bytes *= extent;
    if (n_bytes != tensor.size_bytes) std::abort();
    sum += tensor.size_bytes;
    first = std::min(first, tensor.offset);
  }
  if (!tensors->empty() && first + sum != size) std::abort();
  return 0;
}
