// Every name of tokenizer.ggml.pre that converters write, with its rule as data. Rules are the Split patterns of the
// models' own tokenizer.json where those are known; names and defaults are those llama.cpp (autumn 2026) accepts.
//
// Where llama.cpp's pattern is an approximation of the model's own (gpt-4o, tekken, kimi-k2, youtu, tiny_aya: letters
// by case, marks, scripts), the model's own is used. `default`, and a file without a name, mean GPT-2's split, with a
// warning.
#include "text/pretokenizer.h"

namespace tamis {
namespace {

#define TAMIS_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAMIS_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"

// ByteLevel's built-in pattern.
constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Words =
    TAMIS_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TAMIS_SPACES;
constexpr std::string_view kO200kWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" TAMIS_CONTRACTIONS
    R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" TAMIS_CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" TAMIS_SPACES;
constexpr std::string_view kDeepseekV3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" TAMIS_SPACES;
constexpr std::string_view kJapaneseAndHan = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kHanAndHangul = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kLines = R"([^\n]+|[\n]+)";
constexpr std::string_view kBloomWords = R"( ?[^(\s|[.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C}])]+)";

const SplitRule kGpt2{"GPT-2", DigitGrouping::none, {kGpt2Words}};
const SplitRule kLlama3{
    "Llama 3",
    DigitGrouping::none,
    {TAMIS_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TAMIS_SPACES}};
const SplitRule kQwen2{"Qwen2", DigitGrouping::none, {kQwen2Words}};
const SplitRule kQwen35{
    "Qwen3.5",
    DigitGrouping::none,
    {TAMIS_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" TAMIS_SPACES}};
const SplitRule kJais2{
    "Jais 2",
    DigitGrouping::none,
    {TAMIS_CONTRACTIONS
     R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S))"
     R"(|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}};
// The letters of scripts with case, as DeepSeek LLM's tokenizer.json lists them.
const SplitRule kDeepseekLlm{
    "DeepSeek LLM",
    DigitGrouping::none,
    {R"([\r\n])",
     R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
     R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
     R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
     R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
     R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
     R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
     R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
     R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC})"
     R"(\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128})"
     R"(\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183})"
     R"(\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
     R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
     R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
     R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
     R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)",
     R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)", R"(\s+$)", kHanAndHangul,
     R"(\p{N}+)"}};
const SplitRule kDeepseekCoder{
    "DeepSeek Coder", DigitGrouping::none, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kHanAndHangul, R"(\p{N})"}};
const SplitRule kDeepseekV3{"DeepSeek V3", DigitGrouping::none, {R"(\p{N}{1,3})", kJapaneseAndHan, kDeepseekV3Words}};
const SplitRule kSpark25{
    "Spark 2.5",
    DigitGrouping::none,
    {R"(\p{N}{1,3})", kJapaneseAndHan,
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n])"
     R"(|\s+(?!\S)|\s+)",
     R"(\p{N})"}};
const SplitRule kYoutu{
    "Youtu",
    DigitGrouping::none,
    {R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B})"
     R"(\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" TAMIS_CONTRACTIONS
     R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" TAMIS_CONTRACTIONS
     R"(?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" TAMIS_SPACES}};
const SplitRule kFalcon{"Falcon", DigitGrouping::none, {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Words, "[0-9][0-9][0-9]"}};
const SplitRule kStarcoder{"StarCoder", DigitGrouping::none, {R"(\p{N})", kGpt2Words}};
const SplitRule kBloom{"BLOOM", DigitGrouping::none, {kBloomWords}};
const SplitRule kViking{"Viking", DigitGrouping::none, {kBloomWords, R"(\p{N})"}};
const SplitRule kTekken{
    "Mistral Tekken",
    DigitGrouping::none,
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?)"
     R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" TAMIS_SPACES}};
const SplitRule kChameleon{"Chameleon",
                           DigitGrouping::none,
                           {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"([\t\n]|    |  )", R"(\p{N})",
                            R"([\p{P}!-/:-@\[-`{-~])", kGpt2Words}};
const SplitRule kO200k{"o200k", DigitGrouping::none, {kO200kWords}};
const SplitRule kTinyAya{"Tiny Aya", DigitGrouping::threes_from_right_at_word_end, {kO200kWords}};
const SplitRule kKimiK2{
    "Kimi K2",
    DigitGrouping::none,
    {R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)" TAMIS_CONTRACTIONS
     R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)" TAMIS_CONTRACTIONS
     R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TAMIS_SPACES}};
const SplitRule kSuperBpe{"SuperBPE", DigitGrouping::cuts_between_threes, {R"(\p{N}+)"}};
const SplitRule kBailing{
    "Bailing",
    DigitGrouping::none,
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}};
const SplitRule kSeedCoder{
    "Seed Coder",
    DigitGrouping::none,
    {TAMIS_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" TAMIS_SPACES}};
const SplitRule kUfakZeka{
    "UfakZeka", DigitGrouping::none, {R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" TAMIS_SPACES}};
const SplitRule kAfmoe{
    "AFMoE",
    DigitGrouping::threes_from_right,
    {R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F})"
     R"(\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF})"
     R"(\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)",
     kDeepseekV3Words}};
const SplitRule kLaguna{"Laguna", DigitGrouping::none, {kLines, kQwen2Words}};
const SplitRule kExaoneMoe{
    "EXAONE MoE",
    DigitGrouping::none,
    {TAMIS_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
                        R"(|\s*[\r\n]|\s+(?!\S)|\s+)"}};
const SplitRule kMiniCpm5{
    "MiniCPM5",
    DigitGrouping::none,
    {R"(\p{N}{1,3})", TAMIS_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)" TAMIS_SPACES}};
const SplitRule kWholeLines{"Gemma 4", DigitGrouping::none, {kLines}, false, true};
const SplitRule kWhitespace{"Jina v2 zh", DigitGrouping::none, {R"(\S+)"}, false};

#undef TAMIS_CONTRACTIONS
#undef TAMIS_SPACES

using Row = PreTokenizerRow;

}  // namespace

const std::vector<PreTokenizerRow>& pre_tokenizer_table() {
  static const std::vector<PreTokenizerRow> table = {
      Row{"default", &kGpt2},
      Row{"gpt-2", &kGpt2},
      Row{"gpt2", &kGpt2},
      Row{"phi-2", &kGpt2},
      Row{"jina-es", &kGpt2},
      Row{"jina-de", &kGpt2},
      Row{"jina-v1-en", &kGpt2},
      Row{"jina-v2-es", &kGpt2},
      Row{"jina-v2-de", &kGpt2},
      Row{"jina-v2-code", &kGpt2},
      Row{"roberta-bpe", &kGpt2},
      Row{"gigachat", &kGpt2},
      Row{"a.x-4.0", &kGpt2},
      Row{"mellum", &kGpt2},
      Row{.name = "modern-bert", .rule = &kGpt2, .nfc = true},
      Row{.name = "mpt", .rule = &kGpt2, .nfc = true},
      Row{.name = "olmo", .rule = &kGpt2, .nfc = true},
      Row{"jais", &kGpt2},
      Row{"trillion", &kGpt2},
      Row{"granite-docling", &kGpt2},
      Row{"exaone4", &kGpt2},
      Row{.name = "llama3", .rule = &kLlama3, .ignore_merges = true, .add_bos = true},
      Row{.name = "llama-v3", .rule = &kLlama3, .ignore_merges = true, .add_bos = true},
      Row{.name = "llama-bpe", .rule = &kLlama3, .ignore_merges = true, .add_bos = true},
      Row{.name = "falcon3", .rule = &kLlama3, .ignore_merges = true, .add_bos = true},
      Row{.name = "falcon-h1", .rule = &kLlama3, .ignore_merges = true, .add_bos = true},
      Row{.name = "pixtral", .rule = &kLlama3, .ignore_merges = true, .add_bos = true},
      Row{.name = "midm-2.0", .rule = &kLlama3, .ignore_merges = true, .add_bos = true},
      Row{.name = "lfm2", .rule = &kLlama3, .ignore_merges = true, .add_bos = true},
      Row{.name = "jina-v5-nano", .rule = &kLlama3, .ignore_merges = true, .add_bos = true},
      Row{"dbrx", &kLlama3},
      Row{"smaug-bpe", &kLlama3},
      Row{.name = "chatglm-bpe", .rule = &kLlama3, .no_default_bos = true},
      Row{.name = "glm4", .rule = &kLlama3, .ignore_merges = true, .no_default_bos = true},
      Row{.name = "glm5", .rule = &kLlama3, .ignore_merges = true, .no_default_bos = true},
      Row{.name = "minicpm5", .rule = &kMiniCpm5, .ignore_merges = true},
      Row{"jais-2", &kJais2},
      Row{"deepseek-llm", &kDeepseekLlm},
      Row{"deepseek-coder", &kDeepseekCoder},
      Row{"deepseek-v3", &kDeepseekV3},
      Row{"hunyuan-dense", &kDeepseekV3},
      Row{"hy_v4", &kDeepseekV3},
      Row{"joyai-llm", &kDeepseekV3},
      Row{"spark2_5", &kSpark25},
      Row{.name = "youtu", .rule = &kYoutu, .ignore_merges = true},
      Row{"falcon", &kFalcon},
      Row{"starcoder", &kStarcoder},
      Row{"refact", &kStarcoder},
      Row{"command-r", &kStarcoder},
      Row{"smollm", &kStarcoder},
      Row{"codeshell", &kStarcoder},
      Row{"exaone", &kStarcoder},
      Row{"minerva-7b", &kStarcoder},
      Row{"mellum2", &kStarcoder},
      Row{.name = "qwen2", .rule = &kQwen2, .nfc = true},
      Row{.name = "deepseek-r1-qwen", .rule = &kQwen2},
      Row{"kormo", &kQwen2},
      Row{.name = "f2llmv2", .rule = &kQwen2, .nfc = true},
      Row{.name = "megrez", .rule = &kQwen2, .nfc = true},
      Row{"stablelm2", &kQwen2},
      Row{"hunyuan", &kQwen2},
      Row{"solar-open", &kQwen2},
      Row{"grok-2", &kQwen2},
      Row{.name = "qwen35", .rule = &kQwen35, .nfc = true},
      Row{"ufakzeka", &kUfakZeka},
      Row{"laguna", &kLaguna},
      Row{"poro-chat", &kBloom},
      Row{"bloom", &kBloom},
      Row{"gpt3-finnish", &kBloom},
      Row{"viking", &kViking},
      Row{.name = "tekken", .rule = &kTekken, .ignore_merges = true, .add_bos = true},
      Row{.name = "chameleon", .rule = &kChameleon, .add_bos = true},
      Row{"gpt-4o", &kO200k},
      Row{"llama4", &kO200k},
      Row{"kanana2", &kO200k},
      Row{"talkie", &kO200k},
      Row{"minimax-m2", &kO200k},
      Row{.name = "granite-embed-multi-97m", .rule = &kO200k, .ignore_merges = true},
      Row{"tiny_aya", &kTinyAya},
      Row{"cohere2moe", &kTinyAya},
      Row{"kimi-k2", &kKimiK2},
      Row{"superbpe", &kSuperBpe},
      Row{"bailingmoe", &kBailing},
      Row{"bailingmoe2", &kBailing},
      Row{"llada-moe", &kBailing},
      Row{"seed-coder", &kSeedCoder},
      Row{"afmoe", &kAfmoe},
      Row{"exaone-moe", &kExaoneMoe},
      Row{.name = "gemma4", .rule = &kWholeLines, .add_bos = true},
      Row{.name = "granite-embed-multi-311m", .rule = &kWholeLines, .add_bos = true},
      Row{"sarvam-moe", &kWholeLines},
      Row{"whitespace", &kWhitespace},
  };
  return table;
}

}  // namespace tamis
