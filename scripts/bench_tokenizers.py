#!/usr/bin/env python3
"""tamis' byte-pair tokenizers beside Hugging Face's `tokenizers` on one thread: MB/s of CPU time, the same ids required.

usage: scripts/bench_tokenizers.py --bench build/release/bench/bench_tokenizer --text FILE VOCAB.gguf ...

Both encode the whole text as one string, best of five runs, in the same minutes on the same machine. Needs: gguf, tokenizers.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_tokenizers  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--bench", default="build/release/bench/bench_tokenizer")
    parser.add_argument("--text", required=True)
    args = parser.parse_args()
    text = open(args.text, encoding="utf-8", newline="").read()
    n_bytes = len(text.encode())
    for path in args.files:
        ours = json.loads(subprocess.run([args.bench, path, args.text, "--json"], stdout=subprocess.PIPE, check=True).stdout)
        meta = check_tokenizers.read_metadata(path)
        encode = dict(check_tokenizers.PEERS[meta["model"]])["tokenizers"](meta)
        best = 1e9
        for _ in range(5):
            begin = time.process_time()
            n_ids = len(encode([text])[0])
            best = min(best, time.process_time() - begin)
        theirs = n_bytes / best * 1e-6
        print(f"{pathlib.Path(path).name}: tamis {ours['mb_per_s']:.1f} MB/s, tokenizers {theirs:.1f} MB/s, "
              f"{ours['mb_per_s'] / theirs:.1f}x; ids {ours['n_ids']} and {n_ids}")
        if ours["n_ids"] != n_ids:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
