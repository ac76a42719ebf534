"""GGUF files as numpy arrays, for the scripts that permute, dither and judge models. Needs numpy and the PyPI package gguf.

A file is read whole: its metadata stays the bytes it is (only general.file_type changes on writing), every tensor is decoded to
float32. Rows come first, as in numpy: a weight has the shape [n_out, n_in].
"""
import os
import pathlib
import struct

import numpy as np
from gguf import GGUFReader, GGMLQuantizationType
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

ALIGNMENT = 32
FLOAT_TYPES = {"F32": (0, np.float32), "F16": (1, np.float16)}
SCALAR = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Model:
    """Tensors {name: float32 array [n_out, n_in] or [n]}, in the file's order, their stored types, and the metadata."""

    def __init__(self, path, decode=True):
        self.path = pathlib.Path(path)
        reader = GGUFReader(self.path)
        self.fields = reader.fields
        self.kv_bytes = metadata_bytes(self.path)
        self.n_kv = int(reader.fields["GGUF.kv_count"].contents())
        self.types = {t.name: t.tensor_type.name for t in reader.tensors}
        self.shapes = {t.name: tuple(int(n) for n in t.shape[::-1]) for t in reader.tensors}
        self.raw = {t.name: t.data for t in reader.tensors}
        self.tensors = {n: self.decoded(n) for n in self.raw} if decode else {}

    def decoded(self, name):
        values = dequantize(self.raw[name], GGMLQuantizationType[self.types[name]])
        return np.ascontiguousarray(values.reshape(self.shapes[name]), np.float32)

    def value(self, key, default=None):
        """A metadata value; `key` without the architecture's prefix finds the prefixed one."""
        for name in (key, f"{self.architecture}.{key}"):
            if name in self.fields:
                return self.fields[name].contents()
        return default

    @property
    def architecture(self):
        return self.fields["general.architecture"].contents()


def metadata_bytes(path):
    """The bytes of the key-value section, as they lie in the file."""
    with open(path, "rb") as file:
        magic, version, _, n_kv = struct.unpack("<4sIQQ", file.read(24))
        if magic != b"GGUF" or version not in (2, 3):
            raise SystemExit(f"{path}: not a GGUF file of version 2 or 3")
        begin = file.tell()
        for _ in range(n_kv):
            skip_string(file)
            skip_value(file, struct.unpack("<I", file.read(4))[0])
        end = file.tell()
        file.seek(begin)
        return file.read(end - begin)


def skip_string(file):
    file.seek(struct.unpack("<Q", file.read(8))[0], os.SEEK_CUR)


def skip_value(file, kind):
    if kind == 8:
        skip_string(file)
    elif kind == 9:
        element, count = struct.unpack("<IQ", file.read(12))
        if element in SCALAR:
            file.seek(count * struct.calcsize(SCALAR[element]), os.SEEK_CUR)
        else:
            for _ in range(count):
                skip_value(file, element)
    else:
        file.seek(struct.calcsize(SCALAR[kind]), os.SEEK_CUR)


def with_file_type(kv_bytes, file_type):
    """The metadata with general.file_type, a u32 where present, set."""
    key = b"general.file_type"
    at = kv_bytes.find(struct.pack("<Q", len(key)) + key + struct.pack("<I", 4))
    if at < 0:
        return kv_bytes
    at += 8 + len(key) + 4
    return kv_bytes[:at] + struct.pack("<I", file_type) + kv_bytes[at + 4:]


def write_model(model, tensors, path, matrix_type="F32", force=False):
    """Writes `tensors` with the metadata of `model`: matrices in `matrix_type`, vectors in F32. Whole or not at all."""
    path = pathlib.Path(path)
    if path.exists() and not force:
        raise SystemExit(f"{path}: exists; --force overwrites it")
    temporary = path.with_name(path.name + ".part")
    stored = {name: FLOAT_TYPES[matrix_type if values.ndim > 1 else "F32"] for name, values in tensors.items()}
    with open(temporary, "wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), model.n_kv))
        file.write(with_file_type(model.kv_bytes, FLOAT_TYPES[matrix_type][0]))
        offset = 0
        for name, values in tensors.items():
            kind, dtype = stored[name]
            raw_name = name.encode()
            file.write(struct.pack("<Q", len(raw_name)) + raw_name + struct.pack("<I", values.ndim))
            file.write(struct.pack(f"<{values.ndim}Q", *values.shape[::-1]) + struct.pack("<IQ", kind, offset))
            offset += padded(values.size * dtype().itemsize)
        file.write(bytes(padded(file.tell()) - file.tell()))
        for name, values in tensors.items():
            raw = np.ascontiguousarray(values, stored[name][1]).tobytes()
            file.write(raw + bytes(padded(len(raw)) - len(raw)))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def block_geometry(type_name):
    """Weights and bytes of one block."""
    return GGML_QUANT_SIZES[GGMLQuantizationType[type_name]]
