// What each plane layout (planes.h) holds, as the tiles read it: one policy a kind.
//
// Policies of blocks of 256 give
//   pair<kPair>(unit, a, b)  codes of quads 2·kPair and 2·kPair + 1 of a unit of 64 elements
//   kScaleGroup              elements a scale covers
//   kGroup                   elements whose products add up before they meet the scale: kScaleGroup, or less where
//                            sixteen bits would overflow
//   kOffset                  what is to be taken off every code; kNarrowStart: how much of it must come off before the
//                            products are added, so that the sums of a group fit 16 bits
//   kSigned                  codes are signed bytes
//   kHasNarrowSums           sums of a group fit 16 bits as they are: codes of at most 4 bits (see kMostMagnitude)
//   kIsCheap                 two instructions unpack 128 codes (see kUnpacksInRegisters)
//   kFactor                  what d is multiplied by; a power of two, hence exact

namespace tamis::cpu::TAMIS_TARGET {

struct SuperDefaults {
  static constexpr bool kIsCheap = false;
  static constexpr int kOffset = 0, kNarrowStart = 0;
  static constexpr bool kSigned = false, kSignedScale = false, kHasScale = true, kHasNarrowSums = false;
  static constexpr bool kHasMin = false;         // y = d · Σ − dmin · Σ mins
  static constexpr bool kHasIntegerMin = false;  // y = d · (8 Σ − Σ mins)
  static constexpr float kFactor = 1.0f;
};

struct Nibbles : SuperDefaults {
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* unit, Codes& a, Codes& b) {
    const Codes x = held(codes_load(unit + kPair * 64));
    a = codes_bits<0, 15, 0>(x);
    b = codes_bits<4, 15, 0>(x);
  }
};
struct TwoBits : SuperDefaults {
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* unit, Codes& a, Codes& b) {
    const Codes x = held(codes_load(unit + kPair / 2 * 64));
    a = codes_bits<kPair % 2 * 4, 3, 0>(x);
    b = codes_bits<kPair % 2 * 4 + 2, 3, 0>(x);
  }
};
struct ThreeBits : SuperDefaults {
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* unit, Codes& a, Codes& b) {
    const uint8_t* p = unit + kPair / 4 * 192;
    const Codes h = held(codes_load(p)), x = held(codes_load(p + 64 + kPair % 4 / 2 * 64));
    a = codes_or(codes_bits<kPair % 2 * 4, 3, 0>(x), codes_bits<kPair % 4 * 2, 1, 2>(h));
    b = codes_or(codes_bits<kPair % 2 * 4 + 2, 3, 0>(x), codes_bits<kPair % 4 * 2 + 1, 1, 2>(h));
  }
};

struct Q2K : TwoBits {
  static constexpr SuperLayout kLayout = kLayoutQ2K;
  static constexpr int kScaleGroup = 16, kGroup = 16;
  static constexpr bool kHasMin = true, kHasNarrowSums = true, kIsCheap = true;
  template <bool kOdd>
  static TAMIS_METHOD Scales scale(const uint8_t* p, int pair_idx) {
    return scales_load_nibbles<kOdd>(p + pair_idx * 32);
  }
  static TAMIS_METHOD ScalePairs scale_pairs(const uint8_t* p, int pair_idx) {
    return scale_pairs_load_nibbles(p + pair_idx * 32);
  }
  static TAMIS_METHOD I32 add_mins(I32 acc, const uint8_t* p, int pair_idx, const int16_t* sums) {
    return dot_high_nibbles(acc, p + pair_idx * 32, sums);
  }
};

// Scales in bytes, mins behind them.
template <class Source, bool kIsSigned>
struct ByteScales : Source {
  static constexpr bool kSignedScale = kIsSigned;
  template <bool kOdd>
  static TAMIS_METHOD Scales scale(const uint8_t* p, int pair_idx) {
    return scales_load<kIsSigned, kOdd>(p + pair_idx * 32);
  }
  static TAMIS_METHOD ScalePairs scale_pairs(const uint8_t* p, int pair_idx) {
    return scale_pairs_load<kIsSigned>(p + pair_idx * 32);
  }
};
template <class Source>
struct ByteMins : ByteScales<Source, false> {
  static TAMIS_METHOD I32 add_mins(I32 acc, const uint8_t* p, int pair_idx, const int16_t* sums) {
    return dot_pairs<false>(acc, p + 128 + pair_idx * 32, sums);
  }
};

struct Q3K : ByteScales<ThreeBits, true> {
  static constexpr SuperLayout kLayout = kLayoutQ3K;
  static constexpr int kScaleGroup = 16, kGroup = 16, kOffset = 4, kNarrowStart = 4;
  static constexpr bool kHasNarrowSums = true;
};

struct Q4K : ByteMins<Nibbles> {
  static constexpr SuperLayout kLayout = kLayoutQ4K;
  static constexpr int kScaleGroup = 32, kGroup = 32;
  static constexpr bool kHasMin = true, kHasNarrowSums = true, kIsCheap = true;
};

struct Q5K : ByteMins<SuperDefaults> {
  static constexpr SuperLayout kLayout = kLayoutQ5K;
  static constexpr int kScaleGroup = 32, kGroup = 32, kNarrowStart = 16;
  static constexpr bool kHasMin = true;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* unit, Codes& a, Codes& b) {
    const uint8_t* p = unit + kPair / 4 * 320;
    const Codes h = held(codes_load(p)), x = held(codes_load(p + 64 + kPair % 4 * 64));
    a = codes_or(codes_bits<0, 15, 0>(x), codes_bits<kPair % 4 * 2, 1, 4>(h));
    b = codes_or(codes_bits<4, 15, 0>(x), codes_bits<kPair % 4 * 2 + 1, 1, 4>(h));
  }
};

struct Q6K : ByteScales<SuperDefaults, true> {
  static constexpr SuperLayout kLayout = kLayoutQ6K;
  static constexpr int kScaleGroup = 16, kGroup = 16, kOffset = 32, kNarrowStart = 32;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* unit, Codes& a, Codes& b) {
    const uint8_t* p = unit + kPair / 2 * 192;
    const Codes h = held(codes_load(p)), x = held(codes_load(p + 64 + kPair % 2 * 64));
    a = codes_or(codes_bits<0, 15, 0>(x), codes_bits<kPair % 2 * 4, 3, 4>(h));
    b = codes_or(codes_bits<4, 15, 0>(x), codes_bits<kPair % 2 * 4 + 2, 3, 4>(h));
  }
};

// Codes that name one of up to sixteen values, kLow the first eight, lowest byte first. Signed values may use all of a
// byte; others stand for value − kOffset.
template <class Index, uint64_t kLow, uint64_t kHigh>
struct Lookup : Index {
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* unit, Codes& a, Codes& b) {
    Index::template pair<kPair>(unit, a, b);
    a = codes_lookup<kLow, kHigh>(a);
    b = codes_lookup<kLow, kHigh>(b);
  }
};
template <class Index, uint64_t kLow, uint64_t kHigh>
using SignedLookup = Lookup<Index, kLow ^ kSignedFlip, kHigh ^ kSignedFlip>;

// −127 −104 −83 −65 −49 −35 −22 −10 1 13 25 38 53 69 89 113
constexpr uint64_t kIQ4Low = 0xf6eaddcfbfad9881, kIQ4High = 0x7159453526190d01;

struct IQ4XS : ByteScales<SignedLookup<Nibbles, kIQ4Low, kIQ4High>, true> {
  static constexpr SuperLayout kLayout = kLayoutNibbles;
  static constexpr int kScaleGroup = 32, kGroup = 32;
  static constexpr bool kSigned = true;
};

// A weight is d · scale · (2c − 15): codes doubled.
struct IQ3S : ByteScales<SuperDefaults, false> {
  static constexpr SuperLayout kLayout = kLayoutNibbles;
  static constexpr int kScaleGroup = 32, kGroup = 32, kOffset = 15, kNarrowStart = 15;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* unit, Codes& a, Codes& b) {
    const Codes x = held(codes_load(unit + kPair * 64));
    a = codes_bits<0, 15, 1>(x);
    b = codes_bits<4, 15, 1>(x);
  }
};

// A nibble is three bits of magnitude {4, 12, 20, 28, 36, 44, 52, 62} and the sign; the values are their halves + 31.
struct IQ3XXS : ByteScales<Lookup<Nibbles, 0x3e3935312d292521, 0x0005090d1115191d>, false> {
  static constexpr SuperLayout kLayout = kLayoutNibbles;
  static constexpr int kScaleGroup = 32, kGroup = kWideSums ? 32 : 16, kOffset = 31, kNarrowStart = 31;
  static constexpr float kFactor = 0.5f;
};

// Three bits: magnitude 8, 25, 43, and the sign.
using IQ2Values = ByteScales<SignedLookup<ThreeBits, 0x00d5e7f8002b1908, 0>, false>;
struct IQ2XXS : IQ2Values {
  static constexpr SuperLayout kLayout = kLayoutIQ2XXS;
  static constexpr int kScaleGroup = 32, kGroup = 32;
  static constexpr bool kSigned = true;
  static constexpr float kFactor = 0.125f;
};
struct IQ2S : IQ2Values {
  static constexpr SuperLayout kLayout = kLayoutIQ2S;
  static constexpr int kScaleGroup = 16, kGroup = 16;
  static constexpr bool kSigned = true;
  static constexpr float kFactor = 0.125f;
};

// A weight is d / 8 · scale · (8 (c − 1) ± 1): c as it is, scale · (8 ∓ 1) as the min.
struct IQ1S : ByteMins<TwoBits> {
  static constexpr SuperLayout kLayout = kLayoutIQ1S;
  static constexpr int kScaleGroup = 32, kGroup = 32;
  static constexpr bool kHasIntegerMin = true;
  static constexpr float kFactor = 0.125f;
};

// The same with a sign for each 8 weights: c and that sign name 8 (c − 1) ± 1 + 9.
struct IQ1MIndex : SuperDefaults {
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* unit, Codes& a, Codes& b) {
    const Codes h = codes_bits<kPair, 1, 2>(held(codes_load(unit)));
    const Codes x = held(codes_load(unit + 64 + kPair / 2 * 64));
    a = codes_or(codes_bits<kPair % 2 * 4, 3, 0>(x), h);
    b = codes_or(codes_bits<kPair % 2 * 4 + 2, 3, 0>(x), h);
  }
};
struct IQ1M : ByteScales<Lookup<IQ1MIndex, 0x0010080000120a02, 0>, false> {
  static constexpr SuperLayout kLayout = kLayoutIQ1M;
  static constexpr int kScaleGroup = 16, kGroup = 16, kOffset = 9, kNarrowStart = 9;
  static constexpr float kFactor = 0.125f;
};

struct Ternary : TwoBits {
  static constexpr SuperLayout kLayout = kLayoutTernary;
  static constexpr int kScaleGroup = 32, kGroup = 32, kOffset = 1, kNarrowStart = 1;
  static constexpr bool kHasScale = false;
};

// Policies of blocks of 32: pair<kPair>(block, a, b), kPair = 0 … 3; scale<half>(block); kOffset comes off before the
// products are added, and is added back where kAddsOffset.
struct SmallDefaults {
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = false, kSigned = false, kAddsOffset = false;
  static constexpr bool kHasHalves = false;  // a scale for each 16
  template <int kHalf>
  static TAMIS_METHOD F32x16 scale(const uint8_t* p) {
    return f32_from_f16(p);
  }
};

// Q4_0: [d][n × 4]   Q4_1: [d][m][n × 4]   Q5_0: [d][n × 4][b]   Q5_1: [d][m][n × 4][b]
template <bool kHasMinT, bool kHasHighBit>
struct Legacy : SmallDefaults {
  static constexpr bool kHasMin = kHasMinT, kAddsOffset = kHasMinT && kHasHighBit && !kWideSums;
  static constexpr int kHeader = kHasMin ? 64 : 32, kBytes = kHeader + 256 + (kHasHighBit ? 64 : 0);
  static constexpr int kOffset = kHasMin ? (kAddsOffset ? 16 : 0) : kHasHighBit ? 16 : 8;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, Codes& a, Codes& b) {
    const Codes x = held(codes_load(p + kHeader + kPair * 64));
    a = codes_bits<0, 15, 0>(x);
    b = codes_bits<4, 15, 0>(x);
    if constexpr (kHasHighBit) {
      const Codes h = held(codes_load(p + kHeader + 256));
      a = codes_or(a, codes_bits<2 * kPair, 1, 4>(h));
      b = codes_or(b, codes_bits<2 * kPair + 1, 1, 4>(h));
    }
  }
};
using Q40 = Legacy<false, false>;
using Q41 = Legacy<true, false>;
using Q50 = Legacy<false, true>;
using Q51 = Legacy<true, true>;
static_assert(Q40::kBytes == kBytesQ40 && Q41::kBytes == kBytesQ41 && Q50::kBytes == kBytesQ50 &&
              Q51::kBytes == kBytesQ51);

// [d][quads 8 × 64]
struct Q80 : SmallDefaults {
  static constexpr bool kSigned = true;
  static constexpr int kBytes = kBytesQ80;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, Codes& a, Codes& b) {
    a = codes_signed(codes_load(p + 32 + kPair * 128));
    b = codes_signed(codes_load(p + 96 + kPair * 128));
  }
};

template <uint64_t kLow, uint64_t kHigh>
struct SmallLookup : SmallDefaults {
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, Codes& a, Codes& b) {
    const Codes x = held(codes_load(p + 32 + kPair * 64));
    a = codes_lookup<kLow, kHigh>(codes_bits<0, 15, 0>(x));
    b = codes_lookup<kLow, kHigh>(codes_bits<4, 15, 0>(x));
  }
};

struct IQ4NL : SmallLookup<kIQ4Low ^ kSignedFlip, kIQ4High ^ kSignedFlip> {
  static constexpr bool kSigned = true;
  static constexpr int kBytes = kBytesIQ4NL;
};

// Twice E2M1, + 12: {0, 1, 2, 3, 4, 6, 8, 12} and their negatives. [d 16 × bf16][n × 4]
struct MXFP4 : SmallLookup<0x181412100f0e0d0c, 0x00040608090a0b0c> {
  static constexpr int kBytes = kBytesMXFP4, kOffset = 12;
  template <int kHalf>
  static TAMIS_METHOD F32x16 scale(const uint8_t* p) {
    return f32_from_bf16(p);
  }
};

// [d 16 rows × 2 UE4M3][n × 4]
struct NVFP4 : SmallLookup<0x0c08060403020100 ^ kSignedFlip, 0xf4f8fafcfdfeff00 ^ kSignedFlip> {
  static constexpr bool kSigned = true, kHasHalves = true;
  static constexpr int kBytes = kBytesNVFP4;
  template <int kHalf>
  static TAMIS_METHOD F32x16 scale(const uint8_t* p) {
    return f32_from_ue4m3_half<kHalf != 0>(p);
  }
};

// [d][b]: bit 0 is −1, bit 1 is +1
struct Q10 : SmallDefaults {
  static constexpr int kBytes = kBytesQ10, kOffset = 1;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, Codes& a, Codes& b) {
    const Codes x = held(codes_load(p + 32));
    a = codes_bits<2 * kPair, 1, 1>(x);
    b = codes_bits<2 * kPair + 1, 1, 1>(x);
  }
};

// [d][t × 2]
struct Q20 : SmallDefaults {
  static constexpr int kBytes = kBytesQ20, kOffset = 1;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, Codes& a, Codes& b) {
    const Codes x = held(codes_load(p + 32 + kPair / 2 * 64));
    a = codes_bits<kPair % 2 * 4, 3, 0>(x);
    b = codes_bits<kPair % 2 * 4 + 2, 3, 0>(x);
  }
};

}  // namespace tamis::cpu::TAMIS_TARGET
