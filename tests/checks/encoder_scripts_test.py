"""permute_model keeps a model's function, dither_model stays within half a step and leaves no grid. Skipped without numpy and gguf."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
try:
    import gguf
    import numpy as np
    from gguf_numpy import Model, write_model
    from numpy_forward import Decoder
    from permuted import Permutation
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

N_EMBD, N_FF, N_HEAD, N_HEAD_KV, HEAD_DIM, N_VOCAB, N_LAYER = 64, 96, 4, 2, 16, 40, 2
# What the order of double sums may move: rounding of log-probabilities of size 10, squared.
MAX_KL = 1e-12


def script(name):
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def make_model(path, architecture, quantize=None):
    """A random model with every tensor the architecture has; matrices as F32 or as the given type."""
    rng = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_embedding_length(N_EMBD)
    writer.add_block_count(N_LAYER)
    writer.add_head_count(N_HEAD)
    writer.add_head_count_kv(N_HEAD_KV)
    writer.add_key_length(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(0)
    def matrix(name, n_out, n_in):
        values = rng.normal(0, 0.3, (n_out, n_in)).astype(np.float32)
        if quantize:
            writer.add_tensor(name, gguf.quants.quantize(values, quantize), raw_dtype=quantize)
        else:
            writer.add_tensor(name, values)
    def vector(name, n):
        writer.add_tensor(name, rng.normal(1, 0.2, n).astype(np.float32))
    matrix("token_embd.weight", N_VOCAB, N_EMBD)
    vector("output_norm.weight", N_EMBD)
    for layer in range(N_LAYER):
        at = f"blk.{layer}."
        for name, n_out, n_in in (("attn_q", N_HEAD * HEAD_DIM, N_EMBD), ("attn_k", N_HEAD_KV * HEAD_DIM, N_EMBD),
                                  ("attn_v", N_HEAD_KV * HEAD_DIM, N_EMBD), ("attn_output", N_EMBD, N_HEAD * HEAD_DIM),
                                  ("ffn_gate", N_FF, N_EMBD), ("ffn_up", N_FF, N_EMBD), ("ffn_down", N_EMBD, N_FF)):
            matrix(f"{at}{name}.weight", n_out, n_in)
        for name in ("attn_norm", "ffn_norm") + (("post_attention_norm", "post_ffw_norm") if architecture == "gemma3" else ()):
            vector(f"{at}{name}.weight", N_EMBD)
        if architecture == "qwen2":
            for name, n in (("attn_q", N_HEAD * HEAD_DIM), ("attn_k", N_HEAD_KV * HEAD_DIM), ("attn_v", N_HEAD_KV * HEAD_DIM)):
                vector(f"{at}{name}.bias", n)
        if architecture in ("qwen3", "gemma3"):
            for name in ("attn_q_norm", "attn_k_norm"):
                vector(f"{at}{name}.weight", HEAD_DIM)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def kl(base, other):
    ids = np.arange(24).reshape(1, -1) % N_VOCAB
    a, b = (d.log_probs(d.hidden(ids)[0]) for d in (Decoder(base, np.float64), Decoder(other, np.float64)))
    return float((np.exp(a) * (a - b)).sum(-1).mean())


class Permute(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def permuted(self, model, permutation):
        path = self.folder / "permuted.gguf"
        write_model(model, {n: permutation.apply(n, v) for n, v in model.tensors.items()}, path, force=True)
        return Model(path)

    def test_function_stays_while_weights_move(self):
        for architecture in ("llama", "qwen2", "qwen3", "gemma3"):
            with self.subTest(architecture):
                make_model(self.folder / "a.gguf", architecture)
                model = Model(self.folder / "a.gguf")
                other = self.permuted(model, Permutation(model, 3))
                self.assertLess(abs(kl(model, other)), MAX_KL)
                for name, values in model.tensors.items():
                    if values.ndim > 1:
                        self.assertFalse(np.array_equal(values, other.tensors[name]), name)

    def test_a_wrong_permutation_is_seen(self):
        make_model(self.folder / "a.gguf", "llama")
        model = Model(self.folder / "a.gguf")
        permutation = Permutation(model, 3)
        permutation.heads[1] = permutation.heads[1][::-1]
        self.assertGreater(kl(model, self.permuted(model, permutation)), 1e-3)

    def test_seed_0_writes_the_same_tensors(self):
        make_model(self.folder / "a.gguf", "qwen2")
        model = Model(self.folder / "a.gguf")
        other = self.permuted(model, Permutation(model, 0))
        for name, values in model.tensors.items():
            self.assertTrue(np.array_equal(values, other.tensors[name]), name)

    def test_the_program_refuses_what_it_does_not_know_and_existing_files(self):
        make_model(self.folder / "a.gguf", "mamba")
        with self.assertRaises(SystemExit):
            Permutation(Model(self.folder / "a.gguf"), 1)
        make_model(self.folder / "b.gguf", "llama")
        model = Model(self.folder / "b.gguf")
        with self.assertRaises(SystemExit):
            write_model(model, model.tensors, self.folder / "a.gguf")


class Dither(unittest.TestCase):
    def test_noise_is_half_a_step_and_leaves_no_grid(self):
        dither = script("dither_model")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
                kind = gguf.GGMLQuantizationType[name]
                path = pathlib.Path(folder) / f"{name}.gguf"
                make_model(path, "llama", kind)
                model = Model(path)
                blurred = dict(dither.dithered(model, np.random.default_rng(1)))
                for tensor, values in model.tensors.items():
                    if values.ndim == 1:
                        self.assertTrue(np.array_equal(values, blurred[tensor]))
                        continue
                    step = dither.steps(model.raw[tensor], name).reshape(values.shape)
                    off = np.abs(blurred[tensor] - values)
                    rounding = np.spacing(np.abs(values) + step)
                    self.assertTrue((off <= step / 2 + rounding).all(), name)
                    # Uniform in ± step/2: a quarter of a step on average, half of it past a quarter; no grid is left.
                    self.assertAlmostEqual(float((off / step).mean()), 0.25, delta=0.02)
                    codes = gguf.quants.quantize(blurred[tensor], kind)
                    again = gguf.quants.dequantize(codes, kind)
                    self.assertGreater(float(np.mean(np.abs(again - blurred[tensor]) > step / 100)), 0.9)

    def test_steps_of_k_types_are_the_scale_of_the_sub_block(self):
        dither = script("dither_model")
        block = np.zeros((1, 144), np.uint8)
        block[0, 0:2] = np.frombuffer(np.float16(0.5).tobytes(), np.uint8)
        block[0, 4:8] = [3, 5, 7, 9]     # 6-bit scales of the first four sub-blocks
        block[0, 16:] = np.random.default_rng(0).integers(0, 256, 128)
        step = dither.steps(block, "Q4_K")
        self.assertEqual([float(step[32 * i]) for i in range(4)], [1.5, 2.5, 3.5, 4.5])
        self.assertTrue(np.array_equal(np.unique(step[:32]), [1.5]))


if __name__ == "__main__":
    unittest.main()
