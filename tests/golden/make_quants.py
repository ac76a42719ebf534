#!/usr/bin/env python3
"""Writes quants_decode.tsv, quants_decode.bin and quants_encode.tsv beside this file (PyPI gguf 0.19, numpy).

Blocks come from a generator that tests/quants/golden.h repeats (splitmix64), so only hashes of the results are stored, and the
first floats of each type for reading a difference. Scale fields are kept finite by clearing the top exponent bit.
Types the package cannot decode (Q8_1, Q8_K, integers, F64, Q1_0, Q2_0) and Q4_K's encoder are written out here.
"""
import pathlib
import warnings

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
N_BLOCKS = 4096
N_FIRST = 256

# Bytes of a block that hold the exponent's top bit of a scale.
SCALE_BYTES = {
    "F32": [3], "F16": [1], "BF16": [1], "F64": [7], "I8": [], "I16": [], "I32": [], "I64": [], "Q4_0": [1], "Q4_1": [1, 3],
    "Q5_0": [1], "Q5_1": [1, 3], "Q8_0": [1], "Q8_1": [1, 3], "Q8_K": [3], "Q2_K": [81, 83], "Q3_K": [109], "Q4_K": [1, 3],
    "Q5_K": [1, 3], "Q6_K": [209], "IQ1_S": [1], "IQ1_M": [55], "IQ2_XXS": [1], "IQ2_XS": [1], "IQ2_S": [1], "IQ3_XXS": [1],
    "IQ3_S": [1], "IQ4_NL": [1], "IQ4_XS": [1], "TQ1_0": [53], "TQ2_0": [65], "MXFP4": [], "NVFP4": [], "Q1_0": [1], "Q2_0": [1],
}
# id, block length, block bytes of the types the package does not know, or (Q8_1) lists with the size they had before 2024.
OWN_GEOMETRY = {"Q8_1": (9, 32, 36), "Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18)}


def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def words(seed, n):
    return mix(np.uint64(seed) + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * GOLDEN)


def hash_of(numbers):
    numbers = numbers.astype(np.uint64)
    places = (np.arange(numbers.size, dtype=np.uint64) + np.uint64(1)) * GOLDEN
    return int(mix(numbers + places).sum(dtype=np.uint64))


def geometry(name):
    if name in OWN_GEOMETRY:
        return OWN_GEOMETRY[name]
    kind = T[name]
    return (int(kind), *gguf.GGML_QUANT_SIZES[kind])


def random_blocks(name):
    kind, _, n_bytes = geometry(name)
    raw = words(kind + 1, -(-N_BLOCKS * n_bytes // 8)).view(np.uint8)[: N_BLOCKS * n_bytes].copy().reshape(N_BLOCKS, n_bytes)
    raw[:, SCALE_BYTES[name]] &= 0xBF
    return raw


def halves(block_bytes):
    return block_bytes.copy().view(np.float16).astype(np.float32)


def decode(name, raw):
    n = raw.shape[0]
    if name in ("I8", "I16", "I32", "I64", "F64"):
        return raw.reshape(-1).view({"F64": np.float64}.get(name, name.replace("I", "int").lower())).astype(np.float32)
    if name == "Q8_1":
        return halves(raw[:, :2]) * raw[:, 4:].view(np.int8).astype(np.float32)
    if name == "Q8_K":
        return raw[:, :4].copy().view(np.float32) * raw[:, 4:260].copy().view(np.int8).astype(np.float32)
    if name == "Q1_0":
        bits = np.unpackbits(raw[:, 2:], axis=1, bitorder="little").astype(np.float32)
        return halves(raw[:, :2]) * (2 * bits - 1)
    if name == "Q2_0":
        codes = (raw[:, 2:, None] >> np.array([0, 2, 4, 6], dtype=np.uint8)) & 3
        return (codes.reshape(n, 64).astype(np.float32) - 1) * halves(raw[:, :2])
    return gguf.quants.dequantize(raw.reshape(1, -1) if geometry(name)[1] == 1 else raw, T[name])


def random_values(block_len):
    """4096 blocks: zeros, constants, one-sided and two-sided ranges at scales 2^-12 … 2^3, some values of few bits (ties)."""
    w = words(1000 + block_len, N_BLOCKS * block_len).reshape(N_BLOCKS, block_len)
    per_block = words(2000 + block_len, N_BLOCKS)
    kind = (per_block & np.uint64(7)).reshape(-1, 1)
    scale = np.exp2(((per_block >> np.uint64(8)) & np.uint64(15)).astype(np.float32) - np.float32(12)).reshape(-1, 1)
    x = ((w >> np.uint64(40)).astype(np.int64) - (1 << 23)).astype(np.float32) * np.float32(2**-23)
    coarse = ((w >> np.uint64(59)).astype(np.int64) - 16).astype(np.float32) * np.float32(2**-4)
    x = np.where(kind == 0, np.float32(0), x)
    x = np.where(kind == 1, x[:, :1], x)
    x = np.where(kind == 2, np.abs(x), x)
    x = np.where(kind == 3, -np.abs(x), x)
    x = np.where(kind == 4, coarse, x)
    return (x * scale).astype(np.float32)


def encode_q4_k(x):
    """The textbook Q4_K: ranges of 32, scales and minima rounded to 6 bits, codes rounded half up."""
    x = x.reshape(-1, 8, 32)
    f = np.float32
    offset = np.maximum(f(0), -x.min(axis=2)) + f(0)  # + 0: no negative zero
    step = np.maximum(f(0), x.max(axis=2) + offset) / f(15)
    d = (step.max(axis=1) / f(63)).astype(np.float16)
    dmin = (offset.max(axis=1) / f(63)).astype(np.float16)
    d32, m32 = d.astype(f)[:, None], dmin.astype(f)[:, None]

    def inverse(v):
        return np.where(v == 0, f(0), f(1) / np.where(v == 0, f(1), v))

    def nearest(v, top):
        return (np.minimum(np.maximum(v, f(0)), f(top)) + f(0.5)).astype(np.uint8)

    sc, mn = nearest(step * inverse(d32), 63), nearest(offset * inverse(m32), 63)
    q = nearest((x + (m32 * mn)[:, :, None]) * inverse(d32 * sc)[:, :, None], 15)
    packed = np.zeros((x.shape[0], 12), dtype=np.uint8)
    packed[:, 0:4] = sc[:, :4] | (sc[:, 4:] >> 4) << 6
    packed[:, 4:8] = mn[:, :4] | (mn[:, 4:] >> 4) << 6
    packed[:, 8:12] = (sc[:, 4:] & 15) | (mn[:, 4:] & 15) << 4
    q = q.reshape(-1, 4, 2, 32)
    qs = (q[:, :, 0] | q[:, :, 1] << 4).reshape(-1, 128)
    return np.concatenate([d.view(np.uint8).reshape(-1, 2), dmin.view(np.uint8).reshape(-1, 2), packed, qs], axis=1)


def main():
    np.seterr(over="ignore", under="ignore")
    warnings.simplefilter("ignore")
    lines, first = [], []
    for name in SCALE_BYTES:
        out = np.ascontiguousarray(decode(name, random_blocks(name)).reshape(-1), dtype=np.float32)
        lines.append(f"{name}\t{N_BLOCKS}\t{','.join(map(str, SCALE_BYTES[name])) or '-'}\t{hash_of(out.view(np.uint32)):016x}\n")
        first.append(out[:N_FIRST])
    (HERE / "quants_decode.tsv").write_text("".join(lines))
    (HERE / "quants_decode.bin").write_bytes(np.concatenate(first).tobytes())
    lines = []
    for name in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "TQ1_0", "TQ2_0", "MXFP4"):
        x = random_values(max(32, geometry(name)[1]))
        coded = encode_q4_k(x) if name == "Q4_K" else gguf.quants.quantize(x, T[name])
        lines.append(f"{name}\t{x.size}\t{hash_of(np.ascontiguousarray(coded).reshape(-1).view(np.uint8)):016x}\n")
    (HERE / "quants_encode.tsv").write_text("".join(lines))


if __name__ == "__main__":
    main()
