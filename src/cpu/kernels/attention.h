// What an attention kernel is given: packed queries of one key/value head, the pages of at most one split of keys, and
// room for what it computes. Plain data only (see kernels.h).
//
// A column is one query head of one token. Every column visits the keys it sees in tiles of kTileKeys, tiles in splits
// of kSplitKeys, both aligned to absolute position: within a split by online softmax from nothing (Milakov & Gimelshein
// 2018, arXiv:1805.02867), then the splits one after another are merged into a total. So a column's bits depend on its
// own query, position and keys, not on which columns go together nor on who computes which split.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tamis::cpu {

constexpr uint32_t kTileKeys = 64;
constexpr uint32_t kSplitKeys = 256;
constexpr uint32_t kPageKeys = 32;     // KvCache::kPageTokens
constexpr uint32_t kMaxColumns = 192;  // of one call

// The element types of stored keys and values, in the order of KernelTable's tables.
enum KvFormat : uint32_t { kKvF32, kKvF16, kKvBf16, kKvQ80, kKvQ40, kKvFormats };

// One head's part of a page; layout in compute/kv_cache.h.
struct KvPage {
  const uint8_t *k, *k_scales, *v, *v_scales;
};

// Softmax state of some columns over some keys: exp is taken relative to `maximum`, `sums` are by lane (key mod 16).
struct AttentionPart {
  float* maximum;  // [n_columns]
  float* sums;     // [n_columns][16]
  float* acc;      // [n_columns][v_stride]: Σ exp(score − maximum) · value
};

struct AttentionTask {
  const float* q;  // as pack_queries leaves it
  uint32_t n_columns, k_dim, v_dim;
  uint32_t v_stride;               // v_dim rounded up to 16
  const uint32_t *first, *n_seen;  // [n_columns]: column c sees positions first[c] ≤ p < n_seen[c]
  float softcap;                   // score → cap · tanh(score / cap); 0: none

  uint32_t split, end;  // positions `split` (a multiple of kSplitKeys) ≤ p < `end` ≤ split + kSplitKeys
  KvPage pages[kSplitKeys / kPageKeys];
  KvFormat k_format, v_format;

  float *keys, *values;  // room for one tile: [4][k_dim][16], [v_stride/16][kTileKeys][16]
  float* scores;         // [n_columns][kTileKeys]
  AttentionPart part;    // result
};

// q[c] = scale · columns[c], laid out for the kernel. Room: (n_columns + 15) · k_dim floats.
struct PackQueriesTask {
  const float* const* columns;  // [n_columns] of [k_dim]
  uint32_t n_columns, k_dim;
  float scale;
  float* q;
};

}  // namespace tamis::cpu
