// A matrix of integer codes with a scale and an offset for every group of inputs, as GPTQ and AWQ checkpoints hold it
// and no GGUF type can: any zero point, groups of inputs that lie scattered. What a backend takes over without loss.
#pragma once

#include <cstdint>
#include <span>

namespace tamis {

struct AffineShape {
  uint64_t n_out = 0, n_in = 0;
  uint32_t group_len = 0;   // 32, 64, 128 or 256; divides n_in
  uint32_t code_bits = 0;   // 4: codes of −8 … 7; 8: of −128 … 127
  bool has_offset = false;  // false: every offset is −0
};

class AffineRows {
 public:
  // One row's group: weight i of it is scale · codes[i] + offset, and every step of that is exact in float32.
  struct Group {
    int8_t codes[256];  // [group_len]
    float scale = 0, offset = -0.0f;
  };

  virtual ~AffineRows() = default;
  const AffineShape& shape() const { return shape_; }
  // Weight k of a row, counted through its groups, multiplies input order()[k]; empty: input k.
  virtual std::span<const uint32_t> order() const = 0;
  // Called from several threads at once. Requires: in range.
  virtual void read(uint64_t row, uint64_t group_idx, Group& out) const = 0;
  // The memory of what was read may leave this process.
  virtual void give_back() const = 0;

 protected:
  AffineRows() = default;
  void set_shape(const AffineShape& shape) { shape_ = shape; }

 private:
  AffineShape shape_;
};

// Row `row` as floats, inputs in their own order, out [n_in].
inline void decode_affine_row(const AffineRows& rows, uint64_t row, std::span<float> out) {
  const AffineShape& shape = rows.shape();
  const std::span<const uint32_t> order = rows.order();
  AffineRows::Group group;
  for (uint64_t first = 0; first < shape.n_in; first += shape.group_len) {
    rows.read(row, first / shape.group_len, group);
    for (uint32_t i = 0; i < shape.group_len; ++i)
      out[order.empty() ? first + i : order[first + i]] =
          group.scale * static_cast<float>(group.codes[i]) + group.offset;
  }
}

}  // namespace tamis
