#!/usr/bin/env python3
"""docs/promises.md names tests; each is there, and there are thirty-seven promises."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class PromisesTest(unittest.TestCase):
    def test_every_named_test_exists(self):
        rows = re.findall(r"^\| (\d+) \| (.*?) \| (.*) \|$", (ROOT / "docs/promises.md").read_text(), re.M)
        self.assertEqual([int(number) for number, _, _ in rows], list(range(1, 38)))
        files = {path.name: path for place in ("tests", "scripts") for path in (ROOT / place).rglob("*") if path.is_file()}
        for number, _, tests in rows:
            self.assertIn("`", tests, f"promise {number} names no test")
            for name in re.findall(r"`([^`]+)`", tests):
                file, _, test = name.partition(":")
                self.assertIn(file, files, f"promise {number}")
                if test:
                    self.assertRegex(files[file].read_text(), rf"\b{test}\b", f"promise {number}: {name}")


if __name__ == "__main__":
    unittest.main()
