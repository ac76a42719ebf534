#!/usr/bin/env python3
"""Runs one .test file: usage: run_test.py TAMIS FILE.test [--update]

A test is a sequence of steps in one fresh directory. Lines:
  # comment                      also blank lines
  command: tamis VERB …          begins a step; run by bash; `tamis` is the program, $SRC the source tree, $SHARED its ../shared,
                                 $MODELS the cache of fetched models, $TMP the directory
  exit: 3                        expected exit code; 0 when absent
  stdin: | stdout: | stderr:     a block: the lines after it that begin with "| " (or are "|"). stdout and stderr must be equal
  stdout-has: TEXT               and stdout-lacks, stderr-has, stderr-lacks: one line each, as often as wanted
  no-newline: stdout             the block's last line has no newline at its end
stderr must be empty unless the step says something about it. Paths in output are written back as $TMP, $SRC, $SHARED.
--update rewrites the stdout blocks and exit codes with what the program does now: read the diff before keeping it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCKS = ("stdin", "stdout", "stderr")
CHECKS = ("stdout-has", "stdout-lacks", "stderr-has", "stderr-lacks")
LINKS = ("tamis", "llama-bench", "llama-cli", "llama-tokenize", "llama-perplexity", "llama-quantize", "llama-gguf-split", "llama-server")


def parse(path):
    steps, block = [], None
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if line.startswith("|"):
            if block is None:
                sys.exit(f"{path}:{number}: a block line without a block")
            steps[-1][block].append(line[2:] if line.startswith("| ") else line[1:])
            continue
        block = None
        if not line.strip() or line.startswith("#"):
            continue
        key, colon, value = line.partition(":")
        value = value.strip()
        if key == "command":
            steps.append({"command": value, "exit": 0, "line": number, "checks": []})
        elif not colon or not steps:
            sys.exit(f"{path}:{number}: not understood: {line}")
        elif key in BLOCKS:
            steps[-1][key], block = [], key
        elif key in CHECKS:
            steps[-1]["checks"].append((key, value))
        elif key == "exit":
            steps[-1]["exit"] = int(value)
        elif key == "no-newline":
            steps[-1]["no-newline-" + value] = True
        else:
            sys.exit(f"{path}:{number}: unknown key {key}")
    return steps


def expected(step, name):
    if name not in step:
        return None
    text = "".join(line + "\n" for line in step[name])
    return text[:-1] if step.get("no-newline-" + name) else text


def environment(tamis, tmp):
    bin_dir = tmp / "bin"
    bin_dir.mkdir()
    for name in LINKS:
        (bin_dir / name).symlink_to(tamis)
    source = pathlib.Path(__file__).resolve().parents[2]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    places = {"TMP": str(tmp / "work"), "SRC": str(source), "SHARED": str(source.parent / "shared"), "MODELS": f"{cache}/tamis/models"}
    (tmp / "work").mkdir()
    env = {"PATH": f"{bin_dir}:{os.environ['PATH']}", "HOME": str(tmp / "home"), "LC_ALL": "C.UTF-8", **places}
    for name in ("LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LLVM_PROFILE_FILE"):
        if name in os.environ:
            env[name] = os.environ[name]
    return env, places


def normal(data, places):
    text = data.decode("utf-8", "backslashreplace")
    for name in ("TMP", "SHARED", "SRC"):
        text = text.replace(places[name], "$" + name)
    return text


def run_step(step, env, places):
    """Returns (list of complaints, stdout, exit code)."""
    stdin = (expected(step, "stdin") or "").encode()
    done = subprocess.run(["bash", "-c", step["command"]], input=stdin, capture_output=True, env=env, cwd=places["TMP"], timeout=240)
    out, err = normal(done.stdout, places), normal(done.stderr, places)
    complaints = []
    if done.returncode != step["exit"]:
        complaints.append(f"exit code: got {done.returncode}, expected {step['exit']}")
    for name, got in (("stdout", out), ("stderr", err)):
        want = expected(step, name)
        if want is not None and got != want:
            complaints.append(f"{name}: got\n{got}expected\n{want}")
    for check, text in step["checks"]:
        got = out if check.startswith("stdout") else err
        if (text in got) != check.endswith("-has"):
            complaints.append(f"{check}: {text}\nin\n{got}")
    if err and "stderr" not in step and not any(check.startswith("stderr") for check, _ in step["checks"]):
        complaints.append(f"stderr: got\n{err}expected nothing")
    return complaints, out, done.returncode


def update(path, results):
    lines, out, step = path.read_text().split("\n"), [], -1
    skipping = False
    for line in lines:
        if skipping and line.startswith("|"):
            continue
        skipping = False
        if line.startswith("command:"):
            step += 1
        if line.startswith("exit:"):
            line = f"exit: {results[step][1]}"
        out.append(line)
        if line.startswith("stdout:"):
            skipping = True
            text = results[step][0]
            out += ["|" + (" " + item if item else "") for item in text.removesuffix("\n").split("\n")] if text else []
    path.write_text("\n".join(out))


def main():
    tamis, path = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    steps = parse(path)
    failed, results = False, []
    with tempfile.TemporaryDirectory(prefix="tamis-cli-") as name:
        env, places = environment(tamis, pathlib.Path(name))
        for step in steps:
            complaints, out, code = run_step(step, env, places)
            results.append((out, code))
            for complaint in complaints:
                failed = True
                print(f"{path}:{step['line']}: {step['command']}\n{complaint}")
    if "--update" in sys.argv[3:]:
        update(path, results)
        return
    if not steps:
        sys.exit(f"{path}: no steps")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
