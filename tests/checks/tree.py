"""A throw-away source tree for the tests of the checks, and how a check is run on it."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Tree:
    """`with Tree({"src/base/a.h": "…"}) as tree: tree.run("check_edges")` → (exit code, output)."""

    def __init__(self, files):
        self.files = files

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.directory.name)
        for name, text in self.files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self

    def __exit__(self, *_):
        self.directory.cleanup()

    def run(self, script, *arguments):
        done = subprocess.run([sys.executable, str(ROOT / "scripts" / script), *arguments, str(self.root)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout
