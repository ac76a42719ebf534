// Holds back the bytes of an unfinished UTF-8 sequence until the tokens that finish it, or prove it ill-formed, arrive.
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace tamis {
namespace {

// Length of the ill-formed part at text[i]: the longest beginning of a well-formed sequence, at least one byte (Unicode
// 15, "maximal subpart"; what Python and browsers replace by one U+FFFD).
size_t ill_formed_length(std::string_view text, size_t i) {
  for (size_t length = std::min<size_t>(3, text.size() - i); length > 1; --length)
    if (utf8_incomplete_tail(text.substr(i, length)) == length) return length;
  return 1;
}

// Moves what is certain from `held` to the result; `is_end`: nothing more comes.
std::string take_certain(std::string& held, bool is_end) {
  std::string out;
  size_t i = 0;
  const size_t certain = is_end ? held.size() : held.size() - utf8_incomplete_tail(held);
  while (i < certain) {
    const size_t length = utf8_sequence_length(held, i);
    if (length > 0) {
      out.append(held, i, length);
      i += length;
    } else {
      out += "\xef\xbf\xbd";
      i += ill_formed_length(held, i);
    }
  }
  held.erase(0, i);
  return out;
}

}  // namespace

std::string StreamDecoder::push(TokenId id) {
  std::string bytes = tokenizer_->token_bytes(id);
  if (!bytes.empty()) {
    if (is_first_ && tokenizer_->special().add_space_prefix && bytes[0] == ' ') bytes.erase(0, 1);
    is_first_ = false;
  }
  held_ += bytes;
  return take_certain(held_, false);
}

std::string StreamDecoder::finish() { return take_certain(held_, true); }

}  // namespace tamis
