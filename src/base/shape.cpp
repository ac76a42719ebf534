// Shape: construction, element count, printing.
#include "base/shape.h"

#include "base/result.h"

namespace tamis {

Shape::Shape(std::initializer_list<uint64_t> list) {
  TAMIS_CHECK(list.size() <= kMaxDims);
  for (uint64_t extent : list) extents[n_dims++] = extent;
}

uint64_t Shape::n_elements() const {
  uint64_t product = 1;
  for (uint32_t i = 0; i < n_dims; ++i) product *= extents[i];
  return product;
}

uint64_t Shape::n_matrices() const {
  uint64_t n = 1;
  for (uint32_t i = 0; i + 2 < n_dims; ++i) n *= extents[i];
  return n;
}

std::string Shape::to_string() const {
  std::string out = "[";
  for (uint32_t i = 0; i < n_dims; ++i) out += fmt::format("{}{}", i == 0 ? "" : ", ", extents[i]);
  return out + "]";
}

}  // namespace tamis
