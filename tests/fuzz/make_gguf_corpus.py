#!/usr/bin/env python3
"""Writes the seeds of the GGUF fuzz targets: a small valid file, and each of its kinds of fields once at an odd value.

usage: tests/fuzz/make_gguf_corpus.py    (writes tests/fuzz/corpus/gguf_*/seed-*)
"""
import pathlib
import random
import struct

HERE = pathlib.Path(__file__).resolve().parent


def u32(v):
    return struct.pack("<I", v)


def u64(v):
    return struct.pack("<Q", v)


def text(s):
    return u64(len(s)) + s


def kv(key, kind, value):
    return text(key) + u32(kind) + value


def array(kind, *elements):
    return u32(kind) + u64(len(elements)) + b"".join(elements)


def tensor(name, dims, kind, offset):
    return text(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def gguf(kvs, tensors, data=b"", version=3, align=32):
    head = b"GGUF" + u32(version) + u64(len(tensors)) + u64(len(kvs)) + b"".join(kvs) + b"".join(tensors)
    return head + b"\0" * (-len(head) % align) + data if tensors else head


def nested(depth):
    inner = array(0, b"x", b"y")
    for _ in range(depth - 1):
        inner = array(9, inner)
    return inner


ARCH = kv(b"general.architecture", 8, text(b"llama"))
ALIGN = kv(b"general.alignment", 4, u32(64))
SPLIT = [kv(b"split.no", 2, b"\0\0"), kv(b"split.count", 2, b"\2\0"), kv(b"split.tensors.count", 5, u32(4))]
TENSORS = [tensor(b"a", [4, 2], 0, 0), tensor(b"b", [32], 8, 32), tensor(b"c", [32, 1, 2], 2, 96)]
DATA = bytes(range(160))


def seeds():
    yield gguf([ARCH], TENSORS, DATA)
    yield gguf([ARCH], TENSORS, DATA, version=2)
    yield gguf([ALIGN], [tensor(b"a", [4], 0, 0), tensor(b"b", [4], 0, 64)], DATA[:80], align=64)
    yield gguf([ARCH, *SPLIT], [])
    scalars = [b"\1", b"\xff", b"\1\0", b"\xff\xff", u32(7), u32(2**32 - 1), struct.pack("<f", 1.5), b"\1", text(b"s"), None, u64(9),
               u64(2**64 - 1), struct.pack("<d", -0.5)]
    yield gguf([kv(b"k%d" % i, i, v) for i, v in enumerate(scalars) if v is not None], [])
    yield gguf([kv(b"a%d" % i, 9, array(i, v, v)) for i, v in enumerate(scalars) if v is not None], [])
    for depth in (2, 4, 5, 12):
        yield gguf([kv(b"n", 9, nested(depth))], [])
    yield gguf([kv(b"s", 9, array(8, text(b""), text("é".encode()), text(b"\xff")))], [])
    for dims, kind in (([2**61 + 1, 8], 0), ([2**62], 0), ([5124095576030431008], 2), ([33], 8), ([16, 2], 8), ([2**16] * 4, 0), ([0], 0), ([1] * 5, 0)):
        yield gguf([], [tensor(b"a", dims, kind, 0)], DATA[:32])
    for kind, value in ((4, u32(0)), (4, u32(1)), (4, u32(24)), (5, u32(32)), (10, u64(32))):
        yield gguf([kv(b"general.alignment", kind, value)], [tensor(b"a", [8], 0, 0)], DATA[:32])
    for n in (2**61, 2**63, 2**30):
        yield gguf([kv(b"k", 9, u32(10) + u64(n) + u64(1))], [])
    yield gguf([ARCH, ARCH], [])
    yield gguf([], [TENSORS[0], TENSORS[0]], DATA)
    yield gguf([], [tensor(b"a", [8], 0, 0), tensor(b"b", [8], 0, 0)], DATA[:32])
    yield gguf([], [tensor(b"a", [8], 0, 64)], DATA[:96])
    yield gguf([], [tensor(b"a", [8], 0, 2**64 - 32)], DATA[:32])
    yield gguf([ARCH], TENSORS, DATA)[:-70]
    yield gguf([ARCH], TENSORS, DATA) + b"x" * 80
    yield b"GGUF" + struct.pack(">I", 3) + u64(0) + u64(0)


def write(target, name, content):
    path = HERE / "corpus" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main():
    for i, seed in enumerate(seeds()):
        for target in ("gguf_open", "gguf_chunked"):
            write(target, f"seed-{i:02}", seed)
        write("gguf_rewrite", f"seed-{i:02}", b"\1" + seed)
    source = random.Random(1)
    for i in range(24):
        drawn = bytes(source.randrange(256) for _ in range(40 + 10 * i))
        write("gguf_edits", f"seed-{i:02}", drawn)
        write("gguf_rewrite", f"drawn-{i:02}", bytes([2 * (i % 2)]) + drawn)


if __name__ == "__main__":
    main()
