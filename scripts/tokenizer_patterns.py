"""The split patterns of tokenizer.ggml.pre, typed a second time, independently of src/text/pretokenizer_table.cpp: what the goldens
and comparisons are made with. Each entry: the patterns, applied one inside the other; DIGITS marks grouping rules."""
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def cased_words(upper, lower, suffix):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?[{upper}]*[{lower}]+{suffix}"
            rf"|[^\r\n\p{{L}}\p{{N}}]?[{upper}]+[{lower}]*{suffix}")


def words(digits, end=r"[\r\n]*", letters=r"\p{L}", not_punctuation=r"\s\p{L}\p{N}", contractions=CONTRACTIONS + "|", spaces=SPACES):
    return (contractions + rf"[^\r\n\p{{L}}\p{{N}}]?[{letters}]+|{digits}| ?[^{not_punctuation}]+{end}|" + spaces)


O200K = cased_words(UPPER, LOWER, CONTRACTIONS + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
DEEPSEEK_V3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
               + SPACES)
CJK = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+"
HAN_HANGUL = r"[\x{800}-\x{9FA5}\x{AC00}-\x{D7FF}]+"
BLOOM = r" ?[^(\s|[.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C}])]+"
DEEPSEEK_LETTERS = (r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}"
                    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}"
                    r"\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}"
                    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}"
                    r"\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}"
                    r"\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}"
                    r"\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}"
                    r"\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}"
                    r"\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}"
                    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}"
                    r"\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}"
                    r"\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}"
                    r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}")
ASIAN = (r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}"
         r"\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+")
NO_HAN = r"&&[^\p{Han}]"

RULES = {
    "gpt2": [GPT2],
    "llama3": [words(r"\p{N}{1,3}")],
    "qwen2": [words(r"\p{N}")],
    "qwen35": [words(r"\p{N}", letters=r"\p{L}\p{M}", not_punctuation=r"\s\p{L}\p{M}\p{N}")],
    "jais2": [words(r"\p{N}{1,3}", spaces=r"\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)"
                    r"|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}")],
    "deepseek-llm": [r"[\r\n]", rf"\s?[{DEEPSEEK_LETTERS}]+", r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+", r"\s+$", HAN_HANGUL, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN_HANGUL, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", CJK, DEEPSEEK_V3],
    "spark25": [r"\p{N}{1,3}", CJK, DEEPSEEK_V3.replace("+[\\r\\n]*|" + SPACES, r"+|[\r\n]|\s+(?!\S)|\s+"), r"\p{N}"],
    "youtu": [r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}"
              r"\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+",
              cased_words(UPPER, LOWER, CONTRACTIONS + "?") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "starcoder": [r"\p{N}", GPT2],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
    "tekken": [cased_words(UPPER, LOWER, "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "o200k": [O200K],
    "tiny-aya": [r"\d{1,3}(?=(?:\d{3})*\b)", O200K],
    "kimi-k2": [r"[\p{Han}]+|" + cased_words(UPPER + NO_HAN, LOWER + NO_HAN, CONTRACTIONS + "?")
                + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "bailing": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed-coder": [words(r"\p{N}{1}", end="", not_punctuation=r"\s\p{L}\p{N}\r\n")],
    "ufakzeka": [words(r"\p{N}", contractions="")],
    "afmoe": ["DIGITS", ASIAN, DEEPSEEK_V3],
    "laguna": [r"[^\n]+|[\n]+", words(r"\p{N}")],
    "exaone-moe": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
                   r"|\s*[\r\n]|\s+(?!\S)|\s+"],
    "minicpm5": [r"\p{N}{1,3}", words(r"\p{N}+")],
    "lines": [r"[^\n]+|[\n]+"],
    "whitespace": [r"\S+"],
}

NAMES = {
    "gpt2": "default gpt-2 gpt2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe gigachat a.x-4.0 "
            "mellum modern-bert mpt olmo jais trillion granite-docling exaone4",
    "llama3": "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe chatglm-bpe glm4 glm5",
    "minicpm5": "minicpm5", "jais2": "jais-2", "deepseek-llm": "deepseek-llm", "deepseek-coder": "deepseek-coder",
    "deepseek-v3": "deepseek-v3 hunyuan-dense hy_v4 joyai-llm", "spark25": "spark2_5", "youtu": "youtu", "falcon": "falcon",
    "starcoder": "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
    "qwen2": "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", "qwen35": "qwen35",
    "ufakzeka": "ufakzeka", "laguna": "laguna", "bloom": "poro-chat bloom gpt3-finnish", "viking": "viking", "tekken": "tekken",
    "chameleon": "chameleon", "o200k": "gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m",
    "tiny-aya": "tiny_aya cohere2moe", "kimi-k2": "kimi-k2", "superbpe": "superbpe", "bailing": "bailingmoe bailingmoe2 llada-moe",
    "seed-coder": "seed-coder", "afmoe": "afmoe", "exaone-moe": "exaone-moe",
    "lines": "gemma4 granite-embed-multi-311m sarvam-moe", "whitespace": "whitespace",
}
RULE_OF = {name: rule for rule, names in NAMES.items() for name in names.split()}
NFC = set("qwen2 f2llmv2 megrez qwen35 modern-bert mpt olmo".split())
IGNORE_MERGES = set("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano glm4 glm5 minicpm5 youtu tekken "
                    "granite-embed-multi-97m".split())


def pre_tokenizer(rule):
    """The rule as a Hugging Face pre-tokenizer; without byte-level encoding. `lookaround` rules need the regex module instead."""
    from tokenizers import Regex, pre_tokenizers
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in RULES[rule]])


def grouped_digits(text):
    """Parts of text with numbers (\\p{N}) in threes from the right, as AFMoE's tokenizer groups them."""
    import unicodedata
    parts, run, gap = [], "", ""
    for c in text + "\0end":
        if unicodedata.category(c)[0] == "N" and c != "\0":
            run += c
            continue
        if run:
            if gap:
                parts.append(gap)
            gap = ""
            first = len(run) % 3
            parts += ([run[:first]] if first else []) + [run[i:i + 3] for i in range(first, len(run), 3)]
            run = ""
        if c == "\0":
            break
        gap += c
    return parts + ([gap] if gap else [])


def split(rule, text):
    """The words of text by the rule."""
    from tokenizers import Regex, pre_tokenizers
    parts = [text]
    for pattern in RULES[rule]:
        if pattern == "DIGITS":
            parts = [p for part in parts for p in grouped_digits(part)]
            continue
        stage = pre_tokenizers.Split(Regex(pattern), "isolated")
        parts = [p for part in parts for p, _ in stage.pre_tokenize_str(part)]
    return parts
