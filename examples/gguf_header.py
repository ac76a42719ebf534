#!/usr/bin/env python3
"""Lists the tensors of a GGUF file as JSON, as `tamis inspect --tensors --json` does, with nothing but struct.

usage: examples/gguf_header.py FILE.gguf        The format is explained in docs/gguf.md.
"""
import struct
import sys

# id: (name, elements a block, bytes a block)
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
         8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
         13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
         18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
         23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
         29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
         40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18)}
VALUES = "BbHhIif?sAQqd"  # value types 0 to 12 as struct has them; s: a string, A: an array


def number(fmt):
    return struct.unpack("<" + fmt, f.read(struct.calcsize(fmt)))[0]


def text():
    return f.read(number("Q")).decode("utf-8", "replace")


def value(kind):
    if kind == "A":
        element, n = VALUES[number("I")], number("Q")
        return [value(element) for _ in range(n)]
    return text() if kind == "s" else number(kind)


with open(sys.argv[1], "rb") as f:
    assert f.read(4) == b"GGUF" and number("I") in (2, 3), "not a GGUF file of version 2 or 3"
    n_tensors, n_kv = number("Q"), number("Q")
    meta = {text(): value(VALUES[number("I")]) for _ in range(n_kv)}
    infos = [(text(), [number("Q") for _ in range(number("I"))], number("I"), number("Q")) for _ in range(n_tensors)]
    data = f.tell() + -f.tell() % meta.get("general.alignment", 32)
rows = []
for name, dims, kind, offset in infos:  # dims: innermost first in the file, slowest first in print
    kind_name, block_len, block_bytes = TYPES[kind]
    n_bytes = block_bytes
    for extent in [dims[0] // block_len] + dims[1:]:
        n_bytes *= extent
    shape = ",".join(map(str, reversed(dims)))
    rows.append(f'{{"name":"{name}","shape":[{shape}],"type":"{kind_name}","offset":{data + offset},"bytes":{n_bytes}}}')
print('{"schema":1,"tensors":[' + ",".join(rows) + "]}")
