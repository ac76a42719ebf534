#!/usr/bin/env python3
"""Writes tests/golden/pretokenizers.json: for every rule of tokenizer.ggml.pre, the words `tokenizers` (Oniguruma) cuts texts into.

Words are given by their lengths in characters; texts are shared by all rules. Needs: tokenizers (see tests/requirements.txt).
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_tokenizers  # noqa: E402
import tokenizer_patterns as patterns  # noqa: E402

FIXED = [
    "v1234567 (x):\n", "I'LL\t\tgo", "नमस्ते", "don't we'VE it'\u017fx", "Hello  world \n\n  x  ", "\t\ttabs\r\n\r\nnext", "   ",
    "A1b22c333d4444e55555", "1234567abc 12,345,678.90 ٣٤٥٦٧ Ⅷ123 Ⅷ12 ½¾", "IMGIMGABCDZ<sentinel:17> <sentinel:x>IMGIMGZ",
    "<sentinel:" * 5, "HelloWorld HELLOworld helloWORLD ǅungla ʰʷ", "日本語テキスト、中国。한국어 ㄱㄴ ㄅㄆ", "字ABC字abc字", "a b c d e f",
    "« quoted » “curly” — dash… ¡hola! ¿qué?", "x=1;y=[2,3]//c\n/* d */", "https://a.b/c?d=e&f#g", "'s't're've'm'll'd'S'T'RE'VE'M'LL'D",
    "e\u0301 n\u0303 \u0301alone", "👩‍👩‍👧‍👦 🇩🇪❤️", "a\u00a0b\u3000c\u2028d\u0085e\x0bf", " \n \n x", "\n\n\n", "x" * 40, " " * 40, "." * 40,
    "\n" * 40, "1" * 40, "字" * 20, "A1" * 20, " a" * 20, "a " * 20, "  1  2  ", " " * 600 + "x", " " * 300 + "\n" + " " * 77,
]


def main():
    texts = FIXED + [t for t in check_tokenizers.strings(160, 7) if len(t) < 120]
    rules = {}
    for rule in patterns.RULES:
        rules[rule] = [[len(word) for word in patterns.split(rule, text)] for text in texts]
    golden = {"texts": texts, "names": patterns.RULE_OF, "rules": rules}
    path = pathlib.Path(__file__).parent.parent / "tests/golden/pretokenizers.json"
    path.write_text(json.dumps(golden, ensure_ascii=True, separators=(",", ":")) + "\n")
    print(f"{len(texts)} texts, {len(rules)} rules, {len(patterns.RULE_OF)} names, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
