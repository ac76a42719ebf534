"""Permutations that keep a model's function: of the residual dimensions, of each layer's FFN neurons, and of the V dimensions of
each KV head. Rows of q and k stay where RoPE wants them.

An encoder sees other blocks and rounds elsewhere; the float model computes the same, but for the order of its sums.
"""
import re

import numpy as np

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
KEPT = re.compile(r"(attn_[qk]_norm\.weight|attn_[qk]\.bias|rope_freqs\.weight|rope_factors_(long|short)\.weight)$")
RESIDUAL_VECTOR = re.compile(r"((attn_norm|ffn_norm|post_attention_norm|post_ffw_norm|output_norm)\.weight|(attn_output|ffn_down)\.bias)$")
READS_RESIDUAL = re.compile(r"(^token_embd|^output|attn_[qkv]|ffn_gate|ffn_up)\.weight$")


class Permutation:
    """The permutations of one seed: `residual`, and for each layer `ffn` (neurons) and `v` (rows of attn_v), `heads` (columns of
    attn_output)."""

    def __init__(self, model, seed):
        if model.architecture not in ARCHITECTURES:
            raise SystemExit(f"{model.path}: architecture {model.architecture}, expected one of {', '.join(ARCHITECTURES)}")
        if seed == 0:   # the identity, so that runs over seeds 0 … n-1 hold the file as it is
            rng = Still()
        else:
            rng = np.random.default_rng(seed)
        n_embd, n_layer = int(model.value("embedding_length")), int(model.value("block_count"))
        n_head = int(model.value("attention.head_count"))
        n_head_kv = int(model.value("attention.head_count_kv", n_head))
        self.residual = rng.permutation(n_embd)
        self.ffn, self.v, self.heads = [], [], []
        for layer in range(n_layer):
            rows = model.shapes[f"blk.{layer}.attn_v.weight"][0]
            head_dim = rows // n_head_kv
            in_head = [rng.permutation(head_dim) for _ in range(n_head_kv)]
            self.v.append(np.concatenate([h * head_dim + p for h, p in enumerate(in_head)]))
            group = n_head // n_head_kv
            self.heads.append(np.concatenate([h * head_dim + in_head[h // group] for h in range(n_head)]))
            self.ffn.append(rng.permutation(model.shapes[f"blk.{layer}.ffn_up.weight"][0]))

    def columns(self, name):
        """The order of the input columns of a weight matrix."""
        layer = layer_of(name)
        if READS_RESIDUAL.search(name):
            return self.residual
        if name.endswith("attn_output.weight"):
            return self.heads[layer]
        if name.endswith("ffn_down.weight"):
            return self.ffn[layer]
        raise SystemExit(f"{name}: a matrix whose columns this script does not know")

    def rows(self, name):
        """The order of the output rows (of the elements of a vector), or None: they stay."""
        layer = layer_of(name)
        if RESIDUAL_VECTOR.search(name) or re.search(r"(attn_output|ffn_down)\.weight$", name):
            return self.residual
        if re.search(r"ffn_(gate|up)\.(weight|bias)$", name):
            return self.ffn[layer]
        if re.search(r"attn_v\.(weight|bias)$", name):
            return self.v[layer]
        if KEPT.search(name) or re.search(r"(^token_embd|^output|attn_[qk])\.weight$", name):
            return None
        raise SystemExit(f"{name}: a tensor this script does not know how to permute")

    def apply(self, name, values):
        if self.rows(name) is not None:
            values = values[self.rows(name)]
        return np.ascontiguousarray(values[:, self.columns(name)] if values.ndim > 1 else values)


class Still:
    def permutation(self, n):
        return np.arange(n)


def layer_of(name):
    match = re.match(r"blk\.(\d+)\.", name)
    return int(match[1]) if match else None
