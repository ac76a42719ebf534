#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/dequantize: one decoding and one encoding seed a tensor type, one block of fixed pseudo-random bytes."""
import pathlib
import random

# (name, block length, block bytes) in the order of the registry (src/quants/registry.cpp).
TYPES = """F32 1 4,F16 1 2,BF16 1 2,F64 1 8,I8 1 1,I16 1 2,I32 1 4,I64 1 8,Q4_0 32 18,Q4_1 32 20,Q5_0 32 22,Q5_1 32 24,Q8_0 32 34,
Q8_1 32 36,Q8_K 256 292,Q2_K 256 84,Q3_K 256 110,Q4_K 256 144,Q5_K 256 176,Q6_K 256 210,IQ1_S 256 50,IQ1_M 256 56,IQ2_XXS 256 66,
IQ2_XS 256 74,IQ2_S 256 82,IQ3_XXS 256 98,IQ3_S 256 110,IQ4_NL 32 18,IQ4_XS 256 136,TQ1_0 256 54,TQ2_0 256 66,MXFP4 32 17,
NVFP4 64 36,Q1_0 128 18,Q2_0 64 18"""


def main():
    out = pathlib.Path(__file__).resolve().parent.parent / "tests/fuzz/corpus/dequantize"
    out.mkdir(parents=True, exist_ok=True)
    for index, row in enumerate(TYPES.replace("\n", "").split(",")):
        name, length, n_bytes = row.split()
        draw = random.Random(index)
        head = bytes([index]), int(length).to_bytes(2, "little")
        (out / name.lower()).write_bytes(head[0] + b"\0" + head[1] + draw.randbytes(int(n_bytes)))
        (out / (name.lower() + "_encode")).write_bytes(head[0] + b"\1" + head[1] + draw.randbytes(min(4 * int(length), 512)))


main()
