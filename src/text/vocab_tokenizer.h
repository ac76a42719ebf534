// What the tokenizer models share: the vocabulary, its lookups, added tokens cut out of text, and decoding token by
// token.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/token_index.h"
#include "text/vocab.h"

namespace tamis {

class VocabTokenizer : public Tokenizer {
 public:
  explicit VocabTokenizer(VocabData vocab);

  std::string_view model_name() const override { return vocab_.model; }
  std::string_view pre_name() const override { return {}; }
  size_t n_vocab() const override { return vocab_.tokens.size(); }
  const SpecialTokens& special() const override { return vocab_.special; }
  std::string_view token_text(TokenId id) const override { return is_in_range(id) ? text(id) : std::string_view(); }
  TokenType token_type(TokenId id) const override { return is_in_range(id) ? type(id) : TokenType::unused; }
  bool is_end_of_generation(TokenId id) const override {
    return is_in_range(id) && ends_[static_cast<size_t>(id)] != 0;
  }
  std::optional<TokenId> find_token(std::string_view stored_text) const override;

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    return encode_masked(text, {}, options);
  }
  std::vector<TokenId> encode_masked(std::string_view text, std::span<const std::pair<size_t, size_t>> literal_ranges,
                                     const EncodeOptions& options) const override;
  std::string token_bytes(TokenId id, bool show_control) const override;
  std::string decode(std::span<const TokenId> ids, bool show_control) const override;

 protected:
  // Tokens of a stretch of text without added tokens in it. `follows_special`: it begins the text or follows an added
  // token.
  virtual void encode_text(std::string_view text, bool follows_special, std::vector<TokenId>& out) const = 0;
  // The bytes of a token of type normal.
  virtual std::string normal_bytes(TokenId id) const = 0;

  bool is_in_range(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < vocab_.tokens.size(); }
  std::string_view text(TokenId id) const { return vocab_.tokens[static_cast<size_t>(id)]; }
  TokenType type(TokenId id) const { return vocab_.types[static_cast<size_t>(id)]; }
  float score(TokenId id) const { return vocab_.scores[static_cast<size_t>(id)]; }
  // By stored text, any type.
  TokenId find_stored(std::string_view stored_text) const {
    return vocab_.by_text.find(stored_text, [this](TokenId id) { return text(id); });
  }
  // The token of a byte among `<0xNN>` tokens, or kNoToken.
  TokenId byte_token(uint8_t byte) const { return byte_tokens_[byte]; }

  // User-defined tokens are taken out of the raw text (all models but SentencePiece's, which matches them after
  // escaping).
  void use_user_defined_in_raw_text();

  VocabData vocab_;

 private:
  // The next added token at or after `from` that may be recognised there.
  AddedTokens::Match next_added(std::string_view text, size_t from,
                                std::span<const std::pair<size_t, size_t>> literal_ranges, bool parses_special) const;
  bool looks_like_control(TokenId id) const;

  bool takes_space_after(TokenId id) const;

  AddedTokens always_, when_parsed_;  // looked for always; and with parse_special (a superset)
  std::vector<uint8_t> ends_;         // [n_vocab] 1 for tokens that end an answer
  std::array<TokenId, 256> byte_tokens_;
  bool strips_after_special_ = false;  // white space after most special tokens belongs to them
};

// U+2581, which stands for a space in SentencePiece's texts.
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";
std::string escape_spaces(std::string_view text);         // spaces to marks
std::string unescape_space_marks(std::string_view text);  // marks to spaces

// The models; all take a completed vocabulary.
VocabResult<std::shared_ptr<const Tokenizer>> make_bpe_tokenizer(VocabData vocab);        // gpt2, gemma4
VocabResult<std::shared_ptr<const Tokenizer>> make_spm_tokenizer(VocabData vocab);        // llama
VocabResult<std::shared_ptr<const Tokenizer>> make_wordpiece_tokenizer(VocabData vocab);  // bert
VocabResult<std::shared_ptr<const Tokenizer>> make_unigram_tokenizer(VocabData vocab);    // t5

}  // namespace tamis
