#!/usr/bin/env python3
"""What goes wrong around a run of the verbs that write models: usage: faults_test.py TAMIS

  full disk        every write limit (RLIMIT_FSIZE, and a real small tmpfs where one can be mounted): exit 4, one line that names
                   the file, and an empty output folder
  killed           the same limit with its signal left deadly ends the program in the middle of a write, without any handler:
                   nothing under a final name, the next run gives the same bytes, and `quantize --resume` goes on to them
  unreadable shard missing, cut, a folder, not permitted: the shard's name, and nothing written
  other model's imatrix, by names and by sizes: named before any work
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TINY = SOURCE / "tests" / "golden" / "cli_tiny.gguf"
TEXT = SOURCE / "tests" / "golden" / "make_cli.py"
TEMPORARY = (".tmp", ".partial", ".journal")
N_EMBD, N_FF, N_VOCAB, N_LAYERS = 256, 768, 1024, 2


def write_model(path):
    """A llama of 7 MB in F32: large enough that files are written piece by piece."""
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    for add, value in ((writer.add_block_count, N_LAYERS), (writer.add_context_length, 64), (writer.add_embedding_length, N_EMBD),
                       (writer.add_feed_forward_length, N_FF), (writer.add_head_count, 4), (writer.add_head_count_kv, 4),
                       (writer.add_vocab_size, N_VOCAB), (writer.add_layer_norm_rms_eps, 1e-5)):
        add(value)
    shapes = {"token_embd.weight": (N_VOCAB, N_EMBD), "output_norm.weight": (N_EMBD,)}
    for i in range(N_LAYERS):
        shapes.update({f"blk.{i}.{name}.weight": (N_EMBD, N_EMBD) for name in ("attn_q", "attn_k", "attn_v", "attn_output")})
        shapes.update({f"blk.{i}.{name}.weight": (N_EMBD,) for name in ("attn_norm", "ffn_norm")})
        shapes.update({f"blk.{i}.ffn_gate.weight": (N_FF, N_EMBD), f"blk.{i}.ffn_up.weight": (N_FF, N_EMBD),
                       f"blk.{i}.ffn_down.weight": (N_EMBD, N_FF)})
    for name, shape in shapes.items():
        writer.add_tensor(name, (rng.standard_normal(shape) * 0.05).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_imatrix(path, entries):
    """llama-imatrix's older form: the sums of one call a weight."""
    with open(path, "wb") as file:
        file.write(struct.pack("<i", len(entries)))
        for name, n in entries.items():
            file.write(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 1, n) + struct.pack("<f", 1.0) * n)


def split_safetensors(folder, n_shards):
    """model.safetensors of a folder → shards, by the format's text alone."""
    data = (folder / "model.safetensors").read_bytes()
    n_header = int.from_bytes(data[:8], "little")
    tensors = {n: t for n, t in json.loads(data[8:8 + n_header]).items() if n != "__metadata__"}
    names, body = sorted(tensors), data[8 + n_header:]
    for shard in range(n_shards):
        header, part = {}, b""
        for name in names[shard::n_shards]:
            begin, end = tensors[name]["data_offsets"]
            header[name] = dict(tensors[name], data_offsets=[len(part), len(part) + end - begin])
            part += body[begin:end]
        text = json.dumps(header).encode()
        (folder / f"model-{shard + 1:05}-of-{n_shards:05}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + part)
    (folder / "model.safetensors").unlink()


class Tests:
    def __init__(self, tamis, folder):
        self.tamis, self.folder, self.n_checks, self.n_bad = tamis, folder, 0, 0
        self.inputs, self.out = folder / "in", folder / "out"
        self.inputs.mkdir()
        write_model(self.inputs / "model.gguf")
        self.must("split", "in/model.gguf", "in/s", "--max-tensors", "8")
        self.must("convert", "in/model.gguf", "-o", "in/hf")
        shutil.copytree(self.inputs / "hf", self.inputs / "sharded")
        split_safetensors(self.inputs / "sharded", 3)
        small = ("-m", str(TINY), "-f", str(TEXT), "-c", "32", "--chunks", "2", "--no-ppl")
        self.writers = {  # arguments, and the names that appear
            "quantize": (["quantize", "in/model.gguf", "out/x.gguf", "Q8_0", "2"], ["x.gguf"]),
            "quantize a set": (["quantize", "in/s-00001-of-00003.gguf", "out/k.gguf", "Q8_0", "--keep-split"],
                               [f"k-0000{i}-of-00003.gguf" for i in (1, 2, 3)]),
            "convert": (["convert", "in/sharded", "-o", "out/x.gguf"], ["x.gguf"]),
            "convert to Q8_0": (["convert", "in/hf", "-o", "out/x.gguf", "--type", "Q8_0"], ["x.gguf"]),
            "convert back": (["convert", "in/model.gguf", "-o", "out/hf"], ["hf"]),
            "edit": (["edit", "in/model.gguf", "-o", "out/x.gguf", "--set", "general.name=str:Fido"], ["x.gguf"]),
            "split": (["split", "in/model.gguf", "out/p", "--max-tensors", "8"], [f"p-0000{i}-of-00003.gguf" for i in (1, 2, 3)]),
            "merge": (["merge", "in/s-00002-of-00003.gguf", "out/x.gguf"], ["x.gguf"]),
            "imatrix": (["imatrix", *small, "-o", "out/x.gguf"], ["x.gguf"]),
            "imatrix .dat": (["imatrix", *small, "-o", "out/x.dat"], ["x.dat"]),
            "logits": (["logits", "-m", str(TINY), "--ids", "1,2,3", "-o", "out/x.npy"], ["x.npy"]),
        }

    # ---- running

    def run(self, *arguments, limit=None, is_deadly=False):
        """With a limit no file may grow past so many bytes: writing on fails, or ends the program where is_deadly."""
        def set_limits():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        # Python ignores SIGXFSZ; restore_signals decides whether its child does.
        return subprocess.run([self.tamis, *arguments, "-q"], cwd=self.folder, capture_output=True, text=True, timeout=120,
                              preexec_fn=set_limits, restore_signals=is_deadly, check=False)

    def must(self, *arguments):
        done = self.run(*arguments)
        if done.returncode != 0:
            sys.exit(f"tamis {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")

    def check(self, holds, text, done=None):
        self.n_checks += 1
        if holds:
            return
        self.n_bad += 1
        print("FAIL", text + ("" if done is None else f": exit {done.returncode}\n{done.stderr}"))

    def fresh(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()

    def there(self):
        return sorted(p.name for p in self.out.iterdir())

    def bytes_of(self, names):
        """Of files, and of all files of a folder, but for the names of temporary ones."""
        found = {}
        for name in names:
            path = self.out / name
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                found[str(file.relative_to(self.out))] = file.read_bytes()
        return found

    def expect_error(self, what, done, code, *words):
        lines = [line for line in done.stderr.splitlines() if line.startswith("tamis: ") and line.endswith("]")]
        self.check(done.returncode == code and len(lines) == 1 and all(word in lines[0] for word in words),
                   f"{what}: expected exit {code} and one line with {words}", done)

    # ---- the faults

    def full_disk(self, what, arguments, limits):
        for limit in limits:
            self.fresh()
            done = self.run(*arguments, limit=limit)
            self.expect_error(f"{what}, disk full at {limit}", done, 4, "out/", "cannot write: File too large", "[out_of_memory]")
            self.check(self.there() == [], f"{what}, disk full at {limit}: left {self.there()}")

    def killed(self, what, arguments, names, limits, whole):
        for limit in limits:
            self.fresh()
            done = self.run(*arguments, limit=limit, is_deadly=True)
            self.check(done.returncode == -signal.SIGXFSZ, f"{what}, killed at {limit}", done)
            # Of a set the shards that were complete may stand: the last one is missing.
            self.check(names[-1] not in self.there(), f"{what}, killed at {limit}: {names[-1]} is there")
            if len(names) == 1:
                others = [n for n in self.there() if not n.endswith(TEMPORARY) and not (n.startswith("hf.") and what == "convert back")]
                self.check(others == [], f"{what}, killed at {limit}: left {others}")
            again = self.run(*arguments, *(["--force"] if len(names) > 1 else []))
            self.check(again.returncode == 0 and self.bytes_of(names) == whole, f"{what}, again after a kill at {limit}", again)

    def resumed(self, what, arguments, names, limits, whole):
        """Killed again and again, each time a little later; then let go to the end."""
        self.fresh()
        for limit in limits:
            done = self.run(*arguments, "--resume", limit=limit, is_deadly=True)
            self.check(done.returncode == -signal.SIGXFSZ, f"{what} --resume, killed at {limit}", done)
        done = self.run(*arguments, "--resume")
        self.check(done.returncode == 0 and self.bytes_of(names) == whole, f"{what} --resume: the same bytes", done)
        self.check(self.there() == names, f"{what} --resume: left {self.there()}")

    def every_writer(self):
        for what, (arguments, names) in self.writers.items():
            self.fresh()
            self.must(*arguments)
            self.check(self.there() == names, f"{what}: wrote {self.there()}")
            whole = self.bytes_of(names)
            size = max(len(data) for data in whole.values())
            self.full_disk(what, arguments, (0, size // 2, size - 1))
            self.killed(what, arguments, names, (0, size // 2, size - 1), whole)
            if what.startswith("quantize"):
                self.resumed(what, arguments, names, [size * i // 8 for i in (1, 2, 5, 7)], whole)

    def small_disk(self):
        """A real disk without room: 256 kB."""
        mount = "mount -t tmpfs -o size=256k tmpfs out"
        self.fresh()
        if subprocess.run(["unshare", "-rm", "sh", "-c", mount], cwd=self.folder, capture_output=True, check=False).returncode != 0:
            print("skipped: full disk on a tmpfs (none can be mounted here)")
            return
        for what, (arguments, _) in self.writers.items():
            if what.startswith(("imatrix", "logits")):
                continue  # they write less
            script = f'{mount}; "$@" -q; code=$?; ls -A out; exit $code'
            done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", self.tamis, *arguments], cwd=self.folder,
                                  capture_output=True, text=True, timeout=120, check=False)
            words = ["bytes of disk", "are free"] if what.startswith("quantize") else ["cannot write: No space left on device"]
            self.expect_error(f"{what}, on a small disk", done, 4, "out/", "[out_of_memory]", *words)
            self.check(done.stdout == "", f"{what}, on a small disk: left {done.stdout.split()}")

    def unreadable_shards(self):
        readers = {
            "s-00002-of-00003.gguf": [["quantize", "in/s-00001-of-00003.gguf", "out/x.gguf", "Q8_0"],
                                      ["edit", "in/s-00001-of-00003.gguf", "-o", "out/x.gguf", "--set", "general.name=str:Fido"],
                                      ["merge", "in/s-00001-of-00003.gguf", "out/x.gguf"],
                                      ["convert", "in/s-00001-of-00003.gguf", "-o", "out/hf"],
                                      ["imatrix", "-m", "in/s-00001-of-00003.gguf", "-f", str(TEXT), "-o", "out/x.gguf"]],
            "sharded/model-00002-of-00003.safetensors": [["convert", "in/sharded", "-o", "out/x.gguf"]],
        }
        for name, commands in readers.items():
            path, kept = self.inputs / name, self.folder / "kept"
            path.rename(kept)
            faults = {"missing": lambda: None, "cut": lambda: path.write_bytes(kept.read_bytes()[:-1000]), "a folder": path.mkdir}
            if os.geteuid() != 0:  # root may read everything
                faults["not permitted"] = lambda: (path.write_bytes(kept.read_bytes()), path.chmod(0))
            for fault, make in faults.items():
                make()
                for arguments in commands:
                    self.fresh()
                    done = self.run(*arguments)
                    is_set = fault == "missing" and name.endswith(".safetensors")  # found by counting the names that are there
                    code = {"missing": 1 if is_set else 3, "cut": 3}.get(fault, 1)
                    self.expect_error(f"{arguments[0]}, shard {fault}", done, code, "2 of 3 shards" if is_set else path.name)
                    self.check(self.there() == [], f"{arguments[0]}, shard {fault}: left {self.there()}")
                if path.is_dir():
                    path.rmdir()
                path.unlink(missing_ok=True)
            kept.rename(path)

    def other_imatrix(self):
        write_imatrix(self.inputs / "names.dat", {"blk.0.ssm_in.weight": N_EMBD, "blk.1.ssm_in.weight": N_EMBD})
        write_imatrix(self.inputs / "sizes.dat", {"blk.0.attn_q.weight": N_EMBD, "blk.0.ffn_down.weight": N_FF + 1})
        commands = [["quantize", "in/model.gguf", "out/x.gguf", "Q4_K_M", "--imatrix"],
                    ["convert", "in/hf", "-o", "out/x.gguf", "--type", "Q4_K_M", "--imatrix"]]
        for arguments in commands:
            for name, words in (("in/names.dat", ("another model", "blk.0.ssm_in.weight")),
                                ("in/sizes.dat", ("blk.0.ffn_down.weight", f"{N_FF + 1} columns", f"1 of {N_FF}"))):
                self.fresh()
                done = self.run(*arguments, name)
                self.expect_error(f"{arguments[0]}, {name}", done, 3, name, *words)
                self.check(self.there() == [], f"{arguments[0]}, {name}: left {self.there()}")
        self.fresh()
        done = self.run("imatrix", "-m", str(TINY), "-f", str(TEXT), "-c", "32", "--in-file", "in/names.dat", "-o", "out/x.gguf")
        self.expect_error("imatrix, in/names.dat", done, 3, "another model", "blk.0.ssm_in.weight")
        self.check(self.there() == [], f"imatrix, in/names.dat: left {self.there()}")


def main():
    with tempfile.TemporaryDirectory(prefix="tamis-faults-") as name:
        tests = Tests(str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(name))
        tests.every_writer()
        tests.small_disk()
        tests.unreadable_shards()
        tests.other_imatrix()
    print(f"{tests.n_checks} checks, {tests.n_bad} failed")
    return 1 if tests.n_bad or tests.n_checks < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
