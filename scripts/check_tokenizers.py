#!/usr/bin/env python3
"""Compares tamis' tokenizers with the Python packages `tokenizers` and `sentencepiece` on generated strings.

For every GGUF file given, the peer is built from the file's own metadata: a Hugging Face tokenizer for models "gpt2", "bert" and
"t5", a SentencePiece ModelProto for "llama" (and "t5"). Prints the number of strings and of differences; exit 1 when any differ.

  scripts/check_tokenizers.py [-n 10000] [--seed 1] [--tamis build/release/tamis] FILE.gguf ...

Needs: gguf, tokenizers, sentencepiece (their versions are those of the goldens: see tests/requirements.txt).
"""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from gguf import GGUFReader

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tokenizer_patterns as patterns  # noqa: E402

SEPARATOR = "\n__ggml_vocab_test__\n"

def read_metadata(path):
    reader = GGUFReader(path)
    out = {}
    for key, field in reader.fields.items():
        if key.startswith("tokenizer.ggml."):
            out[key[len("tokenizer.ggml."):]] = field
    def strings(name):
        field = out[name]
        return [bytes(field.parts[i]) for i in field.data]
    def numbers(name):
        field = out[name]
        return [field.parts[i][0] for i in field.data]
    meta = {"model": out["model"].contents(), "tokens": strings("tokens")}
    meta["pre"] = out["pre"].contents() if "pre" in out else "default"
    meta["types"] = [int(x) for x in numbers("token_type")] if "token_type" in out else [1] * len(meta["tokens"])
    meta["scores"] = [float(x) for x in numbers("scores")] if "scores" in out else None
    meta["merges"] = [m.decode() for m in strings("merges")] if "merges" in out else None
    for name in ("add_space_prefix", "remove_extra_whitespaces", "unknown_token_id", "bos_token_id", "eos_token_id"):
        meta[name] = out[name].contents() if name in out else None
    if "precompiled_charsmap" in out:
        meta["charsmap"] = bytes(int(x) & 255 for x in numbers("precompiled_charsmap"))
    return meta


# ---- peers: functions from a list of strings to a list of id lists

def bpe_peer(meta):
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
    tokens = [t.decode("utf-8", "surrogateescape") for t in meta["tokens"]]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = []
    for merge in meta["merges"]:
        at = merge.index(" ", 1)
        merges.append((merge[:at], merge[at + 1:]))
    model = models.BPE(vocab, merges, ignore_merges=meta["pre"] in patterns.IGNORE_MERGES)
    tokenizer = Tokenizer(model)
    if meta["pre"] in patterns.NFC:
        tokenizer.normalizer = normalizers.NFC()
    stages = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns.RULES[patterns.RULE_OF[meta["pre"]]]]
    stages.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(stages)
    added = [AddedToken(t, normalized=False) for t, kind in zip(tokens, meta["types"]) if kind == 4]
    tokenizer.add_tokens(added)
    return lambda texts: [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]


def bert_peer(meta):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    vocab = {}
    for i, (token, kind) in enumerate(zip(meta["tokens"], meta["types"])):
        text = token.decode()
        if kind == 1:
            text = text[1:] if text.startswith("\u2581") else "##" + text
        vocab[text] = i
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return lambda texts: [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]


def field(number, value):
    """One protobuf field: int (varint), float (fixed32) or bytes."""
    def varint(n):
        out = bytearray()
        while n > 127:
            out.append(n & 127 | 128)
            n >>= 7
        return bytes(out) + bytes([n])
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, (int, bool)):
        return varint(number << 3) + varint(int(value))
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_processor(meta):
    """A ModelProto (sentencepiece_model.proto) written by hand: the generated Python code needs a package more."""
    import sentencepiece
    unknown = meta["unknown_token_id"] if meta["unknown_token_id"] is not None else (2 if meta["model"] == "t5" else 0)
    proto = b""
    for i, (token, kind, score) in enumerate(zip(meta["tokens"], meta["types"], meta["scores"])):
        # SentencePiece has one unknown piece; GGUF files type padding as unknown too. `</s>` is control whatever the file says.
        kind = 2 if i == unknown else 3 if kind == 2 or (token == b"</s>" and kind == 4) else kind
        if kind == 4:
            token = token.replace(b" ", "\u2581".encode())  # converters store user-defined pieces with plain spaces
        proto += field(1, field(1, token) + field(2, score) + field(3, kind))
    proto += field(2, field(3, 1 if meta["model"] == "t5" else 2) + field(35, meta["types"].count(6) == 256) +
                   field(40, unknown) + field(45, meta["tokens"][unknown]))
    proto += field(3, field(1, b"identity") + field(2, meta.get("charsmap", b"")) +
                   field(3, meta["add_space_prefix"] is not False) + field(4, bool(meta["remove_extra_whitespaces"])) +
                   field(5, True))
    return sentencepiece.SentencePieceProcessor(model_proto=proto)


def sentencepiece_peer(meta):
    processor = sentencepiece_processor(meta)
    return lambda texts: processor.encode(texts, out_type=int)


def unigram_peer(meta):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    unknown = meta["unknown_token_id"] if meta["unknown_token_id"] is not None else 2
    vocab = [(t.decode(), s) for t, s in zip(meta["tokens"], meta["scores"])]
    tokenizer = Tokenizer(models.Unigram(vocab, unknown))
    steps = []
    if meta.get("charsmap"):
        steps.append(normalizers.Precompiled(meta["charsmap"]))
    if meta["remove_extra_whitespaces"]:
        from tokenizers import Regex
        steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always", split=False)
    # `tokenizers` applies the normalisation table to grapheme clusters, SentencePiece (whose table it is) to longest prefixes; a text
    # the two normalise differently says nothing about the pieces and is passed to the model as SentencePiece normalises it.
    processor = sentencepiece_processor(meta)
    bare = Tokenizer(models.Unigram(vocab, unknown))
    def encode(text):
        normal = processor.normalize(text)
        mark = "\u2581"
        same = (mark + tokenizer.normalizer.normalize_str(text).replace(" ", mark)) == normal
        return (tokenizer if same else bare).encode(text if same else normal, add_special_tokens=False).ids
    return lambda texts: [encode(text) for text in texts]


def newer_than_peer(meta, texts):
    """Characters that are newer than the Unicode tables inside `tokenizers` (about Unicode 9; ours and Python's are newer), found by
    asking it: marks that its NFC does not order, and characters that its BERT classes take for unassigned."""
    from tokenizers import normalizers, pre_tokenizers
    newer = set()
    alphabet = {c for text in texts for c in unicodedata.normalize("NFD", text) + text}
    if meta["model"] == "gpt2" and meta["pre"] in patterns.NFC:
        nfc = normalizers.NFC()
        newer = {c for c in alphabet if unicodedata.combining(c) > 1 and nfc.normalize_str("a" + c + "\u0334") == "a" + c + "\u0334"}
    if meta["model"] != "bert":
        return newer
    normalizer, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    for c in alphabet:
        kind = unicodedata.category(c)
        if ord(c) < 128 or kind[0] in "CZ":
            continue
        is_stripped = normalizer.normalize_str("a" + c + "b") == "ab"
        is_cut = len(split.pre_tokenize_str("a" + c + "b")) == 3
        if is_stripped != (kind == "Mn") or is_cut != (kind[0] == "P"):
            newer.add(c)
    return newer


PEERS = {
    "gpt2": [("tokenizers", bpe_peer)],
    "bert": [("tokenizers", bert_peer)],
    "llama": [("sentencepiece", sentencepiece_peer)],
    "t5": [("sentencepiece", sentencepiece_peer), ("tokenizers", unigram_peer)],
}

# ---- generated strings

RANGES = [
    (0x20, 0x7E), (0xA0, 0x17F), (0x180, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x530, 0x58F),
    (0x591, 0x5F4), (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0xF00, 0xFFF),
    (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x13A0, 0x13FF), (0x1780, 0x17FF),
    (0x1800, 0x18AF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x20CF), (0x2100, 0x214F),
    (0x2150, 0x218F), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2500, 0x27BF), (0x2E80, 0x2FDF), (0x3000, 0x303F),
    (0x3040, 0x30FF), (0x3100, 0x312F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA000, 0xA48F), (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFE6F), (0xFF00, 0xFFEF), (0x10000, 0x100FF), (0x10400, 0x1044F),
    (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2F800, 0x2FA1F),
]
WORDS = ("the of and to in is was he for it with as his on be at by had not are but from or have an they which one you were all "
         "her she there would their we him been has when who will no more if out so up said what its about than into them "
         "can only other time new some could these two may first then do any like my now over such our man me even most made "
         "after also did many off before must well back through years much where your way down should because long each just "
         "HELLO World iPhone McDonald's don't I'LL we've you're it'S O'Neill naïve café Zürich Straße Привет мир здравствуйте "
         "γειά σου κόσμε שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก 你好世界 こんにちは世界 안녕하세요 ប្រាសាទ Việt Nam İstanbul "
         "return if(x==0){ foo_bar(); } #include <stdio.h> http://example.com/a?b=c&d=1 a@b.co C++ x86_64 0x1F 3.14159 1,000,000 "
         "</div> <br/> \\n \\t $100 50% :-) ... --- *** ==> ~/dir").split()
EMOJI = ["😀", "🚀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "✅", "😶‍🌫️", "🦙", "🫠", "1️⃣"]
SPACES_PARTS = [" ", "  ", "    ", "\t", "\n", "\r\n", "\n\n", " \n", "\t\t", "\u00a0", "\u3000", "\u2003", "\u2028", "\x0b", "\x85",
                "\u200b", "\u202f", "                "]
MARKS = [chr(c) for c in range(0x300, 0x330)] + ["\u093c", "\u094d", "\u0e31", "\u05b0", "\u064b", "\u20dd"]


def assigned(rng, low, high):
    while True:
        c = chr(rng.randint(low, high))
        if unicodedata.category(c) not in ("Cn", "Cs", "Co"):
            return c


def part(rng):
    kind = rng.random()
    if kind < 0.30:
        return rng.choice(WORDS)
    if kind < 0.45:
        return rng.choice(SPACES_PARTS)
    if kind < 0.55:
        return "".join(rng.choice("0123456789") for _ in range(rng.choice([1, 2, 3, 4, 7, 12])))
    if kind < 0.75:
        low, high = rng.choice(RANGES)
        return "".join(assigned(rng, low, high) for _ in range(rng.choice([1, 1, 2, 3, 5, 9])))
    if kind < 0.80:
        return rng.choice(EMOJI)
    if kind < 0.86:
        base = rng.choice("aeiouAEnN") if rng.random() < 0.7 else assigned(rng, 0x400, 0x4FF)
        return base + "".join(rng.choice(MARKS) for _ in range(rng.choice([1, 1, 2, 3])))
    if kind < 0.92:
        return "".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(rng.choice([1, 2, 3, 6])))
    if kind < 0.96:
        return "'" + rng.choice(["s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "M", "lL", "D", "\u017f", "x"])
    return rng.choice("aA1 .\n") * rng.choice([5, 17, 33, 70])


def strings(n, seed):
    rng = random.Random(seed)
    out = []
    while len(out) < n:
        joiner = rng.choice(["", "", " "])
        text = joiner.join(part(rng) for _ in range(rng.randint(1, 12)))
        if text and SEPARATOR not in text:
            out.append(text)
    return out


def tamis_ids(args, path, texts):
    with tempfile.NamedTemporaryFile("w", suffix=".inp", newline="", encoding="utf-8") as inp:
        inp.write("".join(text + SEPARATOR for text in texts))
        inp.flush()
        command = [word.format(model=path, inp=inp.name) for word in args.command.split()]
        result = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [[int(x) for x in line.split()] for line in result.stdout.decode().split("\n")[:-1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("-n", type=int, default=10000, help="strings a vocabulary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="differences printed")
    parser.add_argument("--command", default="build/release/tamis tokenize -m {model} --inp {inp}")
    args = parser.parse_args()
    all_texts = strings(args.n + args.n // 20, args.seed)
    n_different = 0
    for path in args.files:
        meta = read_metadata(path)
        newer = newer_than_peer(meta, all_texts)
        texts = [t for t in all_texts if newer.isdisjoint(t + unicodedata.normalize("NFD", t))][:args.n]
        ours = tamis_ids(args, path, texts)
        assert len(ours) == len(texts), (len(ours), len(texts))
        for name, make in PEERS[meta["model"]]:
            theirs = make(meta)(texts)
            bad = [k for k in range(len(texts)) if ours[k] != list(theirs[k])]
            print(f"{path}: {meta['model']} against {name}: {len(texts)} strings, {len(bad)} differences")
            for k in bad[:args.show]:
                print("  ", json.dumps(texts[k], ensure_ascii=True), "\n    tamis", ours[k], "\n    peer ", list(theirs[k]))
            n_different += len(bad)
    return 1 if n_different else 0


if __name__ == "__main__":
    sys.exit(main())
