#!/usr/bin/env python3
"""Checks `tamis convert` against checkpoints made here with numpy and the `safetensors` package, apart from the C++ code:

  models     a tiny random model of every architecture (tests/golden/tiny_models.py) in Hugging Face's names and order of rows
             → GGUF: every tensor the same bits, every key the model needs the same value; then back to a folder, the same bits
  fp8        8-bit floats with 128 x 128 and with row scales: the float32 products
  gptq, awq  packed codes: symmetric ones the same numbers, others within their rounding
  tokenizers --vocab FILE.gguf …: a tokenizer.json (or tokenizer.model) with that vocabulary → GGUF: the same keys, and the ids
             of 10,000 strings equal to those of the `tokenizers` (`sentencepiece`) package

  scripts/check_convert.py [--tamis build/release/tamis] [--vocab FILE …] [-n 10000]

Needs numpy, gguf, safetensors; tokenizers and sentencepiece for --vocab.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unicodedata

import numpy as np
from gguf import GGUFReader, dequantize
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "golden"), str(ROOT / "scripts")]
import tiny_models  # noqa: E402

CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3moe": "Qwen3MoeForCausalLM",
           "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3": "Gemma3ForCausalLM", "phi3": "Phi3ForCausalLM"}


def to_hf_rows(matrix, n_head):
    """GGUF's llama keeps the two elements RoPE turns side by side; transformers half a head apart."""
    head = matrix.shape[0] // n_head
    return np.concatenate([np.concatenate([matrix[h * head:(h + 1) * head][0::2], matrix[h * head:(h + 1) * head][1::2]])
                           for h in range(n_head)])


def hf_tensors(case):
    out = {}
    names = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
             "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
             "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
             "ffn_norm": "pre_feedforward_layernorm" if case.arch in ("gemma2", "gemma3") else "post_attention_layernorm"}
    if case.arch == "phi3":
        names["ffn_up"] = "mlp.gate_up_proj"
    mixtral = case.arch == "llama"
    experts = {"gate": "w1", "down": "w2", "up": "w3"} if mixtral else {n: n + "_proj" for n in ("gate", "up", "down")}
    module = "block_sparse_moe" if mixtral else "mlp"
    for name, value in case.weights().items():
        if name.startswith("rope_"):
            continue
        stem, kind = name.rsplit(".", 1)
        if case.arch.startswith("gemma") and value.ndim == 1:
            value = value - np.float32(1)
        top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}.get(stem)
        if top:
            out[f"{top}.{kind}"] = value
            continue
        _, layer, part = stem.split(".")
        prefix = f"model.layers.{layer}."
        if case.arch == "llama" and part in ("attn_q", "attn_k"):
            value = to_hf_rows(value, case.n_head if part == "attn_q" else case.n_kv)
        if part == "ffn_gate_inp":
            out[f"{prefix}{module}.gate.weight"] = value
        elif part.endswith("_exps"):
            for e in range(len(value)):
                out[f"{prefix}{module}.experts.{e}.{experts[part.split('_')[1]]}.weight"] = value[e]
        else:
            out[f"{prefix}{names[part]}.{kind}"] = value
    return {name: np.ascontiguousarray(value) for name, value in out.items()}


def hf_config(case):
    dk, _ = case.head()
    extra = case.extra
    config = {"architectures": [CLASSES[case.arch]], "hidden_size": case.n_embd, "intermediate_size": case.n_ff,
              "num_hidden_layers": case.n_layer, "num_attention_heads": case.n_head, "num_key_value_heads": case.n_kv,
              "head_dim": dk, "vocab_size": case.n_vocab, "max_position_embeddings": case.n_ctx, "rms_norm_eps": case.eps,
              "rope_theta": case.base, "tie_word_embeddings": "output" not in case.tensors,
              "hidden_act": "gelu_pytorch_tanh" if case.arch.startswith("gemma") else "silu"}
    if case.arch == "gemma2" or case.arch == "gemma3":
        config["query_pre_attn_scalar"] = dk
    if case.n_expert():
        config["architectures"] = ["MixtralForCausalLM"] if case.arch == "llama" else config["architectures"]
        config["num_local_experts" if case.arch == "llama" else "num_experts"] = case.n_expert()
        config["num_experts_per_tok"] = extra["expert_used_count"]
        if "expert_feed_forward_length" in extra:
            config["moe_intermediate_size"], config["norm_topk_prob"] = extra["expert_feed_forward_length"], True
    for key, name in (("attention.sliding_window", "sliding_window"), ("attn_logit_softcapping",) * 2,
                      ("final_logit_softcapping",) * 2, ("rope.freq_base_swa", "rope_local_base_freq")):
        if key in extra:
            config[name] = extra[key]
    if extra.get("rope.scaling.type") in ("linear", "yarn"):
        config["rope_scaling"] = {"rope_type": extra["rope.scaling.type"], "factor": extra["rope.scaling.factor"]}
        if "rope.scaling.original_context_length" in extra:
            config["rope_scaling"]["original_max_position_embeddings"] = extra["rope.scaling.original_context_length"]
    elif "rope.scaling.factor" in extra:
        config["rope_scaling"] = {"rope_type": "linear", "factor": extra["rope.scaling.factor"]}
    if "rope_factors_long" in case.tensors:
        weights = case.weights()
        config["rope_scaling"] = {"type": "longrope", "long_factor": [float(x) for x in weights["rope_factors_long.weight"]],
                                  "short_factor": [float(x) for x in weights["rope_factors_short.weight"]]}
        if "rope.scaling.attn_factor" in extra:
            config["rope_scaling"]["attention_factor"] = extra["rope.scaling.attn_factor"]
        config["original_max_position_embeddings"] = extra["rope.scaling.original_context_length"]
    return config


class Checker:
    def __init__(self, tamis, folder):
        self.tamis, self.folder, self.n_bad = tamis, pathlib.Path(folder), 0

    def say(self, is_good, text):
        self.n_bad += not is_good
        print(("ok   " if is_good else "FAIL ") + text)

    def folder_of(self, name, config, tensors, more=None):
        path = self.folder / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        save_file(tensors, path / "model.safetensors")
        for file, content in (more or {}).items():
            (path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def convert(self, source, out, *options):
        result = subprocess.run([self.tamis, "convert", str(source), "-o", str(out), "-q", *options], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        if result.returncode != 0:
            print(result.stdout + result.stderr)
        return result.returncode == 0

    # ---- models

    def model(self, case):
        tensors = hf_tensors(case)
        out = self.folder / (case.name + ".gguf")
        source = self.folder_of(case.name, hf_config(case), tensors)
        if not self.convert(source, out, "--type", "f32"):
            return self.say(False, f"{case.name}: refused")
        reader = GGUFReader(out)
        made = {t.name: t for t in reader.tensors}
        expected = {n: w for n, w in case.weights().items() if n != "rope_freqs.weight"}  # random ones: no configuration says them
        different = [n for n, w in expected.items() if n not in made or made[n].data.tobytes() != w.tobytes()]
        more = sorted(set(made) - set(expected))
        wrong_keys = []
        for key, value in case.metadata().items():
            field = reader.fields.get(f"{case.arch}.{key}")
            got = field.contents() if field else None
            same = got is not None and (np.float32(got) == np.float32(value) if isinstance(value, float) else got == value)
            if not same and not (got is None and key in ("rope.scaling.type",)):
                wrong_keys.append((key, value, got))
        self.say(not different and not more and not wrong_keys,
                 f"{case.name}: {len(expected)} tensors, different {different[:3]}, more {more[:3]}, keys {wrong_keys[:4]}")
        back = self.folder / (case.name + "-back")
        if not self.convert(out, back):
            return self.say(False, f"{case.name}: not written back")
        again = load_file(back / "model.safetensors")
        same = set(again) == set(tensors) and all(again[n].tobytes() == tensors[n].tobytes() for n in tensors)
        self.say(same, f"{case.name}: back to {len(again)} tensors")
        twice = self.folder / (case.name + "-2.gguf")
        if not self.convert(back, twice, "--type", "f32", "--name", case.name):
            return self.say(False, f"{case.name}: its folder is refused")
        self.say(twice.read_bytes() == out.read_bytes(), f"{case.name}: and forth, byte for byte")

    # ---- packed codes

    def packed(self, name, quantization, make, exact_type):
        case = tiny_models.Case("packed", "qwen2", n_embd=128, n_ff=256, n_head=4, n_kv=4, n_layer=1)
        rng = np.random.default_rng(1)
        tensors, expected = hf_tensors(case), {}
        for key in [k for k in tensors if k.endswith("_proj.weight")]:
            n_out, n_in = tensors.pop(key).shape
            made, values = make(rng, n_in, n_out)
            tensors.update({key[:-len(".weight")] + "." + n: v for n, v in made.items()})
            expected[key] = values
        config = hf_config(case)
        config["quantization_config"] = quantization
        out = self.folder / (name + ".gguf")
        if not self.convert(self.folder_of(name, config, tensors), out):
            return self.say(False, f"{name}: refused")
        tensors = {t.name: t for t in GGUFReader(out).tensors}
        worst, types = 0.0, set()
        for key, gguf in (("self_attn.q_proj", "attn_q"), ("self_attn.o_proj", "attn_output"), ("mlp.down_proj", "ffn_down")):
            tensor = tensors[f"blk.0.{gguf}.weight"]
            got = dequantize(tensor.data, tensor.tensor_type)
            want = expected[f"model.layers.0.{key}.weight"]
            types.add(tensor.tensor_type.name)
            worst = max(worst, float(np.sqrt(np.sum((got - want) ** 2.0) / np.sum(want ** 2.0))))
        is_good = (worst == 0) if exact_type else worst < 2e-3
        self.say(is_good and (not exact_type or types == {exact_type}), f"{name}: {sorted(types)}, relative error {worst:.2e}")

    def eight_bit(self, name, by_row):
        case = tiny_models.Case("fp8", "qwen2", n_embd=128, n_ff=256, n_head=4, n_kv=4, n_layer=1)
        rng = np.random.default_rng(2)
        tensors = hf_tensors(case)
        key = "model.layers.0.mlp.down_proj.weight"
        n_out, n_in = tensors[key].shape
        codes = rng.integers(0, 0x7f, (n_out, n_in)).astype(np.uint8) | (rng.integers(0, 2, (n_out, n_in)) << 7).astype(np.uint8)
        exponent, mantissa = (codes >> 3 & 15).astype(np.int32), (codes & 7).astype(np.float64)
        values = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7)) * np.where(codes >> 7, -1, 1)
        scales = rng.uniform(0.01, 0.02, (n_out, 1) if by_row else (1, 2)).astype(np.float32)
        spread = scales if by_row else np.repeat(scales, 128, axis=1)
        want = (values.astype(np.float32) * spread).astype(np.float32)
        tensors[key], tensors[key + ("_scale" if by_row else "_scale_inv")] = codes, scales
        config = dict(hf_config(case), quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
        folder = self.folder_of(name, config, tensors)
        file = folder / "model.safetensors"  # numpy has no 8-bit floats: the header is told so afterwards, in as many bytes
        data = file.read_bytes()
        n_header = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + n_header])
        header[key]["dtype"] = "F8_E4M3"
        text = json.dumps(header, separators=(",", ":")).encode()
        file.write_bytes((len(text)).to_bytes(8, "little") + text + data[8 + n_header:])
        out = self.folder / (name + ".gguf")
        if not self.convert(folder, out, "--type", "f32"):
            return self.say(False, f"{name}: refused")
        tensor = next(t for t in GGUFReader(out).tensors if t.name == "blk.0.ffn_down.weight")
        self.say(np.array_equal(np.array(tensor.data), want), f"{name}: float32 products")

    # ---- tokenizers

    def tokenizer(self, path, n):
        import check_tokenizers as peers
        meta = peers.read_metadata(path)
        case = tiny_models.Case("vocab", "llama", n_vocab=len(meta["tokens"]), n_embd=8, n_head=1, n_kv=1, n_layer=1, n_ff=8)
        files = {"tokenizer.json": tokenizer_json(meta)} if meta["model"] == "gpt2" else {"tokenizer.model": sentencepiece_model(meta)}
        config = {k: meta[f"{k}"] for k in ("bos_token_id", "eos_token_id") if meta[k] is not None}
        name = "vocab-" + pathlib.Path(path).stem
        out = self.folder / (name + ".gguf")
        if not self.convert(self.folder_of(name, dict(hf_config(case), **config), hf_tensors(case), files), out):
            return self.say(False, f"{name}: refused")
        made = peers.read_metadata(out)
        same = [k for k in ("model", "tokens", "scores", "merges", "types") if made[k] != meta[k]]
        self.say(not [k for k in same if k != "types"], f"{name}: keys that differ {same}, pre {meta['pre']} → {made['pre']}")
        self.ids(name, self.folder / name, out, n)

    def ids(self, name, folder, gguf, n):
        """Ids by tamis from the GGUF file against those of the package that reads the folder's own file."""
        import check_tokenizers as peers
        texts = peers.strings(n + n // 20, 1)
        newer = peers.newer_than_peer(peers.read_metadata(gguf), texts)
        texts = [t for t in texts if newer.isdisjoint(t + unicodedata.normalize("NFD", t))][:n]
        if (folder / "tokenizer.model").exists():
            import sentencepiece
            theirs = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model")).encode(texts, out_type=int)
        else:
            from tokenizers import Tokenizer
            peer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            peer.encode_special_tokens = True  # spelled-out control tokens are text, as they are for tamis here
            theirs = [e.ids for e in peer.encode_batch(texts, add_special_tokens=False)]
        ours = peers.tamis_ids(argparse.Namespace(command=self.tamis + " tokenize -m {model} --inp {inp}"), gguf, texts)
        bad = [i for i in range(len(texts)) if ours[i] != list(theirs[i])]
        self.say(not bad and len(ours) == len(texts), f"{name}: ids of {len(texts)} strings, {len(bad)} differ")
        for i in bad[:3]:
            print("  ", json.dumps(texts[i]), ours[i], list(theirs[i]))


def tokenizer_json(meta):
    import tokenizer_patterns as patterns
    tokens = [t.decode() for t in meta["tokens"]]
    stages = [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False}
              for p in patterns.RULES[patterns.RULE_OF[meta["pre"]]]]
    if stages[-1]["pattern"]["Regex"] == patterns.GPT2:
        stages.pop()
    use_regex = len(stages) < len(patterns.RULES[patterns.RULE_OF[meta["pre"]]])
    stages.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex})
    added = [{"id": i, "content": t, "special": kind == 3, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
             for i, (t, kind) in enumerate(zip(tokens, meta["types"])) if kind in (3, 4)]
    merges = [[m[:m.index(" ", 1)], m[m.index(" ", 1) + 1:]] for m in meta["merges"]]
    vocab = {t: i for i, (t, kind) in enumerate(zip(tokens, meta["types"])) if kind != 5}
    return json.dumps({"version": "1.0", "added_tokens": added, "normalizer": {"type": "NFC"} if meta["pre"] in patterns.NFC else None,
                       "pre_tokenizer": {"type": "Sequence", "pretokenizers": stages}, "post_processor": None,
                       "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                       "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": meta["pre"] in patterns.IGNORE_MERGES, "vocab": vocab, "merges": merges}})


def sentencepiece_model(meta):
    from check_tokenizers import field
    out, unknown = b"", meta["unknown_token_id"] or 0
    for i, (token, kind, score) in enumerate(zip(meta["tokens"], meta["types"], meta["scores"])):
        # SentencePiece has one unknown piece and `</s>` is control; GGUF files type padding as unknown too
        kind = 2 if i == unknown else 3 if kind == 2 or (token == b"</s>" and kind == 4) else kind
        text = token.replace(b" ", "\u2581".encode()) if kind == 4 else token
        out += field(1, field(1, text) + field(2, score) + field(3, kind))
    out += field(2, field(3, 2) + field(35, 1) + field(40, unknown))
    return out + field(3, field(1, b"identity") + field(3, meta["add_space_prefix"] is not False) + field(4, False) + field(5, True))


def pack_gptq(codes, bits):
    """[n_in, n_out] → i32 words along the inputs, lowest bits first."""
    flat = ((codes[:, None, :] >> np.arange(bits)[None, :, None]) & 1).reshape(-1, codes.shape[1])  # one bit a row
    words = flat.reshape(-1, 32, codes.shape[1]).astype(np.uint64)
    return (words << np.arange(32, dtype=np.uint64)[None, :, None]).sum(1).astype(np.uint32).view(np.int32)


def gptq(bits, group, symmetric, shuffled=False):
    def make(rng, n_in, n_out):
        n_groups = n_in // group
        codes = rng.integers(0, 2**bits, (n_in, n_out))
        scales = rng.uniform(0.01, 0.02, (n_groups, n_out)).astype(np.float16)
        zeros = np.full((n_groups, n_out), 2**(bits - 1)) if symmetric else rng.integers(1, 2**bits, (n_groups, n_out))
        groups = (np.arange(n_in) // group).astype(np.int32)
        if shuffled:
            rng.shuffle(groups)
        values = scales.astype(np.float32)[groups] * (codes - zeros[groups]).astype(np.float32)
        return {"qweight": pack_gptq(codes, bits), "qzeros": np.ascontiguousarray(pack_gptq((zeros - 1).T, bits).T), "scales": scales,
                "g_idx": groups}, np.ascontiguousarray(values.T)
    return make


def awq(group):
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def pack(codes):
        words = np.zeros((codes.shape[0], codes.shape[1] // 8), dtype=np.uint32)
        for i, o in enumerate(order):
            words |= codes[:, o::8].astype(np.uint32) << np.uint32(4 * i)
        return words.view(np.int32)

    def make(rng, n_in, n_out):
        codes = rng.integers(0, 16, (n_in, n_out))
        scales = rng.uniform(0.01, 0.02, (n_in // group, n_out)).astype(np.float16)
        zeros = rng.integers(0, 16, (n_in // group, n_out))
        groups = np.arange(n_in) // group
        values = scales.astype(np.float32)[groups] * (codes - zeros[groups]).astype(np.float32)
        return {"qweight": pack(codes), "qzeros": pack(zeros), "scales": scales}, np.ascontiguousarray(values.T)
    return make


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tamis", default=str(ROOT / "build" / "release" / "tamis"))
    parser.add_argument("--vocab", nargs="*", default=[])
    parser.add_argument("--folder", nargs="*", default=[], help="Hugging Face folders whose tokenizers are compared too")
    parser.add_argument("-n", type=int, default=10000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(arguments.tamis, folder)
        for case in tiny_models.CASES:
            # What no checkpoint can say: sidecar scales, random RoPE divisors, values narrower than keys.
            dk, dv = case.head()
            if not any(t in case.tensors for t in ("scales", "expert_scales", "rope_freqs")) and dk == dv \
                    and case.extra.get("rope.dimension_count", dk) == dk:
                checker.model(case)
        for bits, exact in ((2, "Q4_0"), (3, "Q4_0"), (4, "Q4_0"), (8, "Q8_0")):
            checker.packed(f"gptq-{bits}", {"quant_method": "gptq", "bits": bits, "group_size": 32, "sym": True}, gptq(bits, 32, True), exact)
        checker.packed("gptq-asymmetric", {"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": False}, gptq(4, 64, False), None)
        checker.packed("gptq-shuffled", {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}, gptq(4, 32, True, True), None)
        checker.packed("awq", {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm"}, awq(64), None)
        checker.eight_bit("fp8-blocks", False)
        checker.eight_bit("fp8-rows", True)
        for path in arguments.vocab:
            checker.tokenizer(path, arguments.n)
        for path in map(pathlib.Path, arguments.folder):
            out = pathlib.Path(folder) / (path.name + ".gguf")
            if checker.convert(path, out):
                checker.ids(str(path), path, out, arguments.n)
    print("all good" if checker.n_bad == 0 else f"{checker.n_bad} failures")
    return 1 if checker.n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
