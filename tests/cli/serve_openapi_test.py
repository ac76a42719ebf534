#!/usr/bin/env python3
"""schemathesis against `tamis serve` by the description the server gives of itself. usage: serve_openapi_test.py TAMIS

No answer may be a server error, of an undocumented status or type, or missing. Exit 77 where the package (tests/requirements.txt) is
not installed.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from serve_test import Running

try:
    import schemathesis
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "allow_header_conformance", "unsupported_method"]


class OpenApiTest(unittest.TestCase):
    def test_schemathesis(self):
        program = pathlib.Path(sys.executable).parent / "schemathesis"
        with Running("-c", "256") as server, tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([str(program), "run", server.url + "/openapi.json", "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing",
                                   "--mode", "all", "--max-examples", "15", "--seed", "1", "--request-timeout", "60", "--suppress-health-check", "all",
                                   "--generation-database", "none", "--no-color", "--warnings", "off"],
                                  cwd=empty, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
            self.assertEqual(done.returncode, 0, done.stdout[-20000:])
            self.assertIsNone(server.process.poll(), server.text())
            self.assertEqual(server.ask("/health")[0], 200)
            print(f"schemathesis {schemathesis.__version__}:", done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
