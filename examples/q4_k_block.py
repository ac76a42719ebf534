#!/usr/bin/env python3
"""Encodes 256 weights of a Q8_0 tensor as one Q4_K block by the textbook encoder and prints every step.

usage: examples/q4_k_block.py FILE.gguf TENSOR        The steps are explained in docs/q4_k.md.
"""
import json
import pathlib
import struct
import subprocess
import sys

path, tensor = sys.argv[1:3]
header = pathlib.Path(__file__).with_name("gguf_header.py")
listed = json.loads(subprocess.check_output([sys.executable, header, path]))["tensors"]
found = next(t for t in listed if t["name"] == tensor)
assert found["type"] == "Q8_0", f"{tensor} is {found['type']}, this example reads Q8_0"
with open(path, "rb") as f:
    f.seek(found["offset"])
    blocks = [struct.unpack("<e32b", f.read(34)) for _ in range(8)]
weights = [d * q for d, *codes in blocks for q in codes]


def f16(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def nearest(x, top):
    """The nearest of 0 … top."""
    return int(min(max(x, 0), top) + 0.5)


# 1. Each group of 32: the range from min(0, least) to the greatest weight, in 15 steps.
groups = [weights[32 * g:32 * g + 32] for g in range(8)]
offsets = [max(0.0, -min(group)) for group in groups]
steps = [max(0.0, max(group) + offset) / 15 for group, offset in zip(groups, offsets)]
# 2. The block: two f16 numbers, so that the largest step and the largest offset become 63.
d, dmin = f16(max(steps) / 63), f16(max(offsets) / 63)
# 3. Steps and offsets in 6 bits each.
sc = [nearest(step / d, 63) if d else 0 for step in steps]
m = [nearest(offset / dmin, 63) if dmin else 0 for offset in offsets]
# 4. Sixteen 6-bit numbers in 12 bytes.
packed = bytes([sc[g] | sc[g + 4] >> 4 << 6 for g in range(4)] + [m[g] | m[g + 4] >> 4 << 6 for g in range(4)]
               + [sc[g] & 15 | (m[g] & 15) << 4 for g in range(4, 8)])
# 5. Codes, by the step and the offset as the decoder will see them.
codes = [[nearest((w + dmin * m[g]) / (d * sc[g]), 15) if d * sc[g] else 0 for w in groups[g]] for g in range(8)]
qs = bytes(codes[2 * c][j] | codes[2 * c + 1][j] << 4 for c in range(4) for j in range(32))
block = struct.pack("<2e", d, dmin) + packed + qs
# 6. What a reader of the block gets.
decoded = [d * sc[g] * q - dmin * m[g] for g in range(8) for q in codes[g]]

print("group     least  greatest      step  sc     offset   m")
for g in range(8):
    print(f"{g:5} {min(groups[g]):9.5f} {max(groups[g]):9.5f} {steps[g]:9.6f}  {sc[g]:2}  {offsets[g]:9.6f}  {m[g]:2}")
print(f"d {d:.9f}  dmin {dmin:.9f}")
print("scales", packed.hex(" "))
print("weights", *(f"{w:.5f}" for w in weights[:6]), "…")
print("codes  ", *(f"{q:7}" for q in codes[0][:6]), "…")
print("decoded", *(f"{w:.5f}" for w in decoded[:6]), "…")
print("block  ", block[:20].hex(" "), f"… {len(block)} bytes")
error = sum((a - b) ** 2 for a, b in zip(weights, decoded)) / sum(w * w for w in weights)
print(f"squared error {error:.5f} of the weights' squares")
