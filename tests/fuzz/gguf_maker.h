// Turns fuzz input into a GGUF file: first a valid one, drawn field by field from the input's bytes, then if asked up
// to four fields overwritten with numbers that have hurt readers before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "tests/fuzz/gguf_properties.h"

namespace tamis::fuzzing {

class Draw {
 public:
  Draw(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  uint32_t below(uint32_t n) { return n <= 256 ? byte() % n : (byte() | uint32_t{byte()} << 8) % n; }
  uint64_t number() {
    uint64_t out = 0;
    for (int i = 0; i < 8; ++i) out = out << 8 | byte();
    return out;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

class GgufMaker {
 public:
  explicit GgufMaker(Draw& draw) : draw_(draw) {}

  // A valid file of up to 7 keys and 7 tensors.
  const std::string& make() {
    bytes_.reserve(2048);
    fields_.reserve(256);
    bytes_ += "GGUF";
    field(4, 2 + draw_.below(2));
    const uint32_t n_tensors = draw_.below(8), n_kv = draw_.below(8);
    field(8, n_tensors);
    alignment_ = 0;
    field(8, n_kv);
    for (uint32_t i = 0; i < n_kv; ++i) add_kv(i);
    if (alignment_ == 0) alignment_ = 32;
    std::string data;
    for (uint32_t i = 0; i < n_tensors; ++i) add_tensor(i, data);
    if (n_tensors > 0) bytes_.resize((bytes_.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    bytes_ += data;
    return bytes_;
  }

  // 1 to 4 edits: a field set to a number, a field of another length, bytes cut off or added.
  const std::string& edit() {
    const uint32_t n = 1 + draw_.below(4);
    for (uint32_t i = 0; i < n && !fields_.empty(); ++i) {
      const Field field = fields_[draw_.below(static_cast<uint32_t>(fields_.size()))];
      if (field.at + field.width > bytes_.size()) continue;
      const uint32_t how = draw_.below(16);
      if (how == 0) {
        bytes_.resize(draw_.below(static_cast<uint32_t>(bytes_.size()) + 1));
      } else if (how == 1) {
        bytes_.insert(field.at, draw_.below(40), static_cast<char>(draw_.byte()));
      } else {
        const uint64_t value = how < 10   ? kNumbers[draw_.below(std::size(kNumbers))]
                               : how < 14 ? draw_.byte()
                                          : draw_.number();
        for (uint32_t b = 0; b < field.width; ++b) bytes_[field.at + b] = static_cast<char>(value >> 8 * b);
      }
    }
    return bytes_;
  }

 private:
  struct Field {
    uint32_t at, width;
  };
  static constexpr uint64_t kNumbers[] = {0,
                                          1,
                                          2,
                                          3,
                                          5,
                                          9,
                                          31,
                                          33,
                                          255,
                                          65535,
                                          65536,
                                          0x7fffffff,
                                          0x80000000u,
                                          0xffffffffu,
                                          uint64_t{1} << 32,
                                          uint64_t{1} << 40,
                                          uint64_t{1} << 59,
                                          uint64_t{1} << 60,
                                          uint64_t{1} << 61,
                                          uint64_t{1} << 62,
                                          (uint64_t{1} << 63) - 1,
                                          uint64_t{1} << 63,
                                          ~uint64_t{0},
                                          ~uint64_t{0} - 31,
                                          ~uint64_t{0} / 18 + 1,
                                          ~uint64_t{0} / 34 + 1,
                                          ~uint64_t{0} / 4 + 1};

  void field(uint32_t width, uint64_t value) {
    fields_.push_back({static_cast<uint32_t>(bytes_.size()), width});
    bytes_.append(reinterpret_cast<const char*>(&value), width);  // little-endian, as every target is
  }
  void text(std::string_view content) {
    field(8, content.size());
    fields_.push_back({static_cast<uint32_t>(bytes_.size()), content.empty() ? 0u : 1u});
    bytes_ += content;
  }
  void repeated(uint32_t n, char c) {
    field(8, n);
    fields_.push_back({static_cast<uint32_t>(bytes_.size()), n == 0 ? 0u : 1u});
    bytes_.append(n, c);
  }

  void add_kv(uint32_t i) {
    const uint32_t kind = draw_.below(16);
    if (kind == 13 && alignment_ == 0) {
      alignment_ = uint32_t{8} << draw_.below(5);
      text("general.alignment");
      field(4, 4);
      field(4, alignment_);
      return;
    }
    repeated(1 + draw_.below(4), static_cast<char>('a' + i));
    const uint32_t type = kind > 12 ? 9 : kind;
    field(4, type);
    add_value(type, 0);
  }

  void add_value(uint32_t type, int depth) {
    if (type == 8) return repeated(draw_.below(20), 'x');
    if (type != 9)
      return field(gguf_type_bytes(static_cast<GgufType>(type)), type == 7 ? draw_.below(2) : draw_.number());
    const uint32_t wanted = draw_.below(20);
    const uint32_t element = wanted > 12 ? 9 : wanted;
    const uint32_t elements = element == 9 && depth == 3 ? 4 : element;  // three levels below the first
    const uint32_t n = draw_.below(4);
    field(4, elements);
    field(8, n);
    for (uint32_t i = 0; i < n; ++i) add_value(elements, depth + 1);
  }

  void add_tensor(uint32_t i, std::string& data) {
    static constexpr uint32_t kTypes[] = {0, 1, 2, 8, 24, 28, 12, 39, 41};
    const DTypeInfo& info = *dtype_info(kTypes[draw_.below(std::size(kTypes))]);
    const uint32_t n_dims = 1 + draw_.below(4);
    repeated(1 + draw_.below(3), static_cast<char>('a' + i));
    field(4, n_dims);
    uint64_t n_blocks = 1 + draw_.below(2);
    field(8, n_blocks * info.block_len);
    for (uint32_t d = 1; d < n_dims; ++d) {
      const uint32_t extent = d < 3 ? 1 + draw_.below(2) : 1;
      field(8, extent);
      n_blocks *= extent;
    }
    field(4, static_cast<uint32_t>(info.dtype));
    field(8, data.size());
    data.append(n_blocks * info.block_bytes, static_cast<char>(draw_.byte()));
    data.resize((data.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
  }

  Draw& draw_;
  std::string bytes_;
  std::vector<Field> fields_;
  uint32_t alignment_ = 0;
};

}  // namespace tamis::fuzzing
