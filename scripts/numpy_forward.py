"""A decoder's forward pass in numpy, several windows at once, without activation quantization: for the judging of encoders.

Architectures: llama, qwen2, qwen3, gemma3 (dense). The tests hold it to `tamis logits --backend reference`.
"""
import numpy as np

NEG = np.float32(-1e30)


def rms_norm(x, weight, eps):
    return x * (1 / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + x.dtype.type(eps))) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + x.dtype.type(0.044715) * x * x * x)))


class Decoder:
    """Runs the tensors of a Model. `overlay` maps names to matrices used in place of the model's own."""

    def __init__(self, model, dtype=np.float32):
        self.model, self.dtype = model, dtype
        self.arch = model.architecture
        self.n_layer, self.n_embd = int(model.value("block_count")), int(model.value("embedding_length"))
        self.n_head = int(model.value("attention.head_count"))
        self.n_head_kv = int(model.value("attention.head_count_kv", self.n_head))
        self.head_dim = int(model.value("attention.key_length", self.n_embd // self.n_head))
        self.eps = float(model.value("attention.layer_norm_rms_epsilon"))
        self.window = int(model.value("attention.sliding_window", 0)) if self.arch == "gemma3" else 0
        if model.value("rope.scaling.type", "none") not in ("none", None):
            raise SystemExit(f"{model.path}: RoPE scaling is not in this forward pass")
        self.tables = {}

    def rope_table(self, n_ctx, base):
        if (n_ctx, base) not in self.tables:
            half = np.arange(self.head_dim // 2, dtype=np.float64)
            angle = np.outer(np.arange(n_ctx), base ** (-2 * half / self.head_dim))
            self.tables[n_ctx, base] = np.cos(angle).astype(self.dtype), np.sin(angle).astype(self.dtype)
        return self.tables[n_ctx, base]

    def rope(self, x, base):
        """x [windows, heads, n_ctx, head_dim]; pairs are neighbours for llama, halves elsewhere."""
        cos, sin = self.rope_table(x.shape[2], base)
        out = np.empty_like(x)
        half = self.head_dim // 2
        first, second = (np.s_[..., 0::2], np.s_[..., 1::2]) if self.arch == "llama" else (np.s_[..., :half], np.s_[..., half:])
        out[first] = x[first] * cos - x[second] * sin
        out[second] = x[first] * sin + x[second] * cos
        return out

    def is_local(self, layer):
        return self.arch == "gemma3" and (layer + 1) % 6 != 0

    def attention(self, q, k, v, layer):
        """q [windows, heads, n_ctx, head_dim], k and v with the KV heads; causal, over a window in gemma3's local layers."""
        group, n_ctx = self.n_head // self.n_head_kv, q.shape[2]
        position = np.arange(n_ctx)
        hidden = position[None, :] > position[:, None]
        if self.is_local(layer):
            hidden = hidden | (position[None, :] <= position[:, None] - self.window)
        out = np.empty_like(q)
        scale = self.dtype(1 / np.sqrt(self.head_dim))
        for head in range(self.n_head):
            score = np.matmul(q[:, head], k[:, head // group].transpose(0, 2, 1)) * scale
            score[:, hidden] = NEG
            score = np.exp(score - score.max(axis=-1, keepdims=True))
            out[:, head] = np.matmul(score, v[:, head // group]) / score.sum(axis=-1, keepdims=True)
        return out

    def hidden(self, ids, overlay=None, observe=None):
        """Final normed states [windows, n_ctx, n_embd]. ids [windows, n_ctx]; observe(name, inputs) sees each matrix's inputs."""
        def weight(name):
            return np.asarray((overlay or {}).get(name, self.model.tensors.get(name)), self.dtype)
        def linear(x, name):
            if observe:
                observe(f"{name}.weight", x)
            y = x @ weight(f"{name}.weight").T
            return y + weight(f"{name}.bias") if f"{name}.bias" in self.model.tensors else y
        def norm(x, name):
            return rms_norm(x, weight(f"{name}.weight"), self.eps)
        n_windows, n_ctx = ids.shape
        def heads(x, n):
            return x.reshape(n_windows, n_ctx, n, self.head_dim).transpose(0, 2, 1, 3)
        is_gemma = self.arch == "gemma3"
        base = float(self.model.value("rope.freq_base", 10000.0))
        x = self.model.tensors["token_embd.weight"][ids].astype(self.dtype).reshape(n_windows * n_ctx, -1)
        if is_gemma:
            x *= self.dtype(np.float32(np.sqrt(self.n_embd)))
        for layer in range(self.n_layer):
            at = f"blk.{layer}."
            h = norm(x, at + "attn_norm")
            q, k = heads(linear(h, at + "attn_q"), self.n_head), heads(linear(h, at + "attn_k"), self.n_head_kv)
            v = heads(linear(h, at + "attn_v"), self.n_head_kv)
            if at + "attn_q_norm.weight" in self.model.tensors:
                q, k = norm(q, at + "attn_q_norm"), norm(k, at + "attn_k_norm")
            theta = 10000.0 if self.is_local(layer) else base
            y = self.attention(self.rope(q, theta), self.rope(k, theta), v, layer)
            y = linear(y.transpose(0, 2, 1, 3).reshape(n_windows * n_ctx, -1), at + "attn_output")
            x = x + (norm(y, at + "post_attention_norm") if is_gemma else y)
            h = norm(x, at + "ffn_norm")
            gate = linear(h, at + "ffn_gate")
            gate = (gelu_tanh(gate) if is_gemma else silu(gate)) * linear(h, at + "ffn_up")
            y = linear(gate, at + "ffn_down")
            x = x + (norm(y, at + "post_ffw_norm") if is_gemma else y)
        return norm(x, "output_norm").reshape(n_windows, n_ctx, -1)

    def log_probs(self, states):
        """[n, n_vocab] of states [n, n_embd]."""
        head = self.model.tensors.get("output.weight", self.model.tensors["token_embd.weight"])
        logits = states @ np.asarray(head, self.dtype).T
        logits -= logits.max(axis=-1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True, dtype=np.float64)).astype(self.dtype)
        return logits


def scored(n_ctx):
    """The positions whose predictions are scored: the second half, the last one has no next token."""
    return slice(n_ctx // 2, n_ctx - 1)


def batches(ids, n_tokens=2048):
    step = max(1, n_tokens // ids.shape[1])
    return [ids[i:i + step] for i in range(0, len(ids), step)]


class Judge:
    """Mean KL(source || other) in nats over the scored positions of `ids` [windows, n_ctx]."""

    def __init__(self, decoder, ids):
        self.decoder, self.ids = decoder, ids
        self.base, nll = [], 0.0
        for window in self.windows(None):
            self.base.append(window)
        part = scored(ids.shape[1])
        for base, row in zip(self.base, ids):
            nll -= base[np.arange(len(base)), row[part.start + 1:part.stop + 1]].sum(dtype=np.float64)
        self.perplexity = float(np.exp(nll / (len(ids) * (part.stop - part.start))))

    def windows(self, overlay):
        part = scored(self.ids.shape[1])
        for batch in batches(self.ids):
            for states in self.decoder.hidden(batch, overlay):
                yield self.decoder.log_probs(states[part])

    def kl(self, overlay):
        """One mean KL for each window; their mean is the result."""
        return np.array([np.mean(np.sum(np.exp(base) * (base - other), axis=-1, dtype=np.float64))
                         for base, other in zip(self.base, self.windows(overlay))])


def importance(decoder, ids):
    """Mean squared input of each column of each matrix, {name: float32 [n_in]}, over windows ids."""
    sums = {}
    def observe(name, x):
        sums[name] = sums.get(name, 0) + np.square(x, dtype=np.float64).sum(axis=0)
    for batch in batches(ids):
        decoder.hidden(batch, observe=observe)
    return {name: (total / ids.size).astype(np.float32) for name, total in sums.items()}
