#!/usr/bin/env python3
"""Writes recipes.tsv next to itself: which type llama.cpp's quantizer gives every tensor, for every file type.

usage: make_recipes.py [MODEL.gguf ...]     pip install numpy gguf llama-cpp-python==0.3.36

llama.cpp runs in its dry mode, so headers are enough: the shapes below are written as sparse files whose tensors are holes. The real
models given are read the same way. Lines of recipes.tsv, separated by tabs:
  model    NAME ARCHITECTURE n_layers n_head n_head_kv n_expert
  tensor   NAME n_layers_or_0 type extents (row-major); % in the name stands for each of the first n layers
  types    FILE_TYPE imatrix(0/1) NAME=TYPE*RUN,TYPE*RUN… in the order of layers; with an imatrix only where it differs.
           NAME is short: "blk." and ".weight" are left out
"""
import ctypes
import os
import re
import sys
import tempfile

import llama_cpp as api
import numpy as np
from gguf import GGUFReader, GGUFWriter
from gguf.constants import GGMLQuantizationType

HERE = os.path.dirname(os.path.abspath(__file__))
FILE_TYPES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13,
    "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ2_XXS": 19, "IQ2_XS": 20, "Q2_K_S": 21, "IQ3_XS": 22,
    "IQ3_XXS": 23, "IQ1_S": 24, "IQ4_NL": 25, "IQ3_S": 26, "IQ3_M": 27, "IQ2_S": 28, "IQ2_M": 29, "IQ4_XS": 30, "IQ1_M": 31, "BF16": 32,
    "TQ1_0": 36, "TQ2_0": 37, "MXFP4_MOE": 38, "Q1_0": 40, "Q2_0": 41}


def shape(arch, layers, embd, heads, kv, ff, vocab=32000, experts=0, tied=False, fused=False, head=None, shared=False):
    head = head or embd // heads
    t = [("token_embd.weight", 0, (vocab, embd)), ("output_norm.weight", 0, (embd,))]
    if not tied:
        t.append(("output.weight", 0, (vocab, embd)))
    if fused:
        t.append(("blk.%.attn_qkv.weight", layers, ((heads + 2 * kv) * head, embd)))
    else:
        t += [("blk.%.attn_q.weight", layers, (heads * head, embd)), ("blk.%.attn_k.weight", layers, (kv * head, embd)),
              ("blk.%.attn_v.weight", layers, (kv * head, embd))]
    t += [("blk.%.attn_output.weight", layers, (embd, heads * head)), ("blk.%.attn_norm.weight", layers, (embd,))]
    if experts:
        t += [("blk.%.ffn_gate_inp.weight", layers, (experts, embd)), ("blk.%.ffn_down_exps.weight", layers, (experts, embd, ff)),
              ("blk.%.ffn_gate_exps.weight", layers, (experts, ff, embd)), ("blk.%.ffn_up_exps.weight", layers, (experts, ff, embd))]
    if shared or not experts:
        end = "_shexp" if experts else ""
        t += [(f"blk.%.ffn_down{end}.weight", layers, (embd, ff)), (f"blk.%.ffn_up{end}.weight", layers, (ff, embd))]
        if arch != "falcon":
            t.append((f"blk.%.ffn_gate{end}.weight", layers, (ff, embd)))
    return dict(arch=arch, layers=layers, heads=heads, kv=kv, experts=experts, embd=embd, ff=ff, head=head, tensors=t)


MODELS = {
    "llama-8b": shape("llama", 32, 4096, 32, 8, 14336, 128256),
    "llama-70b": shape("llama", 80, 8192, 64, 8, 28672, 128256),
    "llama-7b-mha": shape("llama", 32, 4096, 32, 32, 11008),
    "llama-13-layers": shape("llama", 13, 2048, 16, 8, 5632, tied=True),
    "mixtral-8x7b": shape("llama", 32, 4096, 32, 8, 14336, experts=8),
    "llama-4-experts": shape("llama", 10, 2048, 16, 16, 5632, experts=4),
    "qwen2-72b": shape("qwen2", 80, 8192, 64, 8, 29568, 152064),
    "qwen3moe-30b": shape("qwen3moe", 48, 2048, 32, 4, 768, 151936, experts=128, head=128),
    "qwen2moe-shared": shape("qwen2moe", 24, 2048, 16, 16, 1408, 151936, experts=60, shared=True),
    "phi3-fused": shape("phi3", 32, 3072, 32, 32, 8192, 32064, fused=True),
    "falcon-7b": shape("falcon", 32, 4544, 71, 1, 18176, 65024, fused=True),
    "rows-of-2880": shape("llama", 24, 2880, 64, 8, 2880, 201088, head=64),
    "rows-of-576-tied": shape("llama", 30, 576, 9, 3, 1536, 49152, tied=True),
    "rows-of-720": shape("llama", 9, 720, 9, 3, 1000, tied=True),
}


def write_sparse(path, model):
    w = GGUFWriter(path, model["arch"])
    w.add_block_count(model["layers"])
    w.add_context_length(4096)
    w.add_embedding_length(model["embd"])
    w.add_feed_forward_length(model["ff"])
    w.add_head_count(model["heads"])
    w.add_head_count_kv(model["kv"])
    w.add_key_length(model["head"])
    w.add_value_length(model["head"])
    w.add_layer_norm_rms_eps(1e-5)
    w.add_layer_norm_eps(1e-5)
    w.add_rope_dimension_count(model["head"])
    if model["experts"]:
        w.add_expert_count(model["experts"])
        w.add_expert_used_count(2)
        w.add_expert_feed_forward_length(model["ff"])
        w.add_expert_shared_feed_forward_length(model["ff"])
    n_bytes = 0
    for name, layers, extents in model["tensors"]:
        for i in range(layers or 1):
            wide = len(extents) > 1 and "ffn_gate_inp" not in name
            bytes_here = int(np.prod(extents, dtype=np.int64)) * (2 if wide else 4)
            w.add_tensor_info(name.replace("%", str(i)), extents, np.dtype(np.float16 if wide else np.float32), bytes_here)
            n_bytes += bytes_here + 31 & ~31
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    w.close()
    os.truncate(path, os.path.getsize(path) + n_bytes + 64)


LOG = []


@api.llama_log_callback
def keep_log(level, text, data):
    LOG.append(text.decode("utf-8", "replace"))


LINE = re.compile(r"\[\s*\d+/\s*\d+\]\s+(\S+)\s+- \[\s*([\d, ]+)\], type =\s*(\S+), size =[^\n(]*(?:\((\w+)\))?")


def dry_run(path, file_type, has_imatrix):
    p = api.llama_model_quantize_default_params()
    p.ftype, p.nthread, p.allow_requantize, p.dry_run = file_type, 1, True, True
    one = (ctypes.c_float * 1)(1.0)
    rows = (api.llama_model_imatrix_data * 2)()
    rows[0].name, rows[0].size, rows[0].data = b"none", 1, ctypes.cast(one, ctypes.POINTER(ctypes.c_float))
    if has_imatrix:
        p.imatrix = ctypes.cast(rows, ctypes.POINTER(api.llama_model_imatrix_data))
    LOG.clear()
    rc = api.llama_model_quantize(path.encode(), b"/dev/null", ctypes.byref(p))
    text = "".join(LOG)
    if rc != 0:
        return None
    out = {}
    for name, extents, before, after in LINE.findall(text):
        if sum(int(x) > 1 for x in extents.split(",")) > 1:
            out[name] = (after or before).lower()
    return out


def layer_key(name):
    m = re.match(r"blk\.(\d+)\.", name)
    return (int(m.group(1)) if m else -1, name)


def compress(types):
    groups = {}
    for name in sorted(types, key=layer_key):
        groups.setdefault(re.sub(r"blk\.\d+\.", "blk.%.", name), []).append(types[name])
    fields = []
    for name, values in groups.items():
        runs = []
        for v in values:
            if runs and runs[-1][0] == v:
                runs[-1][1] += 1
            else:
                runs.append([v, 1])
        fields.append(name.replace("blk.%.", "%").replace(".weight", "") + "=" + ",".join(f"{v}*{n}" if n > 1 else v for v, n in runs))
    return " ".join(fields)


def describe(path):
    """A real model's header in the terms of the table."""
    r = GGUFReader(path)
    field = lambda key, default=0: int(r.fields[key].parts[r.fields[key].data[0]][0]) if key in r.fields else default
    arch = bytes(r.fields["general.architecture"].parts[-1]).decode()
    groups = {}
    for t in r.tensors:
        extents = tuple(int(x) for x in reversed(t.shape))
        groups.setdefault((re.sub(r"blk\.\d+\.", "blk.%.", t.name), extents), []).append(t)
    tensors = []
    for (name, extents), members in groups.items():
        kinds = sorted((layer_key(t.name), t.tensor_type.name) for t in members)
        tensors.append((name, len(members) if "%" in name else 0, extents, [k for _, k in kinds]))
    heads = field(f"{arch}.attention.head_count")
    return dict(arch=arch, layers=field(f"{arch}.block_count"), heads=heads, kv=field(f"{arch}.attention.head_count_kv", heads),
                experts=field(f"{arch}.expert_count"), real=tensors)


def model_lines(name, model, path):
    yield f"model\t{name}\t{model['arch']}\t{model['layers']}\t{model['heads']}\t{model['kv']}\t{model['experts']}"
    for row in model.get("real") or model["tensors"]:
        wide = len(row[2]) > 1
        kinds = set(row[3]) if len(row) > 3 else {"F16" if wide and "ffn_gate_inp" not in row[0] else "F32"}
        if wide:
            yield f"tensor\t{row[0]}\t{row[1]}\t{'/'.join(sorted(kinds))}\t{','.join(map(str, row[2]))}"
    for label, number in FILE_TYPES.items():
        plain = dry_run(path, number, False)
        if plain is None:
            yield f"types\t{label}\t0\tfails"
            continue
        yield f"types\t{label}\t0\t{compress(plain)}"
        weighted = dry_run(path, number, True)
        if weighted != plain:
            yield f"types\t{label}\t1\t{compress(weighted)}"


def main():
    api.llama_backend_init()
    api.llama_log_set(keep_log, None)
    lines = []
    for path in sys.argv[1:]:
        lines += model_lines("file:" + os.path.basename(path), describe(path), path)
    with tempfile.TemporaryDirectory() as tmp:
        for name, model in MODELS.items():
            path = os.path.join(tmp, "m.gguf")
            write_sparse(path, model)
            lines += model_lines(name, model, path)
            os.remove(path)
    open(os.path.join(HERE, "recipes.tsv"), "w").write("\n".join(lines) + "\n")
    print(len(lines), "lines", sum(line.endswith("fails") for line in lines), "fail")


if __name__ == "__main__":
    main()
