#!/usr/bin/env python3
"""Both ways between tamis and the PyPI package gguf (0.19): what the package writes, tamis reads, splits and merges; what tamis
writes, the package reads; metadata, types and tensor bytes equal. Also: examples/gguf_header.py says what tamis inspect says.

usage: tests/golden/check_gguf_package.py TAMIS    exit 77 when the package is not installed
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np
except ImportError:
    sys.exit(1 if os.environ.get("CI") else 77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
V, Q = gguf.GGUFValueType, gguf.GGMLQuantizationType
SCALARS = {V.UINT8: (0, 2**8), V.INT8: (-2**7, 2**7), V.UINT16: (0, 2**16), V.INT16: (-2**15, 2**15), V.UINT32: (0, 2**32),
           V.INT32: (-2**31, 2**31), V.UINT64: (0, 2**64), V.INT64: (-2**63, 2**63)}
TYPES = [Q.F32, Q.F16, Q.I8, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.BF16]


def random_value(rng, kind):
    if kind in SCALARS:
        return rng.randrange(*SCALARS[kind])
    if kind == V.BOOL:
        return rng.random() < 0.5
    if kind == V.STRING:
        return "".join(rng.choice("aé字\0\n🙂 ") for _ in range(rng.randrange(12)))
    return float(np.float32(rng.gauss(0, 1)))


def write_random(path, rng):
    """A file of random keys and tensors; returns nothing, the package reads it back itself."""
    writer = gguf.GGUFWriter(path, "llama")
    if rng.random() < 0.5:
        writer.add_custom_alignment(rng.choice([8, 16, 64, 256]))
    kinds = [*SCALARS, V.BOOL, V.STRING, V.FLOAT32, V.FLOAT64]
    for i in range(rng.randrange(20)):
        kind = rng.choice(kinds)
        if rng.random() < 0.4:
            elements = [random_value(rng, kind) for _ in range(1 + rng.randrange(5))]
            writer.add_key_value(f"array.{i}", elements, V.ARRAY, sub_type=kind)
        else:
            writer.add_key_value(f"scalar.{i}", random_value(rng, kind), kind)
    noise = np.random.default_rng(rng.randrange(2**32))
    for i in range(1 + rng.randrange(8)):
        kind = rng.choice(TYPES)
        block = gguf.GGML_QUANT_SIZES[kind][0]
        shape = [1 + rng.randrange(3) for _ in range(rng.randrange(4))] + [block * (1 + rng.randrange(3))]
        data = noise.standard_normal(shape, dtype=np.float32)
        plain = {Q.F32: np.float32, Q.F16: np.float16, Q.I8: np.int8}.get(kind)
        data = data.astype(plain) if plain else gguf.quants.quantize(data, kind)
        writer.add_tensor(f"blk.{i}.weight", data, raw_dtype=None if plain else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def contents(path):
    """({key: (types, value)}, {tensor: (type, shape, bytes)}) as the package reads the file."""
    reader = gguf.GGUFReader(path)
    fields = {name: (field.types, field.contents()) for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    tensors = {t.name: (t.tensor_type, tuple(t.shape), t.data.tobytes()) for t in reader.tensors}
    return fields, tensors


def tamis(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"tamis {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stderr}"
    return done.stdout


def check_both_ways(path, rng, directory):
    fields, tensors = contents(path)
    rows = {row["name"]: row for row in json.loads(tamis("inspect", "--tensors", "--json", path))["tensors"]}
    assert list(rows) == list(tensors), "order of tensors"
    raw = path.read_bytes()
    for name, (kind, shape, data) in tensors.items():
        row = rows[name]
        assert (row["type"], row["shape"][::-1], row["bytes"]) == (kind.name, list(shape), len(data)), name
        assert raw[row["offset"]:row["offset"] + row["bytes"]] == data, name
    prefix, merged = directory / "part", directory / "merged.gguf"
    shards = json.loads(tamis("split", "--json", "--force", "--max-tensors", 1 + rng.randrange(4), path, prefix))["shards"]
    split_tensors = {}
    for i, shard in enumerate(shards):
        shard_fields, shard_tensors = contents(shard["path"])
        split_tensors.update(shard_tensors)
        if i == 0:
            assert {k: v for k, v in shard_fields.items() if not k.startswith("split.")} == fields
        assert [shard_fields["split." + k][1] for k in ("no", "count", "tensors.count")] == [i, len(shards), len(tensors)]
    assert split_tensors == tensors
    tamis("merge", "--force", shards[-1]["path"], merged)
    assert contents(merged) == (fields, tensors)
    assert merged.read_bytes() == raw, "the merged file is not the original byte for byte"
    for shard in shards:
        os.unlink(shard["path"])


def check_example(path):
    mine = subprocess.run([sys.executable, str(ROOT / "examples" / "gguf_header.py"), str(path)], capture_output=True, text=True, check=True)
    assert mine.stdout == tamis("inspect", "--tensors", "--json", path), f"examples/gguf_header.py differs on {path}"


def main():
    golden = ROOT / "tests" / "golden" / "gguf_package.gguf"
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        check_example(golden)
        tamis("verify", "--level", "container", golden)
        for seed in range(20):
            rng = random.Random(seed)
            path = directory / "random.gguf"
            write_random(path, rng)
            check_both_ways(path, rng, directory)
            check_example(path)
    models = sorted(pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "tamis", "models").glob("*.gguf"))
    for model in models[:4]:
        check_example(model)
    print(f"20 random files both ways, {1 + 20 + len(models[:4])} tensor lists equal")


if __name__ == "__main__":
    main()
