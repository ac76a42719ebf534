// The group-affine form: every weight is scale · (code − zero) + offset with a float32 scale and offset for a run of
// elements of one row (a group). One form and one kernel for all types that are affine, whatever their own blocks look
// like. POD and constants only: included by target files.
//
// A panel is 16 rows; its groups follow each other along K:
//   float  scale [16]   float  offset [16]   codes
// Codes lie in vectors of 64 bytes, 16 rows × 4, as in planes.h:
//   nibbles  vector i: byte 4·row + j holds k = 8i + j (low half) and k = 8i + 4 + j (high half), 0 … 15
//   bytes    vector i: byte 4·row + j holds k = 4i + j, two's complement, `zero` already taken off
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cpu/kernels/planes.h"

namespace tamis::cpu {

struct AffineFormat {
  uint32_t block_len;  // elements a scale of the activations covers: 32 or 256
  uint32_t group_len;  // 16, 32, 64, 128 or 256
  uint32_t code_bits;  // 4 or 8
  int32_t zero;        // of nibbles
  bool has_offset;     // false: all offsets are −0, adding them would change nothing
};

constexpr size_t kAffineHeader = 2 * kPanelRows * sizeof(float);
constexpr size_t affine_group_bytes(const AffineFormat& format) {
  return kAffineHeader + kPanelRows * format.group_len * format.code_bits / 8;
}

struct AffineTask {
  AffineFormat format;
  const uint8_t* groups;  // of one panel, from the first block's on: a step along K begins with a group
  const int8_t* acts;     // packed columns, planes.h
  size_t n_columns;
  size_t n_blocks;  // of block_len
  uint8_t* panel;   // scratch, kPanelBytes, 64-byte aligned
  float* acc;       // [n_columns][16], out
  bool is_added;    // to what acc holds
};

}  // namespace tamis::cpu
