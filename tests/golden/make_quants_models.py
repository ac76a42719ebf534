#!/usr/bin/env python3
"""Writes quants_models.tsv beside this file: what the PyPI package gguf 0.19 decodes from real models.

A line: file, tensor, type, number of leading elements decoded, hash of their float bits (hash_of in make_quants.py). At most
2^18 elements of each quantized tensor, and the whole of the first small one of every (model, type).
Models: the cache that scripts/get-models fills.
"""
import os
import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tamis/models"
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MAX_ELEMENTS = 1 << 18


def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def hash_of(floats):
    numbers = floats.view(np.uint32).astype(np.uint64)
    places = (np.arange(numbers.size, dtype=np.uint64) + np.uint64(1)) * GOLDEN
    return int(mix(numbers + places).sum(dtype=np.uint64))


def main():
    lines = []
    for path in sorted(MODELS.glob("*.gguf")):
        seen = set()
        for tensor in gguf.GGUFReader(path).tensors:
            block_len, block_bytes = gguf.GGML_QUANT_SIZES[tensor.tensor_type]
            if block_len == 1:
                continue
            n = min(int(tensor.n_elements), MAX_ELEMENTS)
            if tensor.tensor_type not in seen and tensor.n_elements < 1 << 24:
                seen.add(tensor.tensor_type)
                n = int(tensor.n_elements)
            raw = tensor.data.reshape(-1).view(np.uint8)[: n // block_len * block_bytes].reshape(1, -1)
            floats = gguf.quants.dequantize(raw, tensor.tensor_type).reshape(-1)
            lines.append(f"{path.name}\t{tensor.name}\t{tensor.tensor_type.name}\t{n}\t{hash_of(floats):016x}\n")
    (HERE / "quants_models.tsv").write_text("".join(lines))


main()
