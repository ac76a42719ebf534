"""scripts/check_invariants finds one planted violation of each rule, and accepts look-alikes."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tree import ROOT, Tree

sys.path.insert(0, str(ROOT / "scripts"))
from cxx_text import functions_of, read_source  # noqa: E402

LONG_BODY = "void f() {\n" + "  g();\n" * 61 + "}\n"
GOOD = """// What it is.
#include <string>
// throw, abort(), assert( and _mm_add_epi8 in a comment are words; so they are in "strings":
const char* kText = "throw abort( getenv( .at( std::regex TAMIS";
static_assert(sizeof(int) == 4);
struct Row { const char* name; int at; };
int f(int a, int b, int c, int d, int e, std::pair<int, int> g) { return throw_away(a) + printf_like(b) + x.at_end(); }
const char* kRaw = R"(switch (dtype) { case DType::f32: exit(1); })";
"""
# rule: (file, text that breaks it)
BAD = {
    "intrinsic": ("src/quants/a.cpp", "auto x = _mm256_add_epi8(a, b);"),
    "isa-header": ("src/compute/a.cpp", "#include <immintrin.h>"),
    "isa-if": ("src/quants/a.cpp", "#if defined(__AVX2__)\n#endif"),
    "dtype-switch": ("src/models/a.cpp", "void f(DType dtype) { switch (dtype) { default: break; } }"),
    "getenv": ("src/cli/a.cpp", 'auto x = std::getenv("HOME");'),
    "throw": ("src/text/a.cpp", "void f() { throw 1; }"),
    "abort": ("src/text/a.cpp", "void f() { std::abort(); }"),
    "exit": ("src/text/a.cpp", "void f() { exit(1); }"),
    "printf": ("src/text/a.cpp", 'void f() { fprintf(stderr, ""); }'),
    "assert": ("src/cli/a.cpp", "void f() { assert(x); }"),
    "stoi": ("src/cli/a.cpp", 'int f() { return std::stoi("1"); }'),
    "at": ("src/cli/a.cpp", "int f() { return v.at(1); }"),
    "regex": ("src/text/a.cpp", "#include <regex>"),
    "alloca": ("src/text/a.cpp", "void f() { alloca(n); }"),
    "sprintf": ("src/cli/a.cpp", 'void f() { sprintf(b, "%d", 1); }'),
    "architecture-name": ("src/engine/a.cpp", 'bool f() { return name == "qwen3"; }'),
    "file-size": ("src/text/a.cpp", "int x;\n" * 500),
    "function-size": ("src/text/a.cpp", LONG_BODY),
    "parameters": ("src/text/a.cpp", "void f(int a, int b, int c, int d, int e, int g, int h) {}"),
    "unfinished": ("src/text/a.cpp", "// TO" + "DO: later"),
    "machine-path": ("docs/a.md", "see /wo" + "rk/x"),
    "fuzz-header": ("tests/fuzz/fuzz_a.cpp", "int x;"),
    "pragma-once": ("src/text/a.h", "int x;"),
}


class CheckInvariants(unittest.TestCase):
    def test_accepts_look_alikes(self):
        with Tree({"src/text/good.cpp": GOOD, "src/cpu/simd/avx2.h": "// x\n#pragma once\nauto y = _mm256_add_epi8(a, b);\n",
                   "src/quants/registry.cpp": "// x\nvoid f() { switch (dtype) { case DType::f32: break; } }\n",
                   "src/text/names.cpp": '// x\nauto n = "llama";\n', "src/models/m.cpp": '// x\nauto n = "qwen3";\n',
                   "src/text/x_tables.cpp": "// x\n" + "int x;\n" * 900}) as tree:
            self.assertEqual(tree.run("check_invariants"), (0, "invariants: ok\n"))

    def test_finds_each_planted_violation(self):
        for rule, (name, text) in BAD.items():
            opening = "" if name.endswith(".md") else "// What it is.\n"
            with self.subTest(rule), Tree({name: opening + text + "\n"}) as tree:
                code, output = tree.run("check_invariants")
                self.assertEqual(code, 1, output)
                self.assertIn(f"[{rule}]", output)
                self.assertEqual(output.count("\n"), 1, output)

    def test_finds_a_missing_opening(self):
        with Tree({"src/text/a.cpp": "int x;\n"}) as tree:
            self.assertIn("[opening]", tree.run("check_invariants")[1])

    def test_finds_a_library_header_in_three_files(self):
        with Tree({f"src/text/{n}.cpp": "// x\n#include <nlohmann/json.hpp>\n" for n in "abc"}) as tree:
            self.assertIn("nlohmann is included by 3 files", tree.run("check_invariants")[1])

    def test_finds_a_fault_number_used_twice(self):
        with Tree({f"src/text/{n}.cpp": "// x\nbool f() { return TAMIS_CHECKED(7, a); }\n" for n in "ab"}) as tree:
            self.assertIn("fault 7 is also at src/text/a.cpp:2", tree.run("check_invariants")[1])

    def test_an_architecture_of_the_registry_is_known(self):
        with Tree({"src/models/registry.cpp": '// x\nRow rows[] = {{"newarch", f}};\n',
                   "src/engine/a.cpp": '// x\nauto n = "newarch";\n'}) as tree:
            self.assertIn('"newarch"', tree.run("check_invariants")[1])

    def check_object(self, name, text):
        """What --objects says of one target's object file."""
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory) / "cpu" / "targets"
            folder.mkdir(parents=True)
            (folder / "a.cpp").write_text(text)
            subprocess.run(["c++", "-c", "a.cpp", "-o", f"{name}.cpp.o"], cwd=folder, check=True)
            done = subprocess.run([sys.executable, str(ROOT / "scripts" / "check_invariants"), "--objects", directory, "--objects-only"],
                                  stdout=subprocess.PIPE, text=True, check=False)
            return done.returncode, done.stdout

    def test_finds_symbols_that_leave_a_target(self):
        table = "namespace tamis::cpu::avx2 { extern const int kTable; const int kTable = 1; }\n"
        use = "#include <string.h>\nnamespace { void f(char* p, int n) { memset(p, 0, n); } } static auto* const kept __attribute__((used)) = f;\n"
        self.assertEqual(self.check_object("avx2", table + use), (0, "invariants: ok\n"))
        for text, message in [
                ("inline int f(int x) { return x + 1; }\nint (*g)(int) = f;\n" + table, "[weak-symbol]"),
                (table + "int helper(int x) { return x; }\n", "[leaked-symbol] helper(int)"),
                (table + "namespace tamis { int other(); }\nstatic int x __attribute__((used)) = tamis::other();\n", "[borrowed-symbol] tamis::other()"),
                (table.replace("avx2", "avx512"), "[leaked-symbol] defines tamis::cpu::avx2::kTable 0 times")]:
            with self.subTest(text):
                code, output = self.check_object("avx2", text)
                self.assertEqual(code, 1)
                self.assertIn(message, output)


class CxxText(unittest.TestCase):
    def functions(self, text):
        return [(f.name, f.n_lines, f.n_parameters) for f in functions_of(read_source(text).code)]

    def test_sees_functions_through_the_grammar_around_them(self):
        text = """
namespace a { namespace {
template <class T, int N> Status f(std::span<const T, N> x, std::pair<int, int> y = {1, 2}) noexcept {
  auto g = [&](int z) {
    return z;
  };
}
class C final : public B<int> {
 public:
  C(int a, int b) : a_{a}, b_(b) {
    run();
  }
  bool operator()(int a) const { return a; }
  virtual void v(int a, int b, int c) = 0;
};
const Table kTable[] = {
  {1, f(2, 3)},
  {4, f(5, 6)},
};
}  // namespace
auto f(int a) -> int { if (a) { while (b) {} } return 1; }
}  // namespace a
"""
        self.assertEqual(self.functions(text), [("f", 3, 2), ("C", 1, 2), ("operator()", 0, 1), ("v", 0, 3), ("f", 0, 1)])

    def test_tells_literals_from_code(self):
        source = read_source('a("x\\"y", \'"\', R"z(" )" )z"); // "c"\n/* "d" */ int n = 1\'000;\n')
        self.assertEqual([text for _, text in source.strings], ['x\\"y', '" )" '])
        self.assertNotIn("d", source.code.split("\n")[1].replace("int", ""))
        self.assertIn("1'000", source.code)


if __name__ == "__main__":
    unittest.main()
