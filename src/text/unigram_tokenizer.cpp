// SentencePiece's unigram model (tokenizer.ggml.model "t5"): text is normalised by the model's own table, then cut into
// the pieces whose log-probabilities have the largest sum (Viterbi). Source: Kudo 2018, arXiv:1804.10959; unknown
// characters cost 10 more than the worst piece, as in sentencepiece and Hugging Face tokenizers; sums in double, as the
// latter.
#include <algorithm>
#include <cfloat>

#include "text/charsmap.h"
#include "text/unicode.h"
#include "text/vocab_tokenizer.h"

namespace tamis {
namespace {

constexpr double kUnknownPenalty = 10.0;

class UnigramTokenizer final : public VocabTokenizer {
 public:
  explicit UnigramTokenizer(VocabData vocab) : VocabTokenizer(std::move(vocab)) {
    use_user_defined_in_raw_text();
    std::vector<std::pair<std::string_view, TokenId>> pieces;
    double worst = 0;
    for (TokenId id = 0; is_in_range(id); ++id) {
      if (type(id) != TokenType::normal && type(id) != TokenType::user_defined) continue;
      pieces.emplace_back(text(id), id);
      if (type(id) == TokenType::normal) worst = std::min<double>(worst, score(id));
    }
    pieces_ = AddedTokens(std::move(pieces));
    unknown_score_ = worst - kUnknownPenalty;
  }

  VocabResult<void> read_charsmap() {
    auto map = Charsmap::parse(vocab_.charsmap);
    if (!map)
      return tl::unexpected(VocabFault{ErrorCode::format, "tokenizer.ggml.precompiled_charsmap", map.error().message,
                                       "a trie and its texts", "E_CHARSMAP"});
    charsmap_ = *map;
    return {};
  }

 protected:
  void encode_text(std::string_view text, bool, std::vector<TokenId>& out) const override {
    const std::string normalized = normalize(text);
    std::vector<Step> best(normalized.size() + 1);
    best[0].sum = 0;
    for (size_t i = 0; i < normalized.size(); i += unicode::char_at(normalized, i).length) extend(normalized, i, best);
    emit(normalized, best, out);
  }

  std::string normal_bytes(TokenId id) const override { return unescape_space_marks(text(id)); }

 private:
  // The best way to the end of a prefix: its last piece (kNoToken: an unknown character) and where that begins.
  struct Step {
    double sum = -DBL_MAX;
    size_t begin = 0;
    TokenId id = kNoToken;
  };

  void extend(std::string_view text, size_t at, std::vector<Step>& best) const {
    const size_t char_length = unicode::char_at(text, at).length;
    bool has_character = false;
    uint32_t node = 0;
    for (size_t i = at; i < text.size() && !pieces_.empty(); ++i) {
      node = pieces_.child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) break;
      const TokenId id = pieces_.id(node);
      if (id == kNoToken) continue;
      has_character |= i + 1 - at == char_length;
      offer(best[i + 1], best[at].sum + (type(id) == TokenType::user_defined ? 0.0 : score(id)), at, id);
    }
    if (!has_character) offer(best[at + char_length], best[at].sum + unknown_score_, at, kNoToken);
  }

  static void offer(Step& step, double sum, size_t begin, TokenId id) {
    if (sum > step.sum) step = {sum, begin, id};
  }

  void emit(std::string_view text, const std::vector<Step>& best, std::vector<TokenId>& out) const {
    const auto out_begin = static_cast<ptrdiff_t>(out.size());
    bool last_is_unknown = false;
    for (size_t end = text.size(); end > 0; end = best[end].begin) {
      const Step& step = best[end];
      const bool has_bytes = byte_token(static_cast<uint8_t>(text[step.begin])) != kNoToken;
      if (step.id != kNoToken) {
        out.push_back(step.id);
      } else if (has_bytes) {
        for (size_t i = end; i-- > step.begin;) {
          const TokenId id = byte_token(static_cast<uint8_t>(text[i]));
          out.push_back(id == kNoToken ? vocab_.special.unk : id);
        }
      } else if (!last_is_unknown) {
        out.push_back(vocab_.special.unk);
      }
      last_is_unknown = step.id == kNoToken && !has_bytes;
    }
    std::reverse(out.begin() + out_begin, out.end());
  }

  // SentencePiece's normaliser: the model's rules, spaces as marks, one in front, extra ones removed if the model says
  // so.
  std::string normalize(std::string_view text) const {
    const bool trims = vocab_.remove_extra_whitespaces;
    std::string out;
    bool after_space = trims;
    bool is_begun = false;
    for (size_t i = 0; i < text.size();) {
      const unicode::Char c = unicode::char_at(text, i);
      const Charsmap::Prefix rule = charsmap_.longest(text, i);
      std::string_view normal = rule.n_bytes > 0 ? rule.replacement : text.substr(i, c.length);
      if (rule.n_bytes == 0 && !c.is_valid && byte_token(0) == kNoToken) normal = "\xef\xbf\xbd";
      i += rule.n_bytes > 0 ? rule.n_bytes : c.length;
      for (const char byte : normal) {
        if (byte == ' ' && after_space) continue;
        if (!is_begun && vocab_.special.add_space_prefix) out += kSpaceMark;
        is_begun = true;
        after_space = trims && byte == ' ';
        byte == ' ' ? out.append(kSpaceMark) : out.append(1, byte);
      }
    }
    while (trims && out.ends_with(kSpaceMark)) out.resize(out.size() - kSpaceMark.size());
    return out;
  }

  AddedTokens pieces_;
  Charsmap charsmap_;
  double unknown_score_ = 0;
};

}  // namespace

VocabResult<std::shared_ptr<const Tokenizer>> make_unigram_tokenizer(VocabData vocab) {
  auto tokenizer = std::make_shared<UnigramTokenizer>(std::move(vocab));
  auto status = tokenizer->read_charsmap();
  if (!status) return tl::unexpected(status.error());
  return tokenizer;
}

}  // namespace tamis
