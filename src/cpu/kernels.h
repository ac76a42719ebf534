// The table of inner loops that one CPU target exports; chosen once at start (dispatch.h). Plain data only: target
// files are compiled with other instruction sets than the rest of the program and may share no inline code with it.
//
// Every target gives the same bits: sums run in 16 lanes whatever the width of the machine's vectors, lanes are added
// in one fixed tree; where one target fuses a multiply-add all do, and nowhere else is one fused.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cpu/kernels/affine.h"
#include "cpu/kernels/attention.h"
#include "cpu/kernels/floats.h"
#include "cpu/kernels/planes.h"

namespace tamis::cpu {

constexpr size_t kLanes = 16;
// A dot product is the sum, in order, of the dot products of chunks of this many elements (a whole number of blocks of
// any type).
constexpr size_t kChunk = 1024;

struct DecodeKernel {
  uint32_t dtype;  // DType's number
  void (*decode)(const uint8_t* blocks, float* out, size_t n_blocks);
};

struct KernelTable {
  const char* name;
  float (*dot)(const float* a, const float* b, size_t n);

  // Attention of some columns (kernels/attention.h): queries laid out; one split of keys into task.part; task.part into
  // the total of the splits before it; the total into rows out[c] [v_dim].
  void (*pack_queries)(const PackQueriesTask& task);
  void (*attend)(const AttentionTask& task);
  void (*merge_attention)(const AttentionTask& task, const AttentionPart& total);
  void (*finish_attention)(const AttentionTask& task, const AttentionPart& total, float* const* out);
  // Rotates n_pairs pairs of one head, cosine and sine by pair: x[i] with x[i + n_pairs], or x[2i] with x[2i + 1].
  void (*rotate_halves)(float* x, const float* cosines, const float* sines, size_t n_pairs);
  void (*rotate_pairs)(float* x, const float* cosines, const float* sines, size_t n_pairs);

  // x = silu(x) · factor, or gelu (tanh form); factor null: 1.
  void (*silu)(float* x, const float* factor, size_t n);
  void (*gelu_tanh)(float* x, const float* factor, size_t n);

  // Decoders compiled for this target; types not listed are decoded by the registry's own (the same bits).
  const DecodeKernel* decoders;
  size_t n_decoders;

  // Planes (kernels/planes.h). Integer sums are exact: the same bits on every target.
  void (*pack_columns)(const PackTask& task, size_t first_block, size_t n_blocks);
  void (*multiply_panel[kPlaneKinds])(const PlanesTask& task);
  // Other forms: group-affine (kernels/affine.h), on the same columns, and plain numbers (kernels/floats.h).
  void (*multiply_affine)(const AffineTask& task);
  void (*multiply_floats)(const FloatsTask& task);

  // Roofs for comparison (kernels/speed.inl).
  uint64_t (*read_loop)(const uint64_t* words, size_t n_words);
  uint64_t (*int8_loop)(const uint8_t* codes, const int8_t* quads, uint64_t n_rounds);
};

}  // namespace tamis::cpu
