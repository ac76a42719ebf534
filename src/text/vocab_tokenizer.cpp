// The parts of encoding and decoding that do not depend on the model.
#include "text/vocab_tokenizer.h"

#include <algorithm>

namespace tamis {

VocabTokenizer::VocabTokenizer(VocabData vocab) : vocab_(std::move(vocab)) {
  byte_tokens_.fill(kNoToken);
  ends_.resize(n_vocab());
  std::vector<std::pair<std::string_view, TokenId>> parsed;
  for (TokenId id = 0; is_in_range(id); ++id) {
    if (text(id).empty()) continue;
    if (type(id) == TokenType::control || type(id) == TokenType::unknown) parsed.emplace_back(text(id), id);
    if (type(id) == TokenType::byte) byte_tokens_[byte_of_token(text(id)).value_or(0)] = id;
  }
  for (const TokenId id : vocab_.special.end_of_generation) ends_[static_cast<size_t>(id)] = 1;
  when_parsed_ = AddedTokens(std::move(parsed));
  strips_after_special_ = vocab_.model == "llama" && find_stored("<|placeholder1|>") != kNoToken;
}

// The chat tokens of one SentencePiece family (known by its placeholders) are declared "rstrip" in its tokenizer.json,
// which GGUF does not record.
bool VocabTokenizer::takes_space_after(TokenId id) const {
  return strips_after_special_ && text(id) != "<unk>" && text(id) != "<s>" && text(id) != "<|endoftext|>";
}

void VocabTokenizer::use_user_defined_in_raw_text() {
  std::vector<std::pair<std::string_view, TokenId>> always, parsed;
  for (TokenId id = 0; is_in_range(id); ++id) {
    const bool is_user_defined = type(id) == TokenType::user_defined;
    if (is_user_defined) always.emplace_back(text(id), id);
    if (is_user_defined || type(id) == TokenType::control || type(id) == TokenType::unknown)
      parsed.emplace_back(text(id), id);
  }
  always_ = AddedTokens(std::move(always));
  when_parsed_ = AddedTokens(std::move(parsed));
}

std::optional<TokenId> VocabTokenizer::find_token(std::string_view stored_text) const {
  const TokenId id = find_stored(stored_text);
  return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
}

// A user-defined token that models use as a control token (`<tool_call>`, `</think>`, `<|fim_prefix|>`), unlike the
// HTML tags and runs of white space of some vocabularies.
bool VocabTokenizer::looks_like_control(TokenId id) const {
  if (type(id) != TokenType::user_defined) return true;
  const std::string_view name = text(id);
  const bool is_bracketed =
      (name.starts_with('<') && name.ends_with('>')) || (name.starts_with('[') && name.ends_with(']'));
  if (!is_bracketed) return false;
  for (const std::string_view mark : {"|", "_", "think", "tool", "\xef\xbd\x9c"})
    if (name.find(mark) != std::string_view::npos) return true;
  return false;
}

AddedTokens::Match VocabTokenizer::next_added(std::string_view text, size_t from,
                                              std::span<const std::pair<size_t, size_t>> literal_ranges,
                                              bool parses_special) const {
  const AddedTokens& added = parses_special ? when_parsed_ : always_;
  AddedTokens::Match match = added.find(text, from);
  while (match.id != kNoToken && !literal_ranges.empty()) {
    const auto range = std::upper_bound(literal_ranges.begin(), literal_ranges.end(), match.begin,
                                        [](size_t at, const auto& r) { return at < r.second; });
    const bool is_masked = range != literal_ranges.end() && range->first < match.end && looks_like_control(match.id);
    if (!is_masked) break;
    const AddedTokens::Match plain = always_.empty() ? AddedTokens::Match{match.begin, match.begin, kNoToken}
                                                     : always_.longest_at(text, match.begin);
    if (plain.id != kNoToken && !looks_like_control(plain.id)) return plain;
    match = added.find(text, match.begin + 1);
  }
  return match;
}

std::vector<TokenId> VocabTokenizer::encode_masked(std::string_view text,
                                                   std::span<const std::pair<size_t, size_t>> literal_ranges,
                                                   const EncodeOptions& options) const {
  std::vector<TokenId> out;
  const SpecialTokens& special = vocab_.special;
  const bool is_bert = special.cls != kNoToken && vocab_.model == "bert";
  if (options.add_special && (special.add_bos || is_bert)) out.push_back(special.bos);
  bool follows_special = true;
  for (size_t i = 0; i < text.size();) {
    const AddedTokens::Match match = next_added(text, i, literal_ranges, options.parse_special);
    if (match.begin > i) {
      encode_text(text.substr(i, match.begin - i), follows_special, out);
      follows_special = false;
    }
    if (match.id != kNoToken) {
      out.push_back(match.id);
      follows_special = true;
    }
    i = match.end;
    if (match.id != kNoToken && takes_space_after(match.id))
      while (i < text.size() && (text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r'))) ++i;
  }
  if (options.add_special && is_bert) out.push_back(special.sep);
  if (options.add_special && !is_bert && special.add_eos) out.push_back(special.eos);
  return out;
}

std::string VocabTokenizer::token_bytes(TokenId id, bool show_control) const {
  if (!is_in_range(id)) return {};
  switch (type(id)) {
    case TokenType::normal: return normal_bytes(id);
    case TokenType::user_defined:
      return vocab_.model == "llama" ? unescape_space_marks(text(id)) : std::string(text(id));
    case TokenType::byte: return std::string(1, static_cast<char>(byte_of_token(text(id)).value_or(0)));
    case TokenType::control:
    case TokenType::unknown: return show_control ? std::string(text(id)) : std::string();
    case TokenType::unused: break;
  }
  return {};
}

std::string VocabTokenizer::decode(std::span<const TokenId> ids, bool show_control) const {
  std::string out;
  bool is_first = vocab_.special.add_space_prefix;
  for (const TokenId id : ids) {
    const std::string bytes = token_bytes(id, show_control);
    const bool is_text = is_in_range(id) && type(id) != TokenType::control && type(id) != TokenType::unknown;
    const bool drops_space = is_first && is_text && !bytes.empty() && bytes[0] == ' ';
    out.append(bytes, drops_space ? 1 : 0);
    if (is_text && !bytes.empty()) is_first = false;
  }
  return out;
}

std::string escape_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) c == ' ' ? out.append(kSpaceMark) : out.append(1, c);
  return out;
}

std::string unescape_space_marks(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, kSpaceMark.size()) == kSpaceMark) {
      out += ' ';
      i += kSpaceMark.size();
    } else {
      out += text[i++];
    }
  }
  return out;
}

VocabResult<std::shared_ptr<const Tokenizer>> build_tokenizer(VocabData vocab) {
  if (vocab.model == "gpt2" || vocab.model == "gemma4") return make_bpe_tokenizer(std::move(vocab));
  if (vocab.model == "llama") return make_spm_tokenizer(std::move(vocab));
  if (vocab.model == "bert") return make_wordpiece_tokenizer(std::move(vocab));
  return make_unigram_tokenizer(std::move(vocab));
}

}  // namespace tamis
