// Byte-pair encoding (tokenizer.ggml.model "gpt2"): added tokens, NFC where the family has it, split into words, merges
// in rank order over bytes; and its variant over UTF-8 text with space marks and byte tokens ("gemma4"). Source:
// Sennrich et al. 2016, arXiv:1508.07909; byte level after Radford et al. 2019.
#include <array>

#include "base/log.h"
#include "base/utf8.h"
#include "text/byte_alphabet.h"
#include "text/merge_table.h"
#include "text/pretokenizer.h"
#include "text/unicode.h"
#include "text/vocab_tokenizer.h"
#include "text/word_cache.h"

namespace tamis {

ByteAlphabet::ByteAlphabet() {
  to_byte_.fill(-1);
  char32_t next_stand_in = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    to_code_point_[byte] = is_itself ? byte : next_stand_in++;
    to_byte_[to_code_point_[byte]] = static_cast<int16_t>(byte);
  }
}

const ByteAlphabet& ByteAlphabet::get() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

bool ByteAlphabet::decode(std::string_view stored, std::string& out) const {
  const size_t before = out.size();
  for (size_t i = 0; i < stored.size();) {
    const unicode::Char c = unicode::char_at(stored, i);
    const auto byte = c.is_valid ? byte_of(c.code_point) : std::nullopt;
    if (!byte) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(*byte);
    i += c.length;
  }
  return true;
}

std::string ByteAlphabet::encode(std::string_view bytes) const {
  std::string out;
  for (const char byte : bytes) utf8_append(out, code_point_of(static_cast<uint8_t>(byte)));
  return out;
}

namespace {

class BpeTokenizer final : public VocabTokenizer {
 public:
  BpeTokenizer(VocabData vocab, const PreTokenizerRow& row, std::shared_ptr<const PreTokenizer> pre)
      : VocabTokenizer(std::move(vocab)), row_(row), rule_(*row.rule), pre_(std::move(pre)) {
    use_user_defined_in_raw_text();
    for (unsigned byte = 0; byte < 256; ++byte) byte_ids_[byte] = find_spelled(std::string(1, static_cast<char>(byte)));
  }

  std::string_view pre_name() const override { return row_.name; }

  VocabResult<void> read_merges() {
    table_ = MergeTable(vocab_.merges.size());
    size_t n_unknown = 0;
    std::string joined;
    TokenId merged = kNoToken;
    for (size_t i = 0; i < vocab_.merges.size(); ++i) {
      const std::string_view merge = vocab_.merges[i];
      const size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == merge.size())
        return tl::unexpected(VocabFault{ErrorCode::format, "tokenizer.ggml.merges",
                                         fmt::format("merge {} '{}'", i, escape_for_display(merge)),
                                         "two tokens with a space between them", "E_MERGE"});
      const TokenId left = find_stored(merge.substr(0, space)), right = find_stored(merge.substr(space + 1));
      joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
      // Files mostly list tokens in the order their merges make them: the next one is tried before the hash.
      ++merged;
      if (!is_in_range(merged) || text(merged) != joined) merged = find_stored(joined);
      if (is_mergeable(left) && is_mergeable(right) && is_mergeable(merged))
        table_.insert(left, right, {static_cast<uint32_t>(i), merged});
      else
        ++n_unknown;
    }
    if (n_unknown > 0)
      log_warning("tokenizer: {} of {} merges name no token; skipped", n_unknown, vocab_.merges.size());
    vocab_.merges = {};
    return {};
  }

 protected:
  void encode_text(std::string_view text, bool, std::vector<TokenId>& out) const override {
    std::string escaped, normalized;
    if (row_.nfc) text = unicode::to_nfc(text, normalized);
    if (rule_.escapes_spaces) {
      escaped = escape_spaces(text);
      text = escaped;
    }
    PreTokenizer::Scratch split;
    MergeScratch scratch;
    WordCache cache(text.size());
    size_t begin = 0;
    for (const size_t end : pre_->split(text, split)) {
      const std::string_view word = text.substr(begin, end - begin);
      begin = end;
      cache.append(word, out, [&](std::string_view w, std::vector<TokenId>& ids) { encode_word(w, ids, scratch); });
    }
  }

  std::string normal_bytes(TokenId id) const override {
    std::string bytes;
    if (rule_.is_byte_level && ByteAlphabet::get().decode(text(id), bytes)) return bytes;
    return rule_.escapes_spaces ? unescape_space_marks(text(id)) : std::string(text(id));
  }

 private:
  bool is_mergeable(TokenId id) const {
    return id != kNoToken && (type(id) == TokenType::normal || type(id) == TokenType::user_defined);
  }
  // The token of the given bytes among those that text can become, or kNoToken.
  TokenId find_spelled(std::string_view bytes) const {
    const TokenId id = rule_.is_byte_level ? find_stored(ByteAlphabet::get().encode(bytes)) : find_stored(bytes);
    return is_mergeable(id) ? id : kNoToken;
  }

  void encode_word(std::string_view word, std::vector<TokenId>& out, MergeScratch& scratch) const {
    if (row_.ignore_merges || (!rule_.is_byte_level && word.find_first_not_of('\n') == std::string_view::npos)) {
      const TokenId id = find_spelled(word);
      if (id != kNoToken) return out.push_back(id);
    }
    std::vector<TokenId>& ids = scratch.ids;
    ids.clear();
    if (rule_.is_byte_level)
      for (const char byte : word) ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    else
      add_characters(word, ids);
    merge_symbols(table_, ids, scratch);
    for (const TokenId id : ids) {
      if (id != kNoToken)
        out.push_back(id);
      else if (vocab_.special.unk != kNoToken)
        out.push_back(vocab_.special.unk);
    }
  }

  void add_characters(std::string_view word, std::vector<TokenId>& ids) const {
    for (size_t i = 0; i < word.size();) {
      const size_t length = unicode::char_at(word, i).length;
      const TokenId id = find_spelled(word.substr(i, length));
      if (id != kNoToken)
        ids.push_back(id);
      else
        for (const char byte : word.substr(i, length)) ids.push_back(byte_token(static_cast<uint8_t>(byte)));
      i += length;
    }
  }

  const PreTokenizerRow& row_;
  const SplitRule& rule_;
  std::shared_ptr<const PreTokenizer> pre_;
  MergeTable table_;
  std::array<TokenId, 256> byte_ids_;  // the token of a single byte, or kNoToken
};

}  // namespace

VocabResult<std::shared_ptr<const Tokenizer>> make_bpe_tokenizer(VocabData vocab) {
  if (vocab.model == "gemma4") {
    vocab.pre = "gemma4";
  } else if (!vocab.has_pre || vocab.pre == "default") {
    log_warning(
        "tokenizer.ggml.pre is {}: splitting words as GPT-2 does, which may not be what the model was trained with "
        "(give the right name with --pre)",
        vocab.has_pre ? "'default'" : "absent");
    vocab.pre = "default";
  }
  const PreTokenizerRow* row = find_pre_tokenizer(vocab.pre);
  if (row == nullptr)
    return tl::unexpected(VocabFault{ErrorCode::unsupported, "tokenizer.ggml.pre", escape_for_display(vocab.pre),
                                     "a known pre-tokenizer name (or one given with --pre)", "E_TOKENIZER_PRE"});
  auto pre = PreTokenizer::shared(*row->rule);
  if (!pre)
    return tl::unexpected(VocabFault{ErrorCode::internal, "tokenizer.ggml.pre", pre.error().message, "", "E_INTERNAL"});
  auto tokenizer = std::make_shared<BpeTokenizer>(std::move(vocab), *row, std::move(*pre));
  auto status = tokenizer->read_merges();
  if (!status) return tl::unexpected(status.error());
  return tokenizer;
}

}  // namespace tamis
