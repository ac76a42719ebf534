"""scripts/check_edges finds every kind of wrong include, and nothing else."""
import unittest

from tree import Tree

GOOD = {
    "src/base/result.h": "// r\n#include <string>\n",
    "src/formats/gguf.h": '// g\n#include "base/result.h"\n',
    "src/text/tokenizer.cpp": '// t\n#include "text/tokenizer.h"\n#include "formats/gguf.h"\n',
    "src/text/tokenizer.h": "// t\n",
    "src/main.cpp": '// m\n#include "text/tokenizer.h"\n',
    "include/tamis/tamis.h": "// t\n#include <tamis/error.h>\n",
}
BAD = {
    'src/base/a.cpp|#include "formats/gguf.h"': "src/base/a.cpp:2: base/ may not use formats/",
    'src/formats/a.cpp|#include "text/tokenizer.h"': "formats/ may not use text/",
    'src/text/a.cpp|#include "models/loader.h"': "text/ may not use models/",
    'src/text/a.cpp|  #  include "quants/registry.h"': "text/ may not use quants/",
    'src/formats/a.cpp|#include "gguf.h"': "include private headers by their path",
    'src/formats/a.cpp|#include "../base/result.h"': "include private headers by their path",
    'src/formats/a.cpp|#include "nlohmann/json.hpp"': "no such room",
    'src/formats/a.cpp|#include "base/gone.h"': "does not exist",
    'src/formats/a.cpp|#include <tamis/tamis.h>': "only api, server and cli",
    'src/toys/a.cpp|#include "base/result.h"': "src/toys is not a room",
    'include/tamis/a.h|#include "base/result.h"': "a public header includes the private",
    'src/CMakeLists.txt|tamis_room(formats USES base text)': "formats links ['base', 'text']",
}


class CheckEdges(unittest.TestCase):
    def test_accepts_a_good_tree(self):
        with Tree(GOOD) as tree:
            self.assertEqual(tree.run("check_edges"), (0, "edges: ok\n"))

    def test_finds_each_planted_violation(self):
        for planted, message in BAD.items():
            name, line = planted.split("|")
            with self.subTest(planted), Tree({**GOOD, name: f"// x\n{line}\n"}) as tree:
                code, output = tree.run("check_edges")
                self.assertEqual(code, 1, output)
                self.assertIn(message, output)
                self.assertEqual(output.count("\n"), 1, output)


if __name__ == "__main__":
    unittest.main()
