// WordPiece (tokenizer.ggml.model "bert"): text is cleaned, lowered and stripped of accents, cut at white space,
// punctuation and CJK ideographs, and each word is covered by the longest pieces from its left. GGUF spells the first
// piece of a word with U+2581 in front and the others bare. Source: Devlin et al. 2018, arXiv:1810.04805; details as in
// Hugging Face tokenizers (BertNormalizer, BertPreTokenizer, WordPiece with at most 100 characters a word).
#include <algorithm>

#include "base/utf8.h"
#include "text/unicode.h"
#include "text/vocab_tokenizer.h"

namespace tamis {
namespace {

constexpr size_t kMaxWordChars = 100;

bool is_cjk(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) ||
         (c >= 0x2b920 && c <= 0x2ceaf) ||  // the reference says 2B920, not 2B820
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

bool has_class(char32_t c, uint32_t mask) { return (mask >> unicode::char_class(c)) & 1u; }

bool is_punctuation(char32_t c) {
  static const uint32_t mask = unicode::property_mask("P");
  const bool is_ascii = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return is_ascii || has_class(c, mask);
}

class WordPieceTokenizer final : public VocabTokenizer {
 public:
  explicit WordPieceTokenizer(VocabData vocab) : VocabTokenizer(std::move(vocab)), pieces_(n_vocab()) {
    use_user_defined_in_raw_text();
    const auto text_of = [this](TokenId id) { return text(id); };
    for (TokenId id = 0; is_in_range(id); ++id)
      if (type(id) == TokenType::normal && !text(id).empty()) pieces_.insert(id, text_of);
  }

 protected:
  void encode_text(std::string_view text, bool, std::vector<TokenId>& out) const override {
    std::string word;
    const auto flush = [&] {
      encode_word(word, out);
      word.clear();
    };
    const std::string normalized = normalize(text);
    for (size_t i = 0; i < normalized.size();) {
      const unicode::Char c = unicode::char_at(normalized, i);
      const bool is_alone = is_punctuation(c.code_point);
      if (is_alone || unicode::is_whitespace(c.code_point)) flush();
      if (!unicode::is_whitespace(c.code_point)) word.append(normalized, i, c.length);
      if (is_alone) flush();
      i += c.length;
    }
    flush();
  }

  // A word's first piece begins with a space; decode() drops the first one.
  std::string normal_bytes(TokenId id) const override { return unescape_space_marks(text(id)); }

 private:
  std::string normalize(std::string_view text) const {
    static const uint32_t other = unicode::property_mask("C"), marks = unicode::property_mask("Mn");
    std::string cleaned;
    for (size_t i = 0; i < text.size();) {
      const unicode::Char c = unicode::char_at(text, i);
      i += c.length;
      const bool is_line_space = c.code_point == '\t' || c.code_point == '\n' || c.code_point == '\r';
      if (is_line_space || (unicode::is_whitespace(c.code_point) && !has_class(c.code_point, other))) {
        cleaned += ' ';
      } else if (c.code_point != 0 && c.code_point != unicode::kReplacement && !has_class(c.code_point, other)) {
        if (is_cjk(c.code_point)) cleaned += ' ';
        utf8_append(cleaned, c.code_point);
        if (is_cjk(c.code_point)) cleaned += ' ';
      }
    }
    if (vocab_.strips_accents.value_or(vocab_.is_lower_case)) {
      std::string stripped;
      for (const char32_t c : unicode::to_nfd(cleaned))
        if (!has_class(c, marks)) utf8_append(stripped, c);
      cleaned = std::move(stripped);
    }
    if (!vocab_.is_lower_case) return cleaned;
    std::string lowered;
    for (size_t i = 0; i < cleaned.size();) {
      const unicode::Char c = unicode::char_at(cleaned, i);
      unicode::append_lower(lowered, c.code_point);
      i += c.length;
    }
    return lowered;
  }

  void encode_word(std::string_view word, std::vector<TokenId>& out) const {
    if (word.empty()) return;
    std::vector<size_t> borders = {0};  // of characters
    for (size_t i = 0; i < word.size();) borders.push_back(i += unicode::char_at(word, i).length);
    const size_t n_chars = borders.size() - 1, out_begin = out.size();
    std::string spelled;
    for (size_t begin = 0; n_chars <= kMaxWordChars && begin < n_chars;) {
      size_t end = n_chars;
      TokenId id = kNoToken;
      for (; end > begin; --end) {
        spelled.assign(begin == 0 ? kSpaceMark : std::string_view());
        spelled.append(word.substr(borders[begin], borders[end] - borders[begin]));
        id = pieces_.find(spelled, [this](TokenId i) { return text(i); });
        if (id != kNoToken) break;
      }
      if (id == kNoToken) {
        out.resize(out_begin);
        break;
      }
      out.push_back(id);
      begin = end;
    }
    if (out.size() == out_begin) out.push_back(vocab_.special.unk);
  }

  TokenIndex pieces_;
};

}  // namespace

VocabResult<std::shared_ptr<const Tokenizer>> make_wordpiece_tokenizer(VocabData vocab) {
  return std::make_shared<WordPieceTokenizer>(std::move(vocab));
}

}  // namespace tamis
