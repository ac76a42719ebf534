// Tokens, types, scores and merges; first from the tokenizer itself, then what is added to it.
#include "convert/hf_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/limits.h"
#include "convert/hf_pretokenizer.h"
#include "convert/hf_special.h"
#include "text/tokenizer_models.h"
#include "text/vocab.h"

namespace tamis {
namespace {

constexpr float kAddedScore = -1000, kPaddingScore = -10000;  // as llama.cpp's converter has them
constexpr std::string_view kSpaceMark = "\u2581";

tl::unexpected<Error> bad(std::string_view file, std::string what) {
  return tl::unexpected<Error>(with_file(Error{ErrorCode::format, std::move(what), nullptr}, file));
}

std::string with_spaces(std::string_view token) {
  std::string out(token);
  for (size_t at = 0; (at = out.find(kSpaceMark, at)) != std::string::npos; ++at)
    out.replace(at, kSpaceMark.size(), " ");
  return out;
}

std::string text_of(const Json* value) { return value != nullptr && value->is_string() ? value->as_string() : ""; }

class VocabMaker {
 public:
  VocabMaker(const HfTokenizerFiles& files, const HfVocabOptions& options) : files_(files), options_(options) {}

  Result<HfVocab> make() {
    if (files_.sentencepiece) {
      TAMIS_TRY_STATUS(from_sentencepiece());
    } else {
      TAMIS_TRY_STATUS(from_tokenizer_json());
    }
    TAMIS_TRY_STATUS(add_added_tokens());
    TAMIS_TRY_STATUS(fill_holes());
    TAMIS_TRY_STATUS(read_special_tokens(files_, vocab_));
    return std::move(vocab_);
  }

 private:
  // ---- tokens by id, holes allowed until fill_holes

  bool has(uint64_t id) const { return id < vocab_.tokens.size() && is_set_[id]; }

  Status set(uint64_t id, std::string text, TokenType type, float score, std::string_view file) {
    const uint64_t n_max = options_.n_vocab != 0 ? options_.n_vocab : Limits{}.n_vocab;
    if (id >= n_max)
      return bad(file,
                 fmt::format("token \"{}\" has id {}, expected one below {}", escape_for_display(text), id, n_max));
    if (id >= vocab_.tokens.size()) {
      vocab_.tokens.resize(id + 1);
      vocab_.types.resize(id + 1, TokenType::unused);
      scores_.resize(id + 1, kPaddingScore);
      is_set_.resize(id + 1, false);
    }
    vocab_.tokens[id] = std::move(text);
    vocab_.types[id] = type;
    scores_[id] = score;
    is_set_[id] = true;
    return {};
  }

  Status from_sentencepiece() {
    auto model = read_sentencepiece(*files_.sentencepiece);
    if (!model) return tl::unexpected<Error>(with_file(model.error(), "tokenizer.model"));
    vocab_.model = model->is_unigram && !model->has_byte_fallback ? kSentencePieceUnigram : kSentencePieceBpe;
    vocab_.pre = "default";
    for (size_t i = 0; i < model->pieces.size(); ++i) {
      SentencePiece& piece = model->pieces[i];
      auto type = static_cast<TokenType>(piece.type);
      std::string text = type == TokenType::user_defined ? with_spaces(piece.text) : std::move(piece.text);
      TAMIS_TRY_STATUS(set(i, std::move(text), type, piece.score, "tokenizer.model"));
    }
    keeps_scores_ = true;
    const Json* prefix = files_.tokenizer_config.find("add_prefix_space");
    if (prefix != nullptr && prefix->is_bool()) vocab_.add_space_prefix = prefix->as_bool();
    if (!model->adds_dummy_prefix) vocab_.add_space_prefix = false;
    if (vocab_.model == kSentencePieceUnigram) {
      vocab_.add_space_prefix = model->adds_dummy_prefix;
      vocab_.removes_extra_whitespaces = model->removes_extra_whitespaces;
      vocab_.charsmap = std::move(model->charsmap);
    }
    return {};
  }

  Status from_tokenizer_json() {
    const Json* model = files_.tokenizer.find("model");
    const Json* entries = model == nullptr ? nullptr : model->find("vocab");
    const std::string type = model == nullptr ? "" : text_of(model->find("type"));
    if (model == nullptr || entries == nullptr) return bad("tokenizer.json", "no model.vocab");
    if ((type != "BPE" && !type.empty()) || !entries->is_object())
      return fail(
          ErrorCode::unsupported,
          "tokenizer.json: a {} tokenizer without tokenizer.model, expected BPE (byte-level or with byte fallback)",
          type.empty() ? "nameless" : escape_for_display(type));
    for (const auto& [token, id] : entries->as_object()) {
      if (!id.is_int() || id.as_int() < 0)
        return bad("tokenizer.json", fmt::format("token \"{}\" has no id", escape_for_display(token)));
      const auto at = static_cast<uint64_t>(id.as_int());
      if (has(at)) return bad("tokenizer.json", fmt::format("two tokens have id {}", at));
      TAMIS_TRY_STATUS(set(at, token, TokenType::normal, 0, "tokenizer.json"));
    }
    TAMIS_TRY_STATUS(read_merges(*model, *entries));
    const Json* fallback = model->find("byte_fallback");
    if (fallback != nullptr && fallback->is_bool() && fallback->as_bool()) return finish_characters(*model);
    vocab_.model = kByteLevelBpe;
    vocab_.pre = options_.pre;
    if (vocab_.pre.empty()) {
      auto pre = find_pre_name(files_.tokenizer);
      if (!pre) return tl::unexpected<Error>(with_file(pre.error(), "tokenizer.json"));
      vocab_.pre = std::move(*pre);
    }
    return {};
  }

  Status read_merges(const Json& model, const Json& entries) {
    const Json* merges = model.find("merges");
    if (merges == nullptr || !merges->is_array()) return bad("tokenizer.json", "no model.merges");
    std::unordered_map<std::string_view, bool> known;
    for (const auto& entry : entries.as_object()) known.emplace(entry.first, true);
    for (const Json& merge : merges->as_array()) {
      std::string left, right;
      if (merge.is_string()) {
        const size_t at = merge.as_string().find(' ', 1);
        if (at != std::string::npos) left = merge.as_string().substr(0, at), right = merge.as_string().substr(at + 1);
      } else if (merge.is_array() && merge.as_array().size() == 2) {
        left = text_of(&merge.as_array()[0]), right = text_of(&merge.as_array()[1]);
      }
      if (left.empty() || right.empty() || !known.contains(left) || !known.contains(right) ||
          !known.contains(left + right))
        return bad("tokenizer.json", fmt::format("merge {} {}: expected two tokens that make a third",
                                                 vocab_.merges.size(), escape_for_display(merge.dump())));
      for (std::string* part : {&left, &right})  // the separator is a space: one inside a token is written as U+0120
        for (size_t at = 0; (at = part->find(' ', at)) != std::string::npos; ++at) part->replace(at, 1, "\u0120");
      vocab_.merges.push_back(left + " " + right);
    }
    return {};
  }

  // SentencePiece BPE that only tokenizer.json describes: a piece's score is the rank of the first merge that makes it;
  // pieces no merge makes are single characters, which need no score.
  Status finish_characters(const Json& model) {
    std::unordered_map<std::string, float> rank;
    for (const std::string& merge : vocab_.merges) {
      const size_t at = merge.find(' ', 1);
      rank.emplace(merge.substr(0, at) + merge.substr(at + 1), -static_cast<float>(rank.size()));
    }
    vocab_.model = kSentencePieceBpe;
    vocab_.pre = "default";
    vocab_.merges.clear();
    keeps_scores_ = true;
    const std::string unknown = text_of(model.find("unk_token"));
    const auto lowest = -static_cast<float>(rank.size());
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
      if (!is_set_[i]) continue;
      const auto it = rank.find(vocab_.tokens[i]);
      scores_[i] = it == rank.end() ? lowest : it->second;
      if (byte_of_token(vocab_.tokens[i])) vocab_.types[i] = TokenType::byte, scores_[i] = 0;
      if (vocab_.tokens[i] == unknown) vocab_.types[i] = TokenType::unknown, scores_[i] = 0;
    }
    vocab_.add_space_prefix = has_space_prefix();
    return {};
  }

  bool has_space_prefix() const {
    const std::string normalizer =
        files_.tokenizer.find("normalizer") ? files_.tokenizer.find("normalizer")->dump() : "";
    const Json* step = files_.tokenizer.find("pre_tokenizer");
    const std::string scheme = step == nullptr ? "" : text_of(step->find("prepend_scheme"));
    return normalizer.find("\"Prepend\"") != std::string::npos || scheme == "first" || scheme == "always";
  }

  // ---- what is added: tokenizer.json's own list, added_tokens.json, tokenizer_config.json's added_tokens_decoder

  Status add_added_tokens() {
    if (const Json* added = files_.tokenizer.find("added_tokens"); added != nullptr && added->is_array())
      for (const Json& token : added->as_array()) TAMIS_TRY_STATUS(add_one(token.find("id"), token, "tokenizer.json"));
    if (files_.added_tokens.is_object() && keeps_scores_)
      for (const auto& [text, id] : files_.added_tokens.as_object()) {
        Json token = Json::object();
        TAMIS_TRY_STATUS(add_one(&id, token.set("content", text), "added_tokens.json"));
      }
    const Json* decoder = files_.tokenizer_config.find("added_tokens_decoder");
    if (decoder == nullptr || !decoder->is_object() || !keeps_scores_) return {};
    for (const auto& [key, token] : decoder->as_object()) {
      int64_t number = -1;
      const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), number);
      if (fault != std::errc() || end != key.data() + key.size() || number < 0)
        return bad("tokenizer_config.json", "added_tokens_decoder: expected ids as keys");
      const Json id(number);
      TAMIS_TRY_STATUS(add_one(&id, token, "tokenizer_config.json"));
    }
    return {};
  }

  Status add_one(const Json* id, const Json& token, std::string_view file) {
    const std::string text = text_of(token.find("content"));
    if (id == nullptr || !id->is_int() || id->as_int() < 0 || text.empty())
      return bad(file, fmt::format("added token {}: expected an id and a text", escape_for_display(token.dump())));
    const auto at = static_cast<uint64_t>(id->as_int());
    if (options_.n_vocab != 0 && at >= options_.n_vocab) {
      vocab_.warnings.push_back(fmt::format("added token \"{}\" (id {}) has no row in the embedding: left out",
                                            escape_for_display(text), at));
      return {};
    }
    const Json* special = token.find("special");
    const bool is_control = (special != nullptr && special->is_bool() && special->as_bool()) || looks_special(text);
    if (has(at) && vocab_.types[at] == TokenType::unknown && vocab_.tokens[at] == text && is_control) return {};
    return set(at, is_control ? text : with_spaces(text), is_control ? TokenType::control : TokenType::user_defined,
               kAddedScore, file);
  }

  // ids nothing names, and rows of the embedding past the last token
  Status fill_holes() {
    if (vocab_.tokens.empty()) return bad(files_.sentencepiece ? "tokenizer.model" : "tokenizer.json", "no tokens");
    const uint64_t n = std::max<uint64_t>(vocab_.tokens.size(), options_.n_vocab);
    const size_t n_real = static_cast<size_t>(std::count(is_set_.begin(), is_set_.end(), true));
    if (n > Limits{}.n_vocab || n > 64 * n_real + 1024)  // ids decide the size: they may not run far past the tokens
      return bad("tokenizer.json", fmt::format("{} ids for {} tokens", n, n_real));
    vocab_.tokens.resize(n);
    vocab_.types.resize(n, TokenType::unused);
    scores_.resize(n, kPaddingScore);
    is_set_.resize(n, false);
    for (size_t i = 0; i < n; ++i)
      if (!is_set_[i]) vocab_.tokens[i] = fmt::format("[PAD{}]", i);
    if (keeps_scores_) vocab_.scores = std::move(scores_);
    return {};
  }

  const HfTokenizerFiles& files_;
  const HfVocabOptions& options_;
  HfVocab vocab_;
  std::vector<float> scores_;
  std::vector<bool> is_set_;
  bool keeps_scores_ = false;
};

}  // namespace

bool looks_special(std::string_view text) {
  constexpr std::string_view kKnown[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
  if (std::find(std::begin(kKnown), std::end(kKnown), text) != std::end(kKnown)) return true;
  if (text.starts_with("<unused") && text.ends_with(">")) return true;
  return (text.starts_with("<|") && text.ends_with("|>")) || (text.starts_with("<｜") && text.ends_with("｜>"));
}

Result<HfVocab> read_hf_vocab(const HfTokenizerFiles& files, const HfVocabOptions& options) {
  return VocabMaker(files, options).make();
}

}  // namespace tamis
