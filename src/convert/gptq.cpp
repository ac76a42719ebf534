// Shapes and groups are checked once; then a slab of rows is unpacked word by word.
#include "convert/gptq.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/float16.h"
#include "quants/q4_0.h"
#include "quants/q4_1.h"
#include "quants/q8_0.h"

namespace tamis {
namespace {

constexpr uint64_t kBlock = 32;
// The output that nibble i of an AWQ word belongs to.
constexpr std::array<uint32_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

uint32_t word_at(std::span<const std::byte> bytes, uint64_t i) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
  return word;
}

// Code `i` of a run packed lowest bits first, `stride` words apart; 3-bit codes may straddle two words.
uint32_t packed_code(std::span<const std::byte> bytes, uint64_t first_word, uint64_t stride, uint64_t i,
                     uint32_t bits) {
  const uint64_t bit = i * bits, word = bit / 32, shift = bit % 32;
  uint64_t pair = word_at(bytes, first_word + word * stride);
  if (shift + bits > 32) pair |= static_cast<uint64_t>(word_at(bytes, first_word + (word + 1) * stride)) << 32;
  return static_cast<uint32_t>(pair >> shift) & ((1u << bits) - 1);
}

struct Packed {
  HfQuantization how;
  uint64_t n_in = 0, n_out = 0, n_groups = 0;
  std::vector<uint32_t> group_of;  // [n_in]
  std::vector<float> scales;       // [n_groups, n_out]
  std::vector<uint16_t> zeros;     // [n_groups, n_out]
};

// Inputs sorted by their groups, and the longest run of them that never crosses a group's end.
struct GroupRuns {
  std::vector<uint32_t> order;  // empty: they lie in order
  uint32_t run_len = 0;         // 0: groups are no multiples of 32
};

GroupRuns runs_of(const Packed& packed) {
  GroupRuns out;
  std::vector<uint64_t> n_of_group(packed.n_groups);
  for (const uint32_t group : packed.group_of) ++n_of_group[group];
  for (const uint32_t len : {256u, 128u, 64u, 32u})
    if (std::ranges::all_of(n_of_group, [len](uint64_t n) { return n % len == 0; })) {
      out.run_len = len;
      break;
    }
  out.order.resize(packed.n_in);
  std::iota(out.order.begin(), out.order.end(), 0u);
  std::ranges::stable_sort(out.order, {}, [&](uint32_t input) { return packed.group_of[input]; });
  if (std::ranges::is_sorted(out.order)) out.order.clear();
  return out;
}

class PackedRows final : public RowSource, public AffineRows {
 public:
  PackedRows(const SafetensorsSet& set, const SafeTensor& codes, Packed packed)
      : RowSource(packed.n_out, packed.n_in), set_(set), codes_(codes), packed_(std::move(packed)) {
    choose_native_type();
    choose_affine();
  }

  Status read(uint64_t first, uint64_t n, std::span<float> out) const override {
    const std::vector<uint8_t> codes = codes_of(first, n);
    for (uint64_t r = 0; r < n; ++r) {
      for (uint64_t c = 0; c < packed_.n_in; ++c) {
        const uint64_t at = uint64_t{packed_.group_of[c]} * packed_.n_out + first + r;
        const int code = codes[r * packed_.n_in + c] - static_cast<int>(packed_.zeros[at]);
        out[r * packed_.n_in + c] = packed_.scales[at] * static_cast<float>(code);
      }
    }
    return {};
  }

  const AffineRows* affine(uint64_t) const override { return runs_.run_len == 0 ? nullptr : this; }
  bool is_packed() const override { return true; }
  std::span<const uint32_t> order() const override { return runs_.order; }

  // Codes from the middle of their range on: w = scale · (code − middle) + scale · (middle − zero).
  void read(uint64_t row, uint64_t group_idx, Group& out) const override {
    const auto bytes = set_.data(codes_);
    const uint64_t first = group_idx * runs_.run_len;
    const auto input = [&](uint64_t i) { return runs_.order.empty() ? first + i : runs_.order[first + i]; };
    for (uint64_t i = 0; i < runs_.run_len; ++i)
      out.codes[i] = static_cast<int8_t>(static_cast<int>(code_of(bytes, input(i), row)) - middle());
    const uint64_t at = uint64_t{packed_.group_of[input(0)]} * packed_.n_out + row;
    const int shift = middle() - static_cast<int>(packed_.zeros[at]);
    out.scale = packed_.scales[at];
    out.offset = shift == 0 ? -0.0f : packed_.scales[at] * static_cast<float>(shift);
  }

  std::optional<DType> native_type() const override { return native_; }
  bool is_native_exact() const override { return native_ != DType::q4_1; }

  Status write_native(uint64_t first, uint64_t n, std::span<std::byte> out) const override {
    const std::vector<uint8_t> codes = codes_of(first, n);
    const uint64_t block_bytes = dtype_info(*native_).block_bytes;
    std::byte* to = out.data();
    for (uint64_t r = 0; r < n; ++r)
      for (uint64_t c = 0; c < packed_.n_in; c += kBlock, to += block_bytes)
        write_block(codes.data() + r * packed_.n_in + c, uint64_t{packed_.group_of[c]} * packed_.n_out + first + r, to);
    return {};
  }

  DType float_type() const override { return DType::f16; }
  std::string describe() const override {
    return fmt::format("{} of {} bits, groups of {}", packed_.how.method == "awq" ? "AWQ" : "GPTQ", packed_.how.bits,
                       packed_.how.group_size == 0 ? packed_.n_in : packed_.how.group_size);
  }
  void give_back() const override { set_.give_back(codes_); }

 private:
  uint32_t code_of(std::span<const std::byte> bytes, uint64_t input, uint64_t out) const {
    return packed_.how.method == "awq" ? awq_code(bytes, input * (packed_.n_out / 8), out)
                                       : packed_code(bytes, out, packed_.n_out, input, packed_.how.bits);
  }
  int middle() const { return 1 << (packed_.how.bits - 1); }

  // [n, n_in], from a matrix stored input by input.
  std::vector<uint8_t> codes_of(uint64_t first, uint64_t n) const {
    std::vector<uint8_t> codes(n * packed_.n_in);
    const auto bytes = set_.data(codes_);
    for (uint64_t c = 0; c < packed_.n_in; ++c) {
      for (uint64_t r = 0; r < n; ++r) {
        const uint64_t out = first + r;
        codes[r * packed_.n_in + c] = static_cast<uint8_t>(code_of(bytes, c, out));
      }
    }
    return codes;
  }

 public:
  static uint32_t awq_code(std::span<const std::byte> bytes, uint64_t first_word, uint64_t out) {
    const auto nibble =
        static_cast<uint32_t>(std::find(kAwqOrder.begin(), kAwqOrder.end(), out % 8) - kAwqOrder.begin());
    return (word_at(bytes, first_word + out / 8) >> (4 * nibble)) & 15u;
  }

 private:
  // Every product is exact where scales have 11 bits (8 of the code, 9 of its offset); without offsets there is but one
  // rounding, read()'s own.
  void choose_affine() {
    const bool has_offset =
        std::ranges::any_of(packed_.zeros, [&](uint16_t zero) { return static_cast<int>(zero) != middle(); });
    const bool is_short = std::ranges::all_of(packed_.scales, [](float scale) {
      return f16_to_f32(f32_to_f16(scale)) == scale || bf16_to_f32(f32_to_bf16(scale)) == scale;
    });
    if (!is_short && has_offset) return;
    runs_ = runs_of(packed_);
    set_shape({packed_.n_out, packed_.n_in, runs_.run_len, packed_.how.bits == 8 ? 8u : 4u, has_offset});
  }

  void choose_native_type() {
    const uint32_t bits = packed_.how.bits;
    const uint16_t middle = static_cast<uint16_t>(1u << (bits - 1));
    if (packed_.n_in % kBlock != 0) return;
    for (uint64_t c = 0; c < packed_.n_in; ++c)
      if (packed_.group_of[c] != packed_.group_of[c / kBlock * kBlock]) return;
    for (const float scale : packed_.scales)
      if (f16_to_f32(f32_to_f16(scale)) != scale) return;
    const bool is_symmetric =
        std::all_of(packed_.zeros.begin(), packed_.zeros.end(), [&](uint16_t z) { return z == middle; });
    if (is_symmetric) native_ = bits == 8 ? DType::q8_0 : DType::q4_0;
    if (!is_symmetric && bits <= 4) native_ = DType::q4_1;
  }

  void write_block(const uint8_t* codes, uint64_t at, std::byte* to) const {
    const uint16_t scale = f32_to_f16(packed_.scales[at]);
    const int zero = packed_.zeros[at];
    if (*native_ == DType::q8_0) {
      std::memcpy(to, &scale, 2);
      for (uint64_t i = 0; i < kBlock; ++i) to[2 + i] = static_cast<std::byte>(static_cast<int8_t>(codes[i] - zero));
      return;
    }
    // Q4_0 means code − 8, Q4_1 code + minimum/scale; narrower codes move to the same distance from the middle.
    const bool has_min = *native_ == DType::q4_1;
    const uint16_t minimum = f32_to_f16(-packed_.scales[at] * static_cast<float>(zero));
    std::memcpy(to, &scale, 2);
    if (has_min) std::memcpy(to + 2, &minimum, 2);
    std::byte* const nibbles = to + (has_min ? 4 : 2);
    const int shift = has_min ? 0 : 8 - zero;
    for (uint64_t i = 0; i < kBlock / 2; ++i)
      nibbles[i] = static_cast<std::byte>((codes[i] + shift) | (codes[i + kBlock / 2] + shift) << 4);
  }

  const SafetensorsSet& set_;
  const SafeTensor& codes_;
  const Packed packed_;
  std::optional<DType> native_;
  GroupRuns runs_;
};

tl::unexpected<Error> bad_shape(const SafetensorsSet& set, const SafeTensor& tensor, std::string expected) {
  return set.error_at(tensor, fmt::format("{} {}", safe_type_name(tensor.type), tensor.shape_text()),
                      std::move(expected));
}

Status read_groups(const SafetensorsSet& set, const PackedTensors& tensors, Packed& packed) {
  packed.group_of.resize(packed.n_in);
  const uint64_t size = packed.how.group_size == 0 ? packed.n_in : packed.how.group_size;
  if (tensors.groups != nullptr) {
    const SafeTensor& groups = *tensors.groups;
    if (groups.type != SafeType::i32 || groups.n_elements() != packed.n_in)
      return bad_shape(set, groups, fmt::format("I32 [{}]", packed.n_in));
    for (uint64_t i = 0; i < packed.n_in; ++i) packed.group_of[i] = word_at(set.data(groups), i);
  } else {
    for (uint64_t i = 0; i < packed.n_in; ++i) packed.group_of[i] = static_cast<uint32_t>(i / size);
  }
  const uint32_t highest = *std::max_element(packed.group_of.begin(), packed.group_of.end());
  if (highest >= packed.n_groups)
    return set.error_at(tensors.groups != nullptr ? *tensors.groups : *tensors.scales, fmt::format("group {}", highest),
                        fmt::format("groups below {}", packed.n_groups));
  return {};
}

Status read_zeros(const SafetensorsSet& set, const SafeTensor& zeros, Packed& packed) {
  const uint64_t n_words = packed.n_out * packed.how.bits / 32;
  if (zeros.type != SafeType::i32 || zeros.shape != std::vector<uint64_t>{packed.n_groups, n_words})
    return bad_shape(set, zeros, fmt::format("I32 [{}, {}]", packed.n_groups, n_words));
  const auto bytes = set.data(zeros);
  packed.zeros.resize(packed.n_groups * packed.n_out);
  for (uint64_t g = 0; g < packed.n_groups; ++g) {
    for (uint64_t o = 0; o < packed.n_out; ++o) {
      const uint32_t code = packed.how.method == "awq" ? PackedRows::awq_code(bytes, g * n_words, o)
                                                       : packed_code(bytes, g * n_words, 1, o, packed.how.bits);
      packed.zeros[g * packed.n_out + o] = static_cast<uint16_t>(code + (packed.how.has_zero_offset ? 1 : 0));
    }
  }
  return {};
}

}  // namespace

bool check_packed_bits(const HfQuantization& quantization) {
  const uint32_t bits = quantization.bits;
  return quantization.method == "awq" ? bits == 4 : bits == 2 || bits == 3 || bits == 4 || bits == 8;
}

Result<Rows> packed_rows(const SafetensorsSet& set, const HfQuantization& quantization, const PackedTensors& tensors) {
  const SafeTensor& codes = *tensors.codes;
  if (!check_packed_bits(quantization))
    return set.error_at(codes, "packed codes", "a quantization_config of gptq or awq in config.json");
  if (tensors.scales == nullptr || tensors.zeros == nullptr)
    return set.error_at(codes, tensors.scales == nullptr ? "no scales" : "no qzeros", "qweight, qzeros and scales",
                        ErrorCode::not_found);
  Packed packed{quantization, 0, 0, 0, {}, {}, {}};
  const bool is_awq = quantization.method == "awq";
  const uint32_t bits = quantization.bits;
  const SafeTensor& scales = *tensors.scales;
  if (scales.shape.size() != 2 || !is_float_type(scales.type) || scales.n_elements() == 0)
    return bad_shape(set, scales, "floats [n_groups, n_out]");
  packed.n_groups = scales.shape[0];
  packed.n_out = scales.shape[1];
  if (codes.type != SafeType::i32 || codes.shape.size() != 2 || codes.n_elements() == 0 ||
      packed.n_out * bits % 32 != 0 || codes.shape[1] != (is_awq ? packed.n_out / 8 : packed.n_out) ||
      (!is_awq && codes.shape[0] * 32 % bits != 0))
    return bad_shape(set, codes, fmt::format("I32, {} outputs of {} bits", packed.n_out, bits));
  packed.n_in = is_awq ? codes.shape[0] : codes.shape[0] * 32 / bits;
  packed.scales.resize(scales.n_elements());
  TAMIS_TRY_STATUS(decode_safe_values(scales.type, set.data(scales), packed.scales));
  TAMIS_TRY_STATUS(read_groups(set, tensors, packed));
  TAMIS_TRY_STATUS(read_zeros(set, *tensors.zeros, packed));
  return Rows(std::make_unique<PackedRows>(set, codes, std::move(packed)));
}

}  // namespace tamis
