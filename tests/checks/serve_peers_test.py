#!/usr/bin/env python3
"""bench/serve_peers: what it cannot run is refused by name before anything runs."""
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench/serve_peers"


class ServePeersTest(unittest.TestCase):
    def test_what_it_does_not_run_is_named(self):
        for option, names, wrong in (("--scenarios", "S5", "S5"), ("--scenarios", "S1,S7", "S7"), ("--scenarios", "S9", "S9"), ("--scenarios", "", ""),
                                     ("--servers", "tamis,other", "other")):
            done = subprocess.run([sys.executable, SCRIPT, "nothing.gguf", option, names], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"got '{wrong}'", done.stderr)


if __name__ == "__main__":
    unittest.main()
