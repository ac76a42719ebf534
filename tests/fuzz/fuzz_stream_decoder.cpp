// fuzz: rooms=text,formats,base sources=tests/text/vocab_files.cpp
// F13: any bytes as tokens, however they cut sequences: every piece is well-formed UTF-8, and joined they are the whole
// with ill-formed parts replaced.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/log.h"
#include "base/utf8.h"
#include "tests/text/vocab_files.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tamis;
  if (size > 4096) return 0;
  static const auto tokenizer = [] {
    set_log_level(LogLevel::quiet);
    // Tokens of one byte each, and some of several that begin or end inside a sequence.
    return *testing::bpe_vocab("gpt-2", {"\xe2 \x82", "\x82 \xac", "\xf0 \x9f", "\x9f \x98", "a \xe2", "\xac b"})
                .tokenizer();
  }();
  StreamDecoder decoder(tokenizer);
  std::string joined, bytes;
  for (size_t i = 0; i < size; ++i) {
    // Mostly the byte's own token; a byte 0xfe takes the next one as a longer token's number.
    const bool is_other = data[i] == 0xfe && i + 1 < size;
    const TokenId id = is_other ? 256 + data[++i] % 16 - 2 : data[i];
    bytes += tokenizer->token_bytes(id);
    const std::string piece = decoder.push(id);
    require(utf8_first_invalid(piece) == piece.size());
    joined += piece;
  }
  const std::string rest = decoder.finish();
  require(utf8_first_invalid(rest) == rest.size());
  joined += rest;
  require(decoder.finish().empty());
  std::string expected;
  for (size_t i = 0; i < bytes.size();) {
    size_t n = utf8_sequence_length(bytes, i);
    if (n > 0) {
      expected += bytes.substr(i, n);
    } else {
      n = 1;
      for (size_t k = 2; k <= 3 && i + k <= bytes.size(); ++k)
        if (utf8_incomplete_tail(std::string_view(bytes).substr(i, k)) == k) n = k;
      expected += "\xef\xbf\xbd";
    }
    i += n;
  }
  require(joined == expected);
  return 0;
}
