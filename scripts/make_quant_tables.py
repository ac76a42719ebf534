#!/usr/bin/env python3
"""Writes src/quants/iq_grids.cpp, the point sets of the IQ1-IQ3 types, from the PyPI package gguf 0.19.

Usage: scripts/make_quant_tables.py   (writes the file in place; a second run changes nothing)
"""
import pathlib

import gguf.quants as q
import numpy as np

HEAD = """// Made by scripts/make_quant_tables.py; do not edit. What the tables mean: iq_grids.h.
#include "quants/iq_grids.h"

namespace tamis {

// clang-format off
"""


def words(name, cls):
    """The grid of a gguf-py type as one integer a point, first coordinate in the lowest byte."""
    cls.init_grid()
    points = cls.grid.reshape(cls.grid_shape).astype(np.int8).view(np.uint8)
    bits = 8 * points.shape[1]
    values = points.astype(np.uint64) << (np.arange(points.shape[1], dtype=np.uint64) * 8)
    numbers = values.sum(axis=1, dtype=np.uint64)
    items = [f"0x{int(n):0{bits // 4}x}" for n in numbers]
    per_line = 8 if bits == 32 else 5
    lines = ["    " + ", ".join(items[i : i + per_line]) + "," for i in range(0, len(items), per_line)]
    return f"\nconst uint{bits}_t {name}[{len(items)}] = {{\n" + "\n".join(lines) + "\n};\n"


def main():
    tables = [("kGridIQ2XXS", q.IQ2_XXS), ("kGridIQ2XS", q.IQ2_XS), ("kGridIQ2S", q.IQ2_S),
              ("kGridIQ3XXS", q.IQ3_XXS), ("kGridIQ3S", q.IQ3_S), ("kGridIQ1", q.IQ1_S)]
    text = HEAD + "".join(words(name, cls) for name, cls in tables) + "\n// clang-format on\n\n}  // namespace tamis\n"
    (pathlib.Path(__file__).resolve().parent.parent / "src/quants/iq_grids.cpp").write_text(text)


main()
