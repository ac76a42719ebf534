// SentencePiece's byte-pair model (tokenizer.ggml.model "llama"): no word splitting; adjacent symbols merge into the
// piece with the best score; what is no piece falls back to byte tokens. Source: Kudo and Richardson 2018,
// arXiv:1808.06226; order of merges and treatment of user-defined and unused pieces as in sentencepiece 0.2
// (bpe_model.cc).
#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <functional>
#include <unordered_map>

#include "base/fault.h"
#include "text/unicode.h"
#include "text/vocab_tokenizer.h"
#include "text/word_cache.h"

namespace tamis {
namespace {

constexpr uint32_t kEnd = 0xffffffff;

class SpmTokenizer final : public VocabTokenizer {
 public:
  explicit SpmTokenizer(VocabData vocab) : VocabTokenizer(std::move(vocab)), pieces_(n_vocab()) {
    std::deque<std::string> escaped;  // GGUF stores user-defined pieces with plain spaces, the text has marks
    std::vector<std::pair<std::string_view, TokenId>> user_defined;
    const auto text_of = [this](TokenId id) { return text(id); };
    for (TokenId id = 0; is_in_range(id); ++id) {
      if (text(id).empty()) continue;
      if (type(id) == TokenType::user_defined) {
        escaped.push_back(escape_spaces(text(id)));
        user_defined.emplace_back(escaped.back(), id);
        note_joints(escaped.back());
      }
      if (type(id) != TokenType::normal && type(id) != TokenType::unused) continue;
      pieces_.insert(id, text_of);
      note_joints(text(id));
      longest_piece_ = std::max(longest_piece_, text(id).size());
    }
    user_defined_ = AddedTokens(std::move(user_defined));
    for (unsigned byte = 0; byte < 256; ++byte) has_all_bytes_ &= byte_token(static_cast<uint8_t>(byte)) != kNoToken;
  }

 protected:
  void encode_text(std::string_view text, bool follows_special, std::vector<TokenId>& out) const override {
    std::string escaped;
    if (vocab_.special.add_space_prefix && follows_special) escaped = kSpaceMark;
    escaped += escape_spaces(text);
    WordCache cache(escaped.size());
    const auto encode_word = [this](std::string_view word, std::vector<TokenId>& ids) { Merger(*this, word).run(ids); };
    for (size_t begin = 0; begin < escaped.size();) {
      const size_t end = word_end(escaped, begin);
      cache.append(std::string_view(escaped).substr(begin, end - begin), out, encode_word);
      begin = end;
    }
  }

  std::string normal_bytes(TokenId id) const override { return unescape_space_marks(text(id)); }

 private:
  TokenId find_piece(std::string_view bytes) const {
    if (bytes.size() > longest_piece_) return kNoToken;
    return pieces_.find(bytes, [this](TokenId id) { return text(id); });
  }

  // Remembers after which bytes a space mark may stand inside a piece.
  void note_joints(std::string_view piece) {
    for (size_t at = piece.find(kSpaceMark, 1); at != std::string_view::npos; at = piece.find(kSpaceMark, at + 1))
      joins_space_mark_[static_cast<uint8_t>(piece[at - 1])] = true;
  }

  // Where the text may be cut without changing its tokens: before a space mark that no piece has after the byte in
  // front of it. (A run of unknown text may cross any border, so a vocabulary without byte tokens is not cut.)
  size_t word_end(std::string_view text, size_t begin) const {
    for (size_t at = begin; has_all_bytes_;) {
      at = text.find(kSpaceMark, at + 1);
      if (at == std::string_view::npos) break;
      if (!joins_space_mark_[static_cast<uint8_t>(text[at - 1])]) return at;
    }
    return text.size();
  }

  struct Symbol {
    uint32_t begin = 0, length = 0;  // bytes of the text; length 0: merged away
    uint32_t previous = kEnd, next = kEnd;
    TokenId pair = kNoToken;  // what this and the next one would become; of a frozen one, its own token
    bool is_frozen = false;   // a user-defined piece: takes no part in merges
  };

  // One text being merged.
  class Merger {
   public:
    Merger(const SpmTokenizer& tokenizer, std::string_view text) : tokenizer_(tokenizer), text_(text) {}

    void run(std::vector<TokenId>& out) {
      add_symbols();
      for (uint32_t i = 0; i + 1 < symbols_.size(); ++i)
        if (find_pair(i)) heap_.push_back(entry(i));
      std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
      while (!heap_.empty()) merge_next();
      for (uint32_t i = symbols_.empty() ? kEnd : 0; i != kEnd; i = symbols_[i].next) {
        last_is_unknown_ &= !symbols_[i].is_frozen;
        symbols_[i].is_frozen ? out.push_back(symbols_[i].pair) : emit(piece(symbols_[i]), out);
      }
    }

   private:
    std::string_view piece(const Symbol& symbol) const { return text_.substr(symbol.begin, symbol.length); }

    void add_symbols() {
      for (size_t i = 0; i < text_.size();) {
        const AddedTokens::Match match = tokenizer_.user_defined_.longest_at(text_, i);
        Symbol symbol;
        symbol.is_frozen = match.id != kNoToken;
        symbol.pair = match.id;
        symbol.begin = static_cast<uint32_t>(i);
        symbol.length = symbol.is_frozen ? static_cast<uint32_t>(match.end - i) : unicode::char_at(text_, i).length;
        const auto index = static_cast<uint32_t>(symbols_.size());
        symbol.previous = index == 0 ? kEnd : index - 1;
        if (index > 0) symbols_[index - 1].next = index;
        symbols_.push_back(symbol);
        i += symbol.length;
      }
    }

    // Looks up what symbol `left` and its next would become.
    bool find_pair(uint32_t left) {
      Symbol& symbol = symbols_[left];
      if (symbol.is_frozen) return false;
      symbol.pair = kNoToken;
      if (symbol.next == kEnd || symbols_[symbol.next].is_frozen) return false;
      const std::string_view joined = text_.substr(symbol.begin, symbol.length + symbols_[symbol.next].length);
      symbol.pair = tokenizer_.find_piece(joined);
      if (symbol.pair == kNoToken) return false;
      if (tokenizer_.type(symbol.pair) == TokenType::unused) made_of_[joined] = symbol.length;
      return true;
    }

    // Smaller is merged earlier: best score first, then leftmost.
    uint64_t entry(uint32_t left) const {
      const auto bits = std::bit_cast<uint32_t>(tokenizer_.score(symbols_[left].pair) + 0.0f);
      const uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
      return (static_cast<uint64_t>(~ascending) << 32) | left;
    }

    void push(uint32_t left) {
      if (!find_pair(left)) return;
      heap_.push_back(entry(left));
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }

    void merge_next() {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const uint64_t top = heap_.back();
      heap_.pop_back();
      const auto left = static_cast<uint32_t>(top);
      Symbol& symbol = symbols_[left];
      if (symbol.length == 0 || symbol.pair == kNoToken || entry(left) != top) return;
      Symbol& right = symbols_[symbol.next];
      symbol.length += right.length;
      right.length = 0;
      symbol.next = right.next;
      if (symbol.next != kEnd) symbols_[symbol.next].previous = left;
      push(left);
      if (symbol.previous != kEnd) push(symbol.previous);
    }

    // A piece's token; an unused piece's parts; the bytes of what is no piece.
    void emit(std::string_view whole, std::vector<TokenId>& out) {
      std::vector<std::string_view> stack = {whole};
      while (!stack.empty()) {
        const std::string_view part = stack.back();
        stack.pop_back();
        const TokenId id = tokenizer_.find_piece(part);
        if (id != kNoToken && tokenizer_.type(id) != TokenType::unused) {
          out.push_back(id);
          last_is_unknown_ = false;
          continue;
        }
        const auto made_of = made_of_.find(part);
        if (id != kNoToken && made_of != made_of_.end()) {
          stack.push_back(part.substr(made_of->second));
          stack.push_back(part.substr(0, made_of->second));
          continue;
        }
        if (id != kNoToken)
          out.push_back(id);
        else
          emit_bytes(part, out);
      }
    }

    void emit_bytes(std::string_view part, std::vector<TokenId>& out) {
      for (const char byte : part) {
        const TokenId id = tokenizer_.byte_token(static_cast<uint8_t>(byte));
        if (id == kNoToken && last_is_unknown_) continue;  // a run of unknown text is one unknown token
        out.push_back(id == kNoToken ? tokenizer_.vocab_.special.unk : id);
        last_is_unknown_ = id == kNoToken;
      }
    }

    const SpmTokenizer& tokenizer_;
    std::string_view text_;
    std::vector<Symbol> symbols_;
    std::vector<uint64_t> heap_;
    std::unordered_map<std::string_view, uint32_t> made_of_;  // unused piece → length of its left part
    bool last_is_unknown_ = false;
  };

  TokenIndex pieces_;  // normal and unused tokens
  size_t longest_piece_ = 0;
  std::array<bool, 256> joins_space_mark_{};
  bool has_all_bytes_ = true;
  AddedTokens user_defined_;
};

}  // namespace

VocabResult<std::shared_ptr<const Tokenizer>> make_spm_tokenizer(VocabData vocab) {
  return std::make_shared<SpmTokenizer>(std::move(vocab));
}

}  // namespace tamis
