// For targets whose sums of a group meet their scales one by one.
#pragma once

namespace tamis::cpu::TAMIS_TARGET {

constexpr bool kPairsGroups = false;
struct ScalePairs {};
template <bool kSigned>
TAMIS_INLINE ScalePairs scale_pairs_load(const uint8_t*) {  // never called, like the others
  return {};
}
TAMIS_INLINE ScalePairs scale_pairs_load_nibbles(const uint8_t*) { return {}; }
TAMIS_INLINE ScalePairs scale_pairs_shifted(ScalePairs s, const int8_t*) { return s; }
TAMIS_INLINE I32 add_scaled_pair(I32 acc, GroupAcc, GroupAcc, ScalePairs) { return acc; }

}  // namespace tamis::cpu::TAMIS_TARGET
