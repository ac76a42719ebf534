#!/usr/bin/env python3
"""Writes models_logits.tsv (cases as text) and models_logits.bin (their logits, float32) next to itself.  pip install numpy"""
import os

import numpy as np

from tiny_models import CASES, forward

here = os.path.dirname(os.path.abspath(__file__))
rows, blob = [], b""
for case in CASES:
    logits = forward(case)
    rows.append(f"case\t{case.name}\t{case.arch}\t{len(blob) // 4}\t{int(case.long)}")
    for key, value in case.metadata().items():
        kind = {bool: "bool", int: "u32", float: "f32", str: "str"}[type(value)]
        rows.append(f"{kind}\t{key}\t{float(np.float32(value))!r}" if kind == "f32" else f"{kind}\t{key}\t{value}")
    rows += ["tensor\t" + name + "\t" + ",".join(map(str, shape)) for name, shape in case.shapes().items()]
    rows.append("ids\t" + ",".join(map(str, case.ids())))
    blob += logits.astype("<f4").tobytes()
open(os.path.join(here, "models_logits.tsv"), "w").write("\n".join(rows) + "\n")
open(os.path.join(here, "models_logits.bin"), "wb").write(blob)
print(f"{len(CASES)} cases, {len(blob)} bytes of logits")
