#!/usr/bin/env python3
"""Compares the golden hashes of tests/golden/quants_decode.tsv with what llama.cpp itself decodes from the same blocks.

Needs the PyPI packages llama-cpp-python (any build whose ggml knows the types), gguf and numpy. The only check of Q1_0 and Q2_0 by
foreign code, since the package gguf decodes neither. Prints one line a type; exit 1 on a difference.
"""
import ctypes
import importlib.util
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Traits(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("block_len", ctypes.c_int64), ("interleave", ctypes.c_int64),
                ("block_bytes", ctypes.c_size_t), ("is_quantized", ctypes.c_bool),
                ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
                ("from_float", ctypes.c_void_p)]


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    golden = load("make_quants", ROOT / "tests/golden/make_quants.py")
    folder = pathlib.Path(importlib.util.find_spec("llama_cpp").submodule_search_locations[0])
    ggml = ctypes.CDLL(str(folder / "lib/libggml-base.so"))
    ggml.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    is_different = False
    for line in (ROOT / "tests/golden/quants_decode.tsv").read_text().splitlines():
        name, n_blocks, _, expected = line.split("\t")
        kind, block_len, block_bytes = golden.geometry(name)
        traits = ggml.ggml_get_type_traits(kind).contents
        if not traits.to_float:
            print(f"{name}: llama.cpp has no decoder")
            continue
        raw = np.ascontiguousarray(golden.random_blocks(name))
        out = np.zeros(int(n_blocks) * block_len, dtype=np.float32)
        traits.to_float(raw.ctypes.data, out.ctypes.data, out.size)
        same = f"{golden.hash_of(out.view(np.uint32)):016x}" == expected and traits.block_bytes == block_bytes
        is_different |= not same
        print(f"{name}: {'equal' if same else 'DIFFERENT'}")
    sys.exit(1 if is_different else 0)


if __name__ == "__main__":
    main()
