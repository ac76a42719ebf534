"""Tiny random models of every architecture, and what they compute, in float64 numpy: written from the published formulas and the
Hugging Face implementations, apart from the C++ code, which is checked against it.

A model is a Case (metadata and prompt) plus weights that are a function of (tensor name, element index) alone, so that a test in
any language makes the same file from the case's text. Used by make_models.py (goldens) and scripts/check_parity.py (llama.cpp).
"""
import math
from dataclasses import dataclass, field

import numpy as np

U64 = np.uint64


def uniform(name, n):
    """n float32 in [-1, 1), multiples of 2^-23: splitmix64 of fnv1a(name) + index."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    with np.errstate(over="ignore"):
        z = U64(seed) + np.arange(1, n + 1, dtype=U64) * U64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
        z = z ^ (z >> U64(31))
    return ((z >> U64(40)).astype(np.float64) * 2.0**-23 - 1.0).astype(np.float32)


def values(case, name, shape):
    """The tensor of that name: matrices scaled to keep variance, gains about 1, small biases, factors and scales above 0."""
    u = uniform(case + "/" + name, math.prod(shape))
    if name.endswith(".bias"):
        out = u * np.float32(0.5)
    elif name.endswith(".scale"):
        out = np.float32(1) + u * np.float32(0.5)
    elif name.startswith("rope_"):
        out = np.float32(2) + u
    elif len(shape) == 1:
        out = np.float32(1) + u * np.float32(0.25)
    elif name == "token_embd.weight":
        out = u * np.float32(1.5)
    else:
        out = u * np.float32(math.sqrt(6.0 / shape[-1]))
    return out.reshape(shape).astype(np.float32)


@dataclass
class Case:
    name: str
    arch: str
    n_layer: int = 2
    n_embd: int = 32
    n_head: int = 4
    n_kv: int = 2
    dk: int = 0            # 0: n_embd / n_head, key left out
    dv: int = 0
    n_ff: int = 48
    n_vocab: int = 40
    n_ctx: int = 128
    eps: float = 1e-5
    base: float = 10000.0
    extra: dict = field(default_factory=dict)   # more metadata: key without the architecture -> int, float, bool, str
    tensors: tuple = ()                         # optional tensors present: "output", "rope_freqs", "qkv_bias", …
    n_tokens: int = 14
    runs_in_peer: bool = True
    long: bool = False                          # LongRoPE: prompt and training context are past the original one

    def head(self):
        return (self.dk or self.n_embd // self.n_head), (self.dv or self.n_embd // self.n_head)

    def ids(self):
        return [(3 + 7 * i + i * i) % self.n_vocab for i in range(self.n_tokens)]

    def metadata(self):
        kv = {"block_count": self.n_layer, "context_length": self.n_ctx, "embedding_length": self.n_embd,
              "feed_forward_length": self.n_ff, "attention.head_count": self.n_head, "attention.head_count_kv": self.n_kv,
              "attention.layer_norm_rms_epsilon": self.eps, "rope.freq_base": self.base, "vocab_size": self.n_vocab}
        if self.dk:
            kv["attention.key_length"] = self.dk
        if self.dv:
            kv["attention.value_length"] = self.dv
        kv.update(self.extra)
        return kv

    def shapes(self):
        """Name -> row-major shape of every tensor, in file order."""
        dk, dv = self.head()
        q, k, v, o = self.n_head * dk, self.n_kv * dk, self.n_kv * dv, self.n_head * dv
        e, f, gemma = self.n_embd, self.n_ff, self.arch in ("gemma2", "gemma3")
        n_rot = self.extra.get("rope.dimension_count", dk)
        out = {"token_embd.weight": (self.n_vocab, e), "output_norm.weight": (e,)}
        if "output" in self.tensors:
            out["output.weight"] = (self.n_vocab, e)
        for name in ("rope_freqs", "rope_factors_long", "rope_factors_short"):
            if name in self.tensors:
                out[name + ".weight"] = (n_rot // 2,)
        for i in range(self.n_layer):
            b = f"blk.{i}."
            out[b + "attn_norm.weight"] = (e,)
            if self.arch == "phi3":
                out[b + "attn_qkv.weight"] = (q + k + v, e)
            else:
                for n, w in (("q", q), ("k", k), ("v", v)):
                    out[b + f"attn_{n}.weight"] = (w, e)
                    if self.arch == "qwen2" or "qkv_bias" in self.tensors:
                        out[b + f"attn_{n}.bias"] = (w,)
            out[b + "attn_output.weight"] = (e, o)
            if "output_bias" in self.tensors:
                out[b + "attn_output.bias"] = (e,)
            if "scales" in self.tensors:
                for n in ("attn_q", "attn_output", "ffn_up", "ffn_down"):
                    out[b + n + ".scale"] = (1,)
            if self.arch in ("qwen3", "qwen3moe", "gemma3"):
                out[b + "attn_q_norm.weight"] = out[b + "attn_k_norm.weight"] = (dk,)
            if gemma:
                out[b + "post_attention_norm.weight"] = out[b + "post_ffw_norm.weight"] = (e,)
            out[b + "ffn_norm.weight"] = (e,)
            if self.n_expert():
                fe = self.extra.get("expert_feed_forward_length", f)
                out[b + "ffn_gate_inp.weight"] = (self.n_expert(), e)
                for n, s in (("gate", (fe, e)), ("up", (fe, e)), ("down", (e, fe))):
                    out[b + f"ffn_{n}_exps.weight"] = (self.n_expert(),) + s
                    if "expert_scales" in self.tensors:
                        out[b + f"ffn_{n}_exps.scale"] = (self.n_expert(),)
            elif self.arch == "phi3":
                out[b + "ffn_up.weight"], out[b + "ffn_down.weight"] = (2 * f, e), (e, f)
            else:
                out[b + "ffn_gate.weight"] = out[b + "ffn_up.weight"] = (f, e)
                out[b + "ffn_down.weight"] = (e, f)
                if "ffn_bias" in self.tensors:
                    out[b + "ffn_gate.bias"] = out[b + "ffn_up.bias"] = (f,)
                    out[b + "ffn_down.bias"] = (e,)
        return out

    def n_expert(self):
        return self.extra.get("expert_count", 0)

    def weights(self):
        return {name: values(self.name, name, shape) for name, shape in self.shapes().items()}

    def write(self, path):
        import gguf
        w = gguf.GGUFWriter(path, self.arch)
        for key, value in self.metadata().items():
            key = f"{self.arch}.{key}"
            if isinstance(value, bool):
                w.add_bool(key, value)
            elif isinstance(value, int):
                w.add_uint32(key, value)
            elif isinstance(value, float):
                w.add_float32(key, value)
            else:
                w.add_string(key, value)
        w.add_tokenizer_model("no_vocab")
        for name, tensor in self.weights().items():
            w.add_tensor(name, tensor)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()


_MOE = {"expert_count": 5, "expert_used_count": 2}
CASES = [
    Case("llama", "llama"),
    Case("llama_gqa3", "llama", n_layer=3, n_embd=40, n_head=3, n_kv=1, dk=24, dv=24, base=500000.0,
         extra={"rope.dimension_count": 24}, tensors=("output", "rope_freqs", "output_bias", "qkv_bias")),
    Case("llama_experts", "llama", n_layer=3, extra=dict(_MOE), tensors=("output",)),
    Case("llama_linear", "llama", extra={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    Case("llama_yarn", "llama", n_layer=1, n_embd=64, n_head=2, n_kv=1, n_ctx=4096,
         extra={"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 512}),
    Case("llama_sidecars", "llama", tensors=("scales", "ffn_bias"), runs_in_peer=False),
    Case("llama_expert_sidecars", "llama", extra=dict(_MOE), tensors=("expert_scales",), runs_in_peer=False),
    # Fault B21's three shapes: head size of its own, partial rotation, values narrower than keys.
    Case("llama_b21_head", "llama", n_layer=1, n_head=2, n_kv=1, dk=24, dv=24, extra={"rope.dimension_count": 24}),
    Case("llama_b21_partial", "llama", n_head=2, n_kv=1, dk=24, dv=24, extra={"rope.dimension_count": 8}, runs_in_peer=False),
    Case("llama_b21_values", "llama", n_head=2, n_kv=1, dk=24, dv=16, extra={"rope.dimension_count": 24}, runs_in_peer=False),
    Case("qwen2", "qwen2", n_kv=4, base=1000000.0),
    Case("qwen2_gqa3", "qwen2", n_layer=3, n_embd=48, n_head=6, n_kv=2, base=1000000.0, tensors=("output",)),
    Case("qwen3", "qwen3", dk=8, dv=8, base=1000000.0),
    Case("qwen3_gqa3", "qwen3", n_layer=3, n_embd=40, n_head=6, n_kv=2, dk=16, dv=16, eps=1e-6, tensors=("output",)),
    Case("qwen3moe", "qwen3moe", dk=8, dv=8, extra=dict(_MOE, expert_feed_forward_length=24)),
    Case("qwen3moe_gqa3", "qwen3moe", n_layer=3, n_embd=40, n_head=3, n_kv=1, dk=16, dv=16,
         extra={"expert_count": 7, "expert_used_count": 3, "expert_feed_forward_length": 20}, tensors=("output",)),
    Case("gemma", "gemma", dk=8, dv=8, eps=1e-6),
    Case("gemma_gqa3", "gemma", n_layer=3, n_embd=40, n_head=3, n_kv=1, dk=16, dv=16, eps=1e-6),
    Case("gemma2", "gemma2", dk=8, dv=8, eps=1e-6),
    Case("gemma2_window", "gemma2", n_layer=5, n_embd=40, n_head=3, n_kv=1, dk=16, dv=16, eps=1e-6, n_tokens=20,
         extra={"attention.sliding_window": 6, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0}),
    Case("gemma3", "gemma3", dk=8, dv=8, eps=1e-6, base=1000000.0, extra={"attention.sliding_window": 64}),
    Case("gemma3_window", "gemma3", n_layer=7, n_embd=40, n_head=3, n_kv=1, dk=16, dv=16, eps=1e-6, base=1000000.0, n_tokens=20,
         extra={"attention.sliding_window": 5, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0}),
    Case("phi3", "phi3", n_kv=4, extra={"rope.dimension_count": 8}),
    Case("phi3_gqa3", "phi3", n_layer=3, n_embd=48, n_head=6, n_kv=2, n_ctx=512,
         extra={"rope.dimension_count": 8, "rope.scaling.original_context_length": 512, "rope.scaling.attn_factor": 1.19},
         tensors=("output", "rope_factors_long", "rope_factors_short")),
    Case("phi3_long", "phi3", n_layer=1, n_embd=48, n_head=6, n_kv=2, n_ctx=128, long=True,
         extra={"rope.dimension_count": 8, "rope.scaling.original_context_length": 8, "rope.scaling.attn_factor": 1.19},
         tensors=("rope_factors_long", "rope_factors_short")),
    # llama.cpp drops phi3's window (its converter fills the key unreliably); transformers applies it.
    Case("phi3_window", "phi3", extra={"rope.dimension_count": 8, "attention.sliding_window": 5}, runs_in_peer=False),
]


def rms(x, gain, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float64(np.float32(eps))) * gain


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_of_f16_table(x):
    """llama.cpp's GELU: argument and result rounded to half precision inside (-10, 10)."""
    table = gelu_tanh(x.astype(np.float16).astype(np.float64)).astype(np.float16).astype(np.float64)
    return np.where(x <= -10, 0.0, np.where(x >= 10, x, table))


def frequencies(case, weights, is_windowed):
    """(radians a position for each pair, magnitude), as transformers' modeling_rope_utils.py computes them."""
    x, n_rot = case.extra, case.extra.get("rope.dimension_count", case.head()[0])
    base = 10000.0 if case.arch == "gemma3" and is_windowed else np.float64(np.float32(case.base))
    freq = 1.0 / base ** (np.arange(0, n_rot, 2) / n_rot)
    if case.arch == "gemma3" and is_windowed:
        return freq, 1.0
    if "rope_freqs.weight" in weights:
        return freq / weights["rope_freqs.weight"], 1.0
    if "rope_factors_long.weight" in weights:
        return freq / weights["rope_factors_long.weight" if case.long else "rope_factors_short.weight"], np.float64(
            np.float32(x["rope.scaling.attn_factor"]))
    factor = x.get("rope.scaling.factor", 1.0)
    if x.get("rope.scaling.type") == "yarn":
        original = x["rope.scaling.original_context_length"]
        border = lambda turns: n_rot * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
        low, high = max(math.floor(border(32)), 0), min(math.ceil(border(1)), n_rot - 1)
        keep = 1 - np.clip((np.arange(n_rot // 2) - low) / max(high - low, 0.001), 0, 1)
        return freq / factor * (1 - keep) + freq * keep, 0.1 * math.log(factor) + 1
    return freq / factor, 1.0


def rotate(case, x, freq, magnitude):
    """x [tokens, heads, dim]: the first 2·len(freq) elements of each head turned by position, as complex numbers."""
    n = len(freq)
    turn = magnitude * np.exp(1j * np.outer(np.arange(len(x)), freq))[:, None, :]
    out = x.copy()
    if case.arch == "llama":
        z = (x[..., 0:2 * n:2] + 1j * x[..., 1:2 * n:2]) * turn
        out[..., 0:2 * n:2], out[..., 1:2 * n:2] = z.real, z.imag
    else:
        z = (x[..., :n] + 1j * x[..., n:2 * n]) * turn
        out[..., :n], out[..., n:2 * n] = z.real, z.imag
    return out


def forward(case, gelu=gelu_tanh, honours_window=True):
    """Logits [tokens, n_vocab] in float64."""
    w = {name: tensor.astype(np.float64) for name, tensor in case.weights().items()}
    x, ids = case.extra, case.ids()
    dk, dv = case.head()
    gelu_arch, gemma = case.arch.startswith("gemma"), case.arch in ("gemma2", "gemma3")
    n, group = len(ids), case.n_head // case.n_kv

    def linear(name, value):
        value = value @ w[name + ".weight"].T * w.get(name + ".scale", 1.0)
        return value + w.get(name + ".bias", 0.0)

    h = w["token_embd.weight"][ids] * (math.sqrt(case.n_embd) if gelu_arch else 1.0)
    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    for i in range(case.n_layer):
        b = f"blk.{i}."
        window = x.get("attention.sliding_window", 4096 if case.arch == "gemma2" else 0) if honours_window else 0
        if case.arch == "gemma2" and i % 2 == 1 or case.arch == "gemma3" and i % 6 == 5:
            window = 0
        a = rms(h, w[b + "attn_norm.weight"], case.eps)
        if case.arch == "phi3":
            q, k, v = np.split(linear(b + "attn_qkv", a), [case.n_head * dk, (case.n_head + case.n_kv) * dk], axis=1)
        else:
            q, k, v = (linear(b + "attn_" + part, a) for part in "qkv")
        q, k, v = q.reshape(n, case.n_head, dk), k.reshape(n, case.n_kv, dk), v.reshape(n, case.n_kv, dv)
        if b + "attn_q_norm.weight" in w:
            q, k = rms(q, w[b + "attn_q_norm.weight"], case.eps), rms(k, w[b + "attn_k_norm.weight"], case.eps)
        freq = frequencies(case, w, window > 0)
        q, k = rotate(case, q, *freq), rotate(case, k, *freq)
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        s = np.einsum("thd,shd->hts", q, k) / math.sqrt(dk)
        if case.arch == "gemma2":
            cap = x.get("attn_logit_softcapping", 50.0)
            s = cap * np.tanh(s / cap)
        hidden = (distance < 0) | ((distance >= window) if window else False)
        s = np.where(hidden[None], -np.inf, s)
        a = linear(b + "attn_output", np.einsum("hts,shd->thd", softmax(s), v).reshape(n, -1))
        if gemma:
            a = rms(a, w[b + "post_attention_norm.weight"], case.eps)
        h = h + a

        f = rms(h, w[b + "ffn_norm.weight"], case.eps)
        if case.n_expert():
            p = softmax(f @ w[b + "ffn_gate_inp.weight"].T)
            out = np.zeros_like(f)
            for t in range(n):
                chosen = np.argsort(-p[t], kind="stable")[:x["expert_used_count"]]
                share = p[t][chosen] / p[t][chosen].sum()
                expert = lambda part, e, value: (w[f"{b}ffn_{part}_exps.weight"][e] @ value
                                                 * w.get(f"{b}ffn_{part}_exps.scale", np.ones(e + 1))[e])
                for e, weight in zip(chosen, share):
                    inner = silu(expert("gate", e, f[t])) * expert("up", e, f[t])
                    out[t] += weight * expert("down", e, inner)
            f = out
        else:
            if case.arch == "phi3":
                gate, up = np.split(linear(b + "ffn_up", f), 2, axis=1)
            else:
                gate, up = linear(b + "ffn_gate", f), linear(b + "ffn_up", f)
            f = linear(b + "ffn_down", (gelu if gelu_arch else silu)(gate) * up)
        if gemma:
            f = rms(f, w[b + "post_ffw_norm.weight"], case.eps)
        h = h + f
    h = rms(h, w["output_norm.weight"], case.eps)
    logits = h @ w["output.weight" if "output.weight" in w else "token_embd.weight"].T
    cap = x.get("final_logit_softcapping", 30.0 if case.arch == "gemma2" else 0.0)
    return cap * np.tanh(logits / cap) if cap else logits
