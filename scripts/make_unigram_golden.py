#!/usr/bin/env python3
"""Writes tests/golden/unigram_vocab.gguf, a small Unigram vocabulary with a normalisation table, and tests/golden/unigram.json, texts
with the ids `sentencepiece` gives them. Usage: make_unigram_golden.py TRAINING_TEXT (any English text; the golden was made with
kjv.train.txt). Needs: gguf, sentencepiece (see tests/requirements.txt).
"""
import io
import json
import pathlib
import sys
import tempfile

import gguf
import sentencepiece

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_tokenizers  # noqa: E402

GOLDEN = pathlib.Path(__file__).parent.parent / "tests/golden"
# Full-width letters and digits, ligatures, odd spaces, composed accents; one rule with two characters, one that deletes.
RULES = ([(chr(0xFF21 + i), chr(65 + i)) for i in range(26)] + [(chr(0xFF10 + i), chr(48 + i)) for i in range(10)] +
         [("\ufb01", "fi"), ("\ufb02", "fl"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("e\u0301", "\u00e9"),
          ("\u200b", ""), ("\u2026", "..."), ("\u00bd", "1/2")])


def main():
    lines = [line for line in open(sys.argv[1], encoding="utf-8") if line.strip()][:6000]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        for source, target in RULES:
            rules.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
        rules.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, model_type="unigram", vocab_size=700, pad_id=0, eos_id=1, unk_id=2,
            bos_id=-1, normalization_rule_tsv=rules.name, remove_extra_whitespaces=True, num_threads=1, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    writer = gguf.GGUFWriter(str(GOLDEN / "unigram_vocab.gguf"), "t5")
    n = processor.get_piece_size()
    writer.add_tokenizer_model("t5")
    writer.add_token_list([processor.id_to_piece(i) for i in range(n)])
    writer.add_token_scores([processor.get_score(i) for i in range(n)])
    writer.add_token_types([2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 1 for i in range(n)])
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    writer.add_precompiled_charsmap(charsmap(model.getvalue()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    texts = [t for t in check_tokenizers.strings(150, 11) if len(t) < 100]
    texts += [" a  b ", "   ", "\uff28\uff25\uff2c\uff2c\uff2f", "\ufb01sh\u2026", "e\u0301a\u200bb", "and it came to pass in those days"]
    cases = [{"text": text, "ids": processor.encode(text)} for text in texts]
    (GOLDEN / "unigram.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
    print(f"{n} pieces, {len(cases)} texts")


def charsmap(proto):
    """normalizer_spec.precompiled_charsmap (fields 3 and 2) of a serialized ModelProto."""
    def fields(data):
        at = 0
        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            tag = varint()
            if tag & 7 == 0:
                varint()
            elif tag & 7 == 5:
                at += 4
            else:
                size = varint()
                yield tag >> 3, data[at:at + size]
                at += size
    spec = next(value for number, value in fields(proto) if number == 3)
    return next(value for number, value in fields(spec) if number == 2)


if __name__ == "__main__":
    main()
