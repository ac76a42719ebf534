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
constexpr std::string_view kJapaneseAndHan = "[一-龥぀-ゟ゠-ヿ]+";
constexpr std::string_view kHanAndHangul = "[一-龥ࠀ-一가-퟿]+";
constexpr std::string_view kLines = R"([^\n]+|[\n]+)";
constexpr std::string_view kBloomWords = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";

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
     R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ)"
     R"(Ὗ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗ)"
     R"(Ａ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)",
     R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)", kHanAndHangul, R"(\p{N}+)"}};
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
    {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
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
    {"[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
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
