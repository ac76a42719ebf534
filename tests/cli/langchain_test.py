#!/usr/bin/env python3
"""The example with LangChain against `tamis serve`. usage: langchain_test.py TAMIS

Exit 77 where a package of tests/requirements.txt is not installed.
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

from serve_test import Running

try:
    import langchain_openai  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]


class LangChainTest(unittest.TestCase):
    def test_example(self):
        with Running("-c", "2048") as server:  # room for tools in words
            done = subprocess.run([sys.executable, "-X", "utf8", ROOT / "examples/langchain_chat.py", server.url], capture_output=True, timeout=250)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            said = done.stdout.decode()
            body = {"messages": [{"role": "system", "content": "Answer in one sentence."}, {"role": "user", "content": "What is the capital of France?"}],
                    "temperature": 0, "max_tokens": 200}
            status, answer = server.ask("/v1/chat/completions", body)[:2]
            self.assertEqual(status, 200, answer)
            text = json.loads(answer)["choices"][0]["message"]["content"]
        self.assertTrue(said.startswith(f"answer: {text}\nstream: {text}\ncall: "), said)
        call = re.search(r"^call: temperature \{'city': '(Paris|Rome)'\} gives (\d+)\nanswer: ", said, re.MULTILINE)
        self.assertIsNotNone(call, said)
        self.assertEqual(call[2], {"Paris": "18", "Rome": "24"}[call[1]])

    def test_every_package_has_its_hashes(self):
        def pins(path):
            return dict(re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE))

        lock = ROOT / "examples/requirements-langchain.txt"
        locked, tested = pins(lock), pins(ROOT / "tests/requirements.txt")
        self.assertEqual(locked["langchain-openai"], tested["langchain-openai"])
        self.assertEqual({name: version for name, version in locked.items() if name in tested and tested[name] != version}, {})
        self.assertEqual(len(re.findall(r"^[\w.-]+==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", lock.read_text(), re.MULTILINE)), len(locked))


if __name__ == "__main__":
    unittest.main()
