#!/usr/bin/env python3
"""Compares `tamis logits --backend reference` with llama.cpp and with the float64 oracle on tiny random float32 models of every
architecture (tests/golden/tiny_models.py). Exit 1 when a bound is broken.

    pip install numpy gguf llama-cpp-python==0.3.36
    scripts/check_parity.py [--tamis build/release/tamis] [--peers ../shared/tools/peers.py] [--only NAME]

Differences are max |Δ| / std of the logits. Bounds: tamis against the oracle 5e-6 (float32 between ops); against llama.cpp 5e-5,
for GELU architectures 1e-3, since llama.cpp looks GELU up in a half-precision table: with that table emulated in the oracle,
3e-4. Cases llama.cpp cannot run or runs by other rules are compared with the oracle alone, and the table says why.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "tests", "golden"))
from tiny_models import CASES, forward, gelu_of_f16_table, gelu_tanh  # noqa: E402

WHY_NOT = {
    "llama_sidecars": "scale tensors of a float file are ours to honour",
    "llama_expert_sidecars": "scale tensors of a float file are ours to honour",
    "llama_b21_partial": "asserts n_rot = head size",
    "llama_b21_values": "asserts value_length = key_length",
    "phi3_window": "drops the window; transformers applies it",
}


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stderr[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tamis", default=os.path.join(root, "build", "release", "tamis"))
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--peers", default=os.path.join(root, "..", "shared", "tools", "peers.py"))
    parser.add_argument("--only")
    args = parser.parse_args()
    failures = 0
    print(f"{'case':22} {'std':>8} {'oracle':>9} {'llama.cpp':>10} {'f16 GELU':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if args.only and args.only != case.name:
                continue
            path, ids = os.path.join(folder, case.name + ".gguf"), ",".join(map(str, case.ids()))
            ours, theirs = os.path.join(folder, "ours.npy"), os.path.join(folder, "theirs.npy")
            case.write(path)
            run([args.tamis, "logits", "-m", path, "--ids", ids, "-o", ours, "--force", "--backend", args.backend])
            tamis, oracle = np.load(ours).astype(np.float64), forward(case)
            spread = oracle.std()
            checks = [(np.abs(tamis - oracle).max() / spread, 5e-6)]
            is_gelu = case.arch.startswith("gemma")
            if case.runs_in_peer:
                run([sys.executable, args.peers, "logits", path, "--ids", ids, "-o", theirs, "--engine", "llama"])
                peer = np.load(theirs).astype(np.float64)
                checks.append((np.abs(tamis - peer).max() / spread, 1e-3 if is_gelu else 5e-5))
                if is_gelu:
                    checks.append((np.abs(forward(case, gelu=gelu_of_f16_table) - peer).max() / spread, 3e-4))
            is_good = all(value <= bound for value, bound in checks)
            failures += not is_good
            cells = [f"{value:.1e}" for value, _ in checks] + ["", ""]
            note = "" if case.runs_in_peer else "  not run there: " + WHY_NOT[case.name]
            print(f"{case.name:22} {spread:8.3f} {cells[0]:>9} {cells[1]:>10} {cells[2]:>9}{note}{'' if is_good else '  FAILED'}",
                  flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
