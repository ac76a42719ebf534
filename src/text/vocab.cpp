// Reads tokenizer.ggml.* of a GGUF file into VocabData. Nothing is believed: types, lengths and ids are checked here,
// once.
#include "text/vocab.h"

#include <cmath>

#include "base/checked.h"
#include "base/fault.h"
#include "base/log.h"
#include "text/pretokenizer.h"

namespace tamis {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kCharsmap = "tokenizer.ggml.precompiled_charsmap";
constexpr std::string_view kSuppressed = "tokenizer.ggml.suppress_tokens";

constexpr std::string_view kModels[] = {"gpt2", "llama", "bert", "t5", "gemma4"};

struct IdKey {
  std::string_view key;
  TokenId SpecialTokens::*id;
};
constexpr IdKey kIdKeys[] = {
    {"tokenizer.ggml.bos_token_id", &SpecialTokens::bos},
    {"tokenizer.ggml.eos_token_id", &SpecialTokens::eos},
    {"tokenizer.ggml.eot_token_id", &SpecialTokens::eot},
    {"tokenizer.ggml.eom_token_id", &SpecialTokens::eom},
    {"tokenizer.ggml.unknown_token_id", &SpecialTokens::unk},
    {"tokenizer.ggml.seperator_token_id", &SpecialTokens::sep},
    {"tokenizer.ggml.separator_token_id", &SpecialTokens::sep},
    {"tokenizer.ggml.padding_token_id", &SpecialTokens::pad},
    {"tokenizer.ggml.cls_token_id", &SpecialTokens::cls},
    {"tokenizer.ggml.mask_token_id", &SpecialTokens::mask},
};
// Ids tamis does not use, checked all the same.
constexpr std::string_view kOtherIdKeys[] = {
    "tokenizer.ggml.prefix_token_id",  "tokenizer.ggml.suffix_token_id",  "tokenizer.ggml.middle_token_id",
    "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.fim_mid_token_id",
    "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id",
};

class VocabReader {
 public:
  VocabReader(const GgufFile& file, const TokenizerOptions& options) : file_(file), options_(options) {}

  Result<VocabData> read() {
    vocab_.owner = std::make_shared<GgufFile>(file_);
    TAMIS_TRY_STATUS(read_names());
    TAMIS_TRY_STATUS(read_tokens());
    TAMIS_TRY_STATUS(read_types());
    TAMIS_TRY_STATUS(read_scores());
    TAMIS_TRY_STATUS(read_merges());
    TAMIS_TRY_STATUS(read_charsmap());
    TAMIS_TRY_STATUS(read_suppressed());
    TAMIS_TRY_STATUS(read_ids());
    TAMIS_TRY_STATUS(read_flags());
    return std::move(vocab_);
  }

 private:
  Status read_names() {
    TAMIS_TRY(const std::string_view model, file_.get_string("tokenizer.ggml.model"));
    vocab_.model = model;
    bool is_known = false;
    for (const std::string_view name : kModels) is_known |= name == model;
    if (!is_known)
      return unsupported("tokenizer.ggml.model", model, "gpt2, llama, bert, t5 or gemma4", "E_TOKENIZER_MODEL");
    if (file_.find("tokenizer.ggml.pre") != nullptr) {
      TAMIS_TRY(const std::string_view pre, file_.get_string("tokenizer.ggml.pre"));
      vocab_.pre = pre;
      vocab_.has_pre = true;
    }
    if (!options_.pre.empty()) {
      vocab_.pre = options_.pre;
      vocab_.has_pre = true;
      if (vocab_.model == "gpt2" && find_pre_tokenizer(vocab_.pre) == nullptr)
        return fail(ErrorCode::invalid_argument, "unknown pre-tokenizer '{}'", escape_for_display(vocab_.pre));
    } else if (vocab_.model == "gpt2" && vocab_.has_pre && find_pre_tokenizer(vocab_.pre) == nullptr) {
      return unsupported("tokenizer.ggml.pre", vocab_.pre, "a known pre-tokenizer name (or one given with --pre)",
                         "E_TOKENIZER_PRE");
    }
    return {};
  }

  tl::unexpected<Error> unsupported(std::string_view key, std::string_view got, std::string expected,
                                    std::string tag) const {
    Error error =
        file_.error_at_key(key, "'" + escape_for_display(got) + "'", std::move(expected), std::move(tag)).value();
    error.code = ErrorCode::unsupported;
    return tl::unexpected<Error>(std::move(error));
  }

  Status read_tokens() {
    TAMIS_TRY(const GgufArray array, file_.get_array(kTokens, GgufType::string));
    const uint64_t n_max = Limits{}.n_vocab;
    if (array.size() < 2 || array.size() > n_max)
      return file_.error_at_key(kTokens, fmt::format("{} tokens", array.size()), fmt::format("2 to {}", n_max),
                                "E_VOCAB_SIZE");
    auto tokens = array.strings();
    if (!tokens) return file_.error_at_key(kTokens, "no strings", "an array of strings", "E_KEY_TYPE");
    vocab_.tokens = std::move(*tokens);
    return {};
  }

  // An array with one element a token. Null when the key is absent.
  Result<std::optional<GgufArray>> per_token_array(std::string_view key, GgufType type) {
    if (file_.find(key) == nullptr) return std::optional<GgufArray>();
    TAMIS_TRY(const GgufArray array, file_.get_array(key, type));
    if (TAMIS_CHECKED(12, array.size() != vocab_.tokens.size()))
      return file_.error_at_key(key, fmt::format("{} elements", array.size()),
                                fmt::format("one a token ({})", vocab_.tokens.size()), "E_VOCAB_LENGTH");
    return std::optional<GgufArray>(array);
  }

  Status read_types() {
    vocab_.types.assign(vocab_.tokens.size(), TokenType::normal);
    TAMIS_TRY(const auto array, per_token_array(kTypes, GgufType::i32));
    if (!array) return {};
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
      const int64_t type = array->int_at(i).value_or(-1);
      if (type < 1 || type > 6)
        return file_.error_at_key(kTypes, fmt::format("type {} for token {}", type, i), "1 to 6", "E_TOKEN_TYPE");
      vocab_.types[i] = static_cast<TokenType>(type);
    }
    return {};
  }

  Status read_scores() {
    TAMIS_TRY(const auto array, per_token_array(kScores, GgufType::f32));
    if (!array) return {};
    vocab_.scores.resize(array->size());
    for (size_t i = 0; i < vocab_.scores.size(); ++i)
      vocab_.scores[i] = static_cast<float>(array->float_at(i).value_or(std::nan("")));
    return {};
  }

  Status read_merges() {
    if (file_.find(kMerges) == nullptr) return {};
    TAMIS_TRY(const GgufArray array, file_.get_array(kMerges, GgufType::string));
    auto merges = array.strings();
    if (!merges) return file_.error_at_key(kMerges, "no strings", "an array of strings", "E_KEY_TYPE");
    vocab_.merges = std::move(*merges);
    return {};
  }

  Status read_charsmap() {
    const GgufValue* value = file_.find(kCharsmap);
    if (value == nullptr) return {};
    const auto array = value->as_array();
    if (!array || (array->element_type() != GgufType::u8 && array->element_type() != GgufType::i8))
      return file_.error_at_key(kCharsmap, "another type", "an array of u8 or i8", "E_KEY_TYPE");
    const auto raw = value->raw();
    if (raw.size() < array->size()) return file_.error_at_key(kCharsmap, "too few bytes", "the array", "E_KEY_TYPE");
    const auto bytes = raw.last(array->size());  // after element type and count
    vocab_.charsmap = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return {};
  }

  Status check_id(std::string_view key, uint64_t id) const {
    if (TAMIS_CHECKED(9, id >= vocab_.tokens.size()))
      return file_.error_at_key(key, fmt::format("{}", id), fmt::format("an id below {}", vocab_.tokens.size()),
                                "E_TOKEN_ID");
    return {};
  }

  Status read_suppressed() {
    if (file_.find(kSuppressed) == nullptr) return {};
    TAMIS_TRY(const GgufArray array, file_.get_array(kSuppressed, GgufType::i32));
    for (uint64_t i = 0; i < array.size(); ++i)
      TAMIS_TRY_STATUS(check_id(kSuppressed, array.uint_at(i).value_or(~uint64_t{0})));
    return {};
  }

  Status read_ids() {
    for (const IdKey& entry : kIdKeys) {
      if (file_.find(entry.key) == nullptr) continue;
      TAMIS_TRY(const uint64_t id, file_.get_uint(entry.key));
      TAMIS_TRY_STATUS(check_id(entry.key, id));
      vocab_.special.*entry.id = static_cast<TokenId>(id);
    }
    for (const std::string_view key : kOtherIdKeys) {
      if (file_.find(key) == nullptr) continue;
      TAMIS_TRY(const uint64_t id, file_.get_uint(key));
      TAMIS_TRY_STATUS(check_id(key, id));
    }
    return {};
  }

  Result<std::optional<bool>> flag(std::string_view key) const {
    if (file_.find(key) == nullptr) return std::optional<bool>();
    TAMIS_TRY(const bool value, file_.get_bool(key));
    return std::optional<bool>(value);
  }

  Status read_flags() {
    TAMIS_TRY(vocab_.add_bos, flag("tokenizer.ggml.add_bos_token"));
    TAMIS_TRY(vocab_.add_eos, flag("tokenizer.ggml.add_eos_token"));
    TAMIS_TRY(vocab_.add_space_prefix, flag("tokenizer.ggml.add_space_prefix"));
    TAMIS_TRY(const auto removes, flag("tokenizer.ggml.remove_extra_whitespaces"));
    vocab_.remove_extra_whitespaces = removes.value_or(false);
    TAMIS_TRY(const auto lower, flag("tokenizer.ggml.normalizer.lowercase"));
    vocab_.is_lower_case = lower.value_or(true);
    TAMIS_TRY(vocab_.strips_accents, flag("tokenizer.ggml.normalizer.strip_accents"));
    return {};
  }

  const GgufFile& file_;
  const TokenizerOptions& options_;
  VocabData vocab_;
};

tl::unexpected<Error> located(const GgufFile& file, const VocabFault& fault) {
  Error error = file.error_at_key(fault.key, fault.got, fault.expected, fault.tag).value();
  error.code = fault.code;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

std::optional<uint8_t> byte_of_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : text.substr(3, 2)) {
    value *= 16;
    if (c >= '0' && c <= '9')
      value += static_cast<unsigned>(c - '0');
    else if (c >= 'A' && c <= 'F')
      value += static_cast<unsigned>(c - 'A' + 10);
    else if (c >= 'a' && c <= 'f')
      value += static_cast<unsigned>(c - 'a' + 10);
    else
      return std::nullopt;
  }
  return static_cast<uint8_t>(value);
}

Result<VocabData> load_vocab(const GgufFile& file, const TokenizerOptions& options) {
  TAMIS_TRY(VocabData vocab, VocabReader(file, options).read());
  if (auto status = complete_vocab(vocab); !status) return located(file, status.error());
  return vocab;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufFile& file, const TokenizerOptions& options) {
  TAMIS_TRY(VocabData vocab, load_vocab(file, options));
  auto tokenizer = build_tokenizer(std::move(vocab));
  if (!tokenizer) return located(file, tokenizer.error());
  return std::move(*tokenizer);
}

}  // namespace tamis
