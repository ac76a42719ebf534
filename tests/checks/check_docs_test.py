"""scripts/check_docs finds dead links and examples that print something else."""
import unittest

from tree import Tree

PAGE = """# A page

See [other](docs/other.md), [its part](docs/other.md#part-two), [here](#a-page), [code](src/a.cpp#L1), `src/a.cpp:2`, [web](https://x.y).

```console
$ printf 'one\\ntwo 2\\nthree\\n'
one
two …
…
$ exit 3  # exit 3
```
"""
FILES = {"README.md": PAGE, "docs/other.md": "# Other\n\n## Part `two`\n", "src/a.cpp": "// a\nint x;\n"}
BAD = {
    "[x](docs/gone.md)": "docs/gone.md: no such file",
    "[x](docs/other.md#gone)": "docs/other.md#gone: no such heading",
    "[x](../outside.md)": "../outside.md",
    "[x](src/a.cpp#L99)": "no such line",
    "`src/gone.cpp`": "`src/gone.cpp` does not exist",
    "`src/a.cpp:99`": "no such line",
    "```console\n$ echo a\nb\n```": "`echo a` prints",
    "```console\n$ false\n```": "exit 1, shown 0",
    "```console\n$ echo a; echo b\na\n```": "prints",
}


class CheckDocs(unittest.TestCase):
    def test_accepts_a_good_page(self):
        with Tree(FILES) as tree:
            code, output = tree.run("check_docs")
            self.assertEqual(code, 0, output)
            self.assertIn("2 examples run", output)

    def test_finds_each_planted_violation(self):
        for planted, message in BAD.items():
            with self.subTest(planted), Tree({**FILES, "docs/bad.md": "# Bad\n\n" + planted.replace("](docs/", "](../docs/").replace(
                    "](src/", "](../src/").replace("](../outside", "](../../outside") + "\n"}) as tree:
                code, output = tree.run("check_docs")
                self.assertEqual(code, 1, output)
                self.assertIn(message.replace("../outside.md", "outside.md"), output)
                self.assertIn("docs/bad.md:", output)


if __name__ == "__main__":
    unittest.main()
