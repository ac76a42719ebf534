#!/usr/bin/env python3
"""Makes tests/golden/cli_*.gguf: small files for the tests of the command line. Needs gguf 0.19 and numpy."""
import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
N_EMBD, N_FF, N_VOCAB, N_HEAD = 64, 96, 262, 4
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def byte_alphabet():
    """GPT-2's printable stand-ins for the 256 bytes."""
    kept = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    extra = iter(range(256, 512))
    return [chr(b) if b in kept else chr(next(extra)) for b in range(256)]


def add_vocabulary(w):
    tokens = byte_alphabet() + ["he", "ll", "hell", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types([1] * 259 + [3] * 3)
    w.add_token_merges(["h e", "l l", "he ll"])
    w.add_bos_token_id(259)
    w.add_eos_token_id(261)
    w.add_add_bos_token(False)
    w.add_chat_template(TEMPLATE)


def tensor(w, rng, name, shape, kind=gguf.GGMLQuantizationType.F32):
    values = (rng.integers(-64, 64, size=shape) / 64).astype(np.float32)
    if kind == gguf.GGMLQuantizationType.F32:
        w.add_tensor(name, values)
    else:
        w.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)


def model(path, name, changed=False):
    q = gguf.GGMLQuantizationType
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name(name)
    w.add_license("mit")
    w.add_file_type(2)
    w.add_block_count(2)
    w.add_context_length(128)
    w.add_embedding_length(N_EMBD)
    w.add_feed_forward_length(N_FF)
    w.add_head_count(N_HEAD)
    w.add_head_count_kv(2)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(10000.0)
    if changed:
        w.add_string("general.quantized_by", "make_cli.py")
    add_vocabulary(w)
    tensor(w, rng, "token_embd.weight", (N_VOCAB, N_EMBD), q.Q8_0)
    for layer in range(2):
        p = f"blk.{layer}."
        tensor(w, rng, p + "attn_norm.weight", (N_EMBD,))
        tensor(w, rng, p + "attn_q.weight", (N_EMBD, N_EMBD), q.Q4_0)
        tensor(w, rng, p + "attn_k.weight", (N_EMBD // 2, N_EMBD), q.Q4_0)
        tensor(w, rng, p + "attn_v.weight", (N_EMBD // 2, N_EMBD), q.Q8_0 if changed and layer == 1 else q.Q4_0)
        tensor(w, rng, p + "attn_output.weight", (N_EMBD, N_EMBD), q.Q4_0)
        tensor(w, rng, p + "ffn_norm.weight", (N_EMBD,))
        tensor(w, rng, p + "ffn_gate.weight", (N_FF, N_EMBD), q.Q4_0)
        tensor(w, rng, p + "ffn_up.weight", (N_FF, N_EMBD), q.Q4_0)
        tensor(w, rng, p + "ffn_down.weight", (N_EMBD, N_FF), q.Q4_0)
    if changed:
        rng = np.random.default_rng(2)
    tensor(w, rng, "output_norm.weight", (N_EMBD,))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def vocabulary(path):
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("a \x1b[31mname\x07 with <b>marks</b>")
    add_vocabulary(w)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


model(HERE / "cli_tiny.gguf", "tiny")
model(HERE / "cli_tiny_b.gguf", "tiny, changed", changed=True)
vocabulary(HERE / "cli_vocab.gguf")
