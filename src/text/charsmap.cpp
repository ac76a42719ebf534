// Walks the double-array trie with every unit index and text offset checked.
#include "text/charsmap.h"

#include <cstring>

#include "base/fault.h"

namespace tamis {
namespace {

// Fields of a darts-clone unit.
bool has_leaf(uint32_t unit) { return (unit >> 8) & 1u; }
uint32_t value(uint32_t unit) { return unit & 0x7fffffffu; }
uint32_t label(uint32_t unit) { return unit & 0x800000ffu; }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob) {
  Charsmap map;
  if (blob.empty()) return map;
  if (blob.size() < 4) return fail(ErrorCode::format, "{} bytes, fewer than its size field", blob.size());
  uint32_t trie_bytes;
  std::memcpy(&trie_bytes, blob.data(), 4);
  const std::string_view rest = blob.substr(4);
  if (TAMIS_CHECKED(10, trie_bytes >= rest.size() || trie_bytes % 4 != 0))
    return fail(ErrorCode::format, "a trie of {} bytes in {} bytes", trie_bytes, rest.size());
  map.units_ = std::string_view(rest.data(), trie_bytes);
  map.texts_ = rest.size() > trie_bytes ? rest.substr(trie_bytes) : std::string_view();
  return map;
}

uint32_t Charsmap::unit(size_t i) const {
  uint32_t bits;
  std::memcpy(&bits, units_.data() + i * 4, 4);
  return bits;
}

Charsmap::Prefix Charsmap::longest(std::string_view text, size_t at) const {
  Prefix best;
  const size_t n_units = units_.size() / 4;
  if (n_units == 0) return best;
  size_t node = offset(unit(0));
  for (size_t i = at; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (TAMIS_CHECKED(11, byte == 0 || node >= n_units)) break;
    const uint32_t current = unit(node);
    if (label(current) != byte) break;
    node ^= offset(current);
    if (!has_leaf(current)) continue;
    if (node >= n_units) break;
    const size_t text_offset = value(unit(node));
    const size_t text_end = text_offset < texts_.size() ? texts_.find('\0', text_offset) : std::string_view::npos;
    if (text_end == std::string_view::npos) continue;  // points nowhere: no rule
    best = {texts_.substr(text_offset, text_end - text_offset), i - at + 1};
  }
  return best;
}

}  // namespace tamis
