#!/usr/bin/env python3
"""Writes tests/golden/gguf_package.gguf with the PyPI package gguf (0.19): every type of value, and tensors of several types.

usage: tests/golden/make_gguf.py [OUT]
"""
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGUFValueType as V

HERE = pathlib.Path(__file__).resolve().parent


def write(path):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    for kind, value in ((V.UINT8, 200), (V.INT8, -3), (V.UINT16, 65535), (V.INT16, -300), (V.UINT32, 2**31), (V.INT32, -1),
                        (V.FLOAT32, 0.5), (V.BOOL, True), (V.STRING, "Größe\0x"), (V.UINT64, 2**64 - 1), (V.INT64, -2**63),
                        (V.FLOAT64, 0.1)):
        writer.add_key_value(f"test.{kind.name.lower()}", value, kind)
    writer.add_array("test.strings", ["a", "", "ß"])
    writer.add_array("test.ints", [1, -2, 3])
    writer.add_array("test.floats", [0.25, -1.0])
    writer.add_array("test.bools", [True, False])
    writer.add_key_value("test.bytes", b"\0\1\xff", V.ARRAY)
    writer.add_array("test.nested", [[1, 2], [3]])
    writer.add_tensor("f32", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("f16", np.arange(4, dtype=np.float16).reshape(2, 2, 1))
    writer.add_tensor("i8", np.arange(-3, 2, dtype=np.int8))
    writer.add_tensor("q8_0", gguf.quants.quantize(np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64), gguf.GGMLQuantizationType.Q8_0),
                      raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "gguf_package.gguf")
