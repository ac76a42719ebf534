// The pages of a KV cache: where each element lies, and rows in and out of it. Pages are taken as a sequence grows;
// those that nobody else holds never move.
#include "compute/kv_cache.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/checked.h"
#include "quants/registry.h"

namespace tamis {
namespace {

constexpr size_t kScaleBytes = 2;  // f16, at the head of every block type's block
constexpr std::array kTypes = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0};

// How a type's blocks fall apart into a scale and units that are interleaved: whole elements, or the bytes of a block.
struct Units {
  Units(DType dtype, size_t dim)
      : info(dtype_info(dtype)),
        has_scale(info.block_len > 1),
        unit_bytes(has_scale ? 1 : info.block_bytes),
        n_in_block(has_scale ? info.block_bytes - kScaleBytes : 1),
        n_blocks(dim / info.block_len) {}

  size_t n_units() const { return n_blocks * n_in_block; }

  const DTypeInfo& info;
  bool has_scale;
  size_t unit_bytes, n_in_block, n_blocks;
};

// One head's row of one token inside a page.
template <class Byte>
struct Row {
  Byte* units;
  size_t unit_stride;
  Byte* scales;
  size_t scale_stride;
};

template <class Byte>
Row<Byte> key_row(const Units& units, Byte* codes, Byte* scales, size_t token) {
  constexpr size_t kLanes = KvCache::kLaneTokens;
  const size_t group = token / kLanes, lane = token % kLanes;
  return {codes + (group * units.n_units() * kLanes + lane) * units.unit_bytes, kLanes * units.unit_bytes,
          scales + (group * units.n_blocks * kLanes + lane) * kScaleBytes, kLanes * kScaleBytes};
}

template <class Byte>
Row<Byte> value_row(const Units& units, Byte* codes, Byte* scales, size_t token) {
  return {codes + token * units.n_units() * units.unit_bytes, units.unit_bytes,
          scales + token * units.n_blocks * kScaleBytes, kScaleBytes};
}

// Units one after another at `packed`, and apart in a row.
template <size_t kUnitBytes, class From, class To>
void copy_units(From* from, size_t from_stride, To* to, size_t to_stride, size_t n) {
  for (size_t i = 0; i < n; ++i, from += from_stride, to += to_stride) std::memcpy(to, from, kUnitBytes);
}
template <class From, class To>
void copy_units(size_t unit_bytes, From* from, size_t from_stride, To* to, size_t to_stride, size_t n) {
  auto* const copy = unit_bytes == 1   ? copy_units<1, From, To>
                     : unit_bytes == 2 ? copy_units<2, From, To>
                                       : copy_units<4, From, To>;
  copy(from, from_stride, to, to_stride, n);
}

constexpr size_t kBytesTogether = 1088;  // whole blocks of any of the types

size_t blocks_together(const Units& units) { return kBytesTogether / units.info.block_bytes; }

void write_row(const Units& units, const float* values, Row<std::byte> row) {
  std::byte blocks[kBytesTogether];
  for (size_t first = 0; first < units.n_blocks; first += blocks_together(units)) {
    const size_t n = std::min(blocks_together(units), units.n_blocks - first);
    quant_type(units.info.dtype).encode_plain(values + first * units.info.block_len, blocks, n);
    const std::byte* from = blocks;
    if (!units.has_scale) {
      copy_units(units.unit_bytes, from, units.unit_bytes, row.units, row.unit_stride, n);
      row.units += n * row.unit_stride;
      continue;
    }
    for (size_t b = 0; b < n; ++b, from += units.info.block_bytes) {
      std::memcpy(row.scales + (first + b) * row.scale_stride, from, kScaleBytes);
      copy_units(1, from + kScaleBytes, 1, row.units, row.unit_stride, units.n_in_block);
      row.units += units.n_in_block * row.unit_stride;
    }
  }
}

void read_row(const Units& units, Row<const std::byte> row, float* out) {
  std::byte blocks[kBytesTogether];
  for (size_t first = 0; first < units.n_blocks; first += blocks_together(units)) {
    const size_t n = std::min(blocks_together(units), units.n_blocks - first);
    std::byte* to = blocks;
    if (!units.has_scale) {
      copy_units(units.unit_bytes, row.units, row.unit_stride, to, units.unit_bytes, n);
      row.units += n * row.unit_stride;
    }
    for (size_t b = 0; units.has_scale && b < n; ++b, to += units.info.block_bytes) {
      std::memcpy(to, row.scales + (first + b) * row.scale_stride, kScaleBytes);
      copy_units(1, row.units, row.unit_stride, to + kScaleBytes, 1, units.n_in_block);
      row.units += units.n_in_block * row.unit_stride;
    }
    quant_type(units.info.dtype).decode(blocks, out + first * units.info.block_len, n);
  }
}

}  // namespace

Result<KvTypes> kv_types_from_names(std::string_view k, std::string_view v) {
  KvTypes types;
  for (const auto& [name, type] : {std::pair{k, &types.k}, std::pair{v, &types.v}}) {
    const auto dtype = dtype_from_name(name);
    if (!dtype || std::ranges::find(kTypes, *dtype) == kTypes.end())
      return fail(ErrorCode::invalid_argument, "cache type: got \"{}\", expected f32, f16, bf16, q8_0 or q4_0",
                  escape_for_display(name));
    *type = *dtype;
  }
  return types;
}

Status check_kv_types(const KvTypes& types, const KvLayerShape& shape) {
  for (const auto& [what, dtype, dim] : {std::tuple{"keys", types.k, shape.k_dim}, {"values", types.v, shape.v_dim}}) {
    const DTypeInfo& info = dtype_info(dtype);
    if (dim % info.block_len != 0)
      return fail(ErrorCode::invalid_argument,
                  "cache type {}: this model's {} have {} elements a head, not whole blocks of {}", info.name, what,
                  dim, info.block_len);
  }
  return {};
}

std::optional<uint64_t> kv_token_bytes(const KvTypes& types, const KvLayerShape& shape) {
  const auto k = dtype_bytes(types.k, shape.k_dim), v = dtype_bytes(types.v, shape.v_dim);
  const auto head = k && v ? checked_add(*k, *v) : std::nullopt;
  return head ? checked_mul(*head, shape.n_head_kv) : std::nullopt;
}

KvCache::KvCache(std::vector<KvLayerShape> layers, const KvTypes& types, std::shared_ptr<KvPagePool> pool)
    : layers_(std::move(layers)), types_(types), pool_(std::move(pool)) {
  std::optional<uint64_t> end = 0;
  for (const KvLayerShape& layer : layers_) {
    const Units k(types.k, layer.k_dim), v(types.v, layer.v_dim);
    const size_t k_codes = kPageTokens * k.n_units() * k.unit_bytes, v_codes = kPageTokens * v.n_units() * v.unit_bytes;
    const size_t k_scales = k.has_scale ? kPageTokens * k.n_blocks * kScaleBytes : 0;
    const size_t v_scales = v.has_scale ? kPageTokens * v.n_blocks * kScaleBytes : 0;
    const size_t head_bytes = k_codes + k_scales + v_codes + v_scales;
    places_.push_back({.offset = end.value_or(0),
                       .head_bytes = head_bytes,
                       .k_scales = k_codes,
                       .v = k_codes + k_scales,
                       .v_scales = k_codes + k_scales + v_codes});
    const auto size = checked_mul(head_bytes, layer.n_head_kv);
    end = end && size ? checked_add(*end, *size) : std::nullopt;
  }
  page_bytes_ = end;
}

Result<KvPage> KvCache::take_page() const {
  if (pool_ != nullptr) return pool_->take();
  if (!page_bytes_) return fail(ErrorCode::out_of_memory, "a page of keys and values takes more than 2^64 bytes");
  return allocate_kv_page(*page_bytes_);
}

size_t KvCache::n_pages_to_take(uint32_t n) const {
  const size_t n_pages = pages_of(n);
  size_t n_taken = n_pages - std::min(n_pages, pages_.size());
  for (size_t i = n_tokens_ / kPageTokens; i < std::min(n_pages, pages_.size()); ++i)
    n_taken += pages_[i].use_count() > 1 ? 1 : 0;
  return n_taken;
}

Status KvCache::reserve(uint32_t n) {
  const size_t n_pages = pages_of(n), first_written = n_tokens_ / kPageTokens;
  for (size_t i = first_written; i < std::min(n_pages, pages_.size()); ++i) {
    if (pages_[i].use_count() == 1) continue;
    TAMIS_TRY(KvPage own, take_page());
    if (i == first_written && n_tokens_ % kPageTokens != 0) std::memcpy(own.get(), pages_[i].get(), *page_bytes_);
    pages_[i] = std::move(own);
  }
  while (pages_.size() < n_pages) {
    TAMIS_TRY(KvPage page, take_page());
    try {
      pages_.push_back(std::move(page));
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::out_of_memory, "no memory for the keys and values of {} positions", n);
    }
  }
  return {};
}

void KvCache::put_page(size_t page_idx, KvPage page) {
  if (page_idx < pages_.size()) {
    pages_[page_idx] = std::move(page);
  } else {
    pages_.push_back(std::move(page));
  }
}

void KvCache::clear() {
  pages_.clear();
  n_tokens_ = 0;
}

void KvCache::store(uint32_t layer_idx, uint32_t position, const float* k, const float* v) {
  const KvLayerShape& shape = layers_[layer_idx];
  const LayerPlace& place = places_[layer_idx];
  const Units k_units(types_.k, shape.k_dim), v_units(types_.v, shape.v_dim);
  const size_t token = position % kPageTokens;
  for (uint32_t head = 0; head < shape.n_head_kv; ++head) {
    std::byte* const piece = head_place(layer_idx, position, head);
    write_row(k_units, k + size_t{head} * shape.k_dim, key_row(k_units, piece, piece + place.k_scales, token));
    write_row(v_units, v + size_t{head} * shape.v_dim,
              value_row(v_units, piece + place.v, piece + place.v_scales, token));
  }
}

void KvCache::read_key(uint32_t layer_idx, uint32_t position, uint32_t head_kv, float* out) const {
  const Units units(types_.k, layers_[layer_idx].k_dim);
  const std::byte* const piece = head_place(layer_idx, position, head_kv);
  read_row(units, key_row(units, piece, piece + places_[layer_idx].k_scales, position % kPageTokens), out);
}

void KvCache::read_value(uint32_t layer_idx, uint32_t position, uint32_t head_kv, float* out) const {
  const Units units(types_.v, layers_[layer_idx].v_dim);
  const LayerPlace& place = places_[layer_idx];
  const std::byte* const piece = head_place(layer_idx, position, head_kv);
  read_row(units, value_row(units, piece + place.v, piece + place.v_scales, position % kPageTokens), out);
}

KvHeadPage KvCache::head_page(uint32_t layer_idx, uint32_t position, uint32_t head_kv) const {
  const LayerPlace& place = places_[layer_idx];
  const std::byte* const piece = head_place(layer_idx, position, head_kv);
  return {piece, piece + place.k_scales, piece + place.v, piece + place.v_scales};
}

}  // namespace tamis
