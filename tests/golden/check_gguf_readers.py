#!/usr/bin/env python3
"""Where tamis and the PyPI package gguf (0.19) disagree on the published list of malformed files: exactly here, each for a reason.

usage: tests/golden/check_gguf_readers.py TAMIS GENERATOR    exit 77 when the package or the generator is not there
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

# What the package does where `tamis verify` refuses (C049: accepts), and why we do not follow it.
DIFFERENCES = {
    "C014_nt_minus1": ("accepts", "64 bytes belong to no tensor"),
    "C024_key_nul": ("accepts", "a key with a NUL is another key to every C reader"),
    "C026_key_65536": ("accepts", "the specification ends keys at 65,535 bytes"),
    "C038_bool_2": ("accepts", "a bool is 0 or 1"),
    "C043_utf8": ("accepts", "strings are UTF-8; loading keeps the bytes and warns"),
    "C044_alen_neg": ("hangs", "counts up to 2^64 past the end of the file"),
    "C045_alen_2p63": ("hangs", "counts up to 2^63 past the end of the file"),
    "C046_alen_2p30": ("hangs", "counts up to 2^30 past the end of the file"),
    "C064_align_1": ("accepts", "an alignment is a multiple of 8; loading warns"),
    "C072_tname_65": ("accepts", "names have at most 64 bytes"),
    "C073_tname_empty": ("accepts", "a tensor needs a name"),
    "C075_tname_nul": ("accepts", "a name with a NUL is another name to every C reader"),
    "C084_ne0": ("accepts", "a tensor of no elements divides by zero elsewhere"),
    "C100_off_neg": ("accepts", "the offset wraps and lands in the metadata"),
    "C101_off_wrap": ("accepts", "the end of the tensor wraps"),
    "C102_off_unaligned": ("accepts", "offsets are multiples of the alignment"),
    "C103_off_overlap": ("accepts", "two tensors share bytes"),
    "C105_off_gap": ("accepts", "bytes between two tensors belong to none; loading warns"),
    "C111_trailing": ("accepts", "4096 bytes belong to no tensor; loading warns"),
}
SLOW = {"C049_amplify_str"}  # 200,000 strings: read, but not within the time a hang is told by


def package_verdict(path):
    program = "import gguf, sys; gguf.GGUFReader(sys.argv[1])"
    try:
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    return "accepts" if done.returncode == 0 else "refuses"


def tamis_verdict(path):
    done = subprocess.run([sys.argv[1], "verify", "--level", "container", str(path)], capture_output=True, check=False)
    return {0: "accepts", 3: "refuses"}[done.returncode]


def main():
    if not pathlib.Path(sys.argv[2]).exists():
        return 77
    try:
        __import__("gguf")
    except ImportError:
        return 1 if os.environ.get("CI") else 77
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.executable, sys.argv[2], name], check=True, stdout=subprocess.DEVNULL)
        paths = [path for path in sorted(pathlib.Path(name).glob("C*.gguf")) if path.stem not in SLOW]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            theirs = dict(zip(paths, pool.map(package_verdict, paths)))
        found = {path.stem: verdict for path, verdict in theirs.items() if verdict != tamis_verdict(path)}
    expected = {stem: verdict for stem, (verdict, _) in DIFFERENCES.items()}
    for stem in sorted(found.keys() | expected.keys()):
        if found.get(stem) != expected.get(stem):
            print(f"{stem}: the package {found.get(stem, 'agrees')}, the list says it {expected.get(stem, 'agrees')}")
    print(f"{len(found)} of {len(paths)} files: the package disagrees")
    return 0 if found == expected else 1


if __name__ == "__main__":
    sys.exit(main())
