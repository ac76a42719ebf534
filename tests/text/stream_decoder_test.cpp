// The stream decoder: never part of a UTF-8 sequence, whatever the tokens; joined it is decode() with ill-formed bytes
// replaced.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "tests/text/vocab_files.h"

namespace tamis {
namespace {

using testing::bpe_vocab;
using testing::common_merges;
using testing::spm_vocab;

// Bytes as Python's bytes.decode("utf-8", "replace") gives them: one U+FFFD for each maximal subpart.
std::string replaced(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    if (const size_t n = utf8_sequence_length(bytes, i); n > 0) {
      out += bytes.substr(i, n);
      i += n;
      continue;
    }
    size_t n = 1;
    for (size_t k = 2; k <= 3 && i + k <= bytes.size(); ++k)
      if (utf8_incomplete_tail(bytes.substr(i, k)) == k) n = k;
    out += "\xef\xbf\xbd";
    i += n;
  }
  return out;
}

TEST(StreamDecoder, HoldsBackUnfinishedSequences) {
  const auto tokenizer = *bpe_vocab("gpt-2", common_merges()).tokenizer();
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xf0), "");
  EXPECT_EQ(decoder.push(0x9f), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "😀");
  EXPECT_EQ(decoder.push(0xe2), "");
  EXPECT_EQ(decoder.push('a'),
            "\xef\xbf\xbd"
            "a");
  EXPECT_EQ(decoder.push(0xc3), "");
  EXPECT_EQ(decoder.finish(), "\xef\xbf\xbd");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, JoinedPiecesEqualTheWholeForAnyTokens) {
  const auto tokenizer = *bpe_vocab("gpt-2", common_merges()).tokenizer();
  Rng rng(8);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids;
    for (uint64_t n = rng.below(12); ids.size() < n;) {
      static constexpr TokenId kLeads[] = {0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82, 0xac, 0xc3,
                                           0xa9, 0xff, 'a',  0xed, 0xa0, 0xf4, 0x90};
      ids.push_back(rng.below(3) == 0 ? static_cast<TokenId>(rng.below(tokenizer->n_vocab() + 4)) - 2
                                      : kLeads[rng.below(std::size(kLeads))]);
    }
    StreamDecoder decoder(tokenizer);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string piece = decoder.push(id);
      ASSERT_EQ(utf8_first_invalid(piece), piece.size());
      joined += piece;
    }
    joined += decoder.finish();
    ASSERT_EQ(joined, replaced(tokenizer->decode(ids)));
  }
}

TEST(StreamDecoder, LeadingSpaceMarkIsDroppedOnlyAtTheStart) {
  const auto tokenizer = *spm_vocab({{"▁", -1}, {"a", -1}, {"▁a", -2}}).tokenizer();
  const TokenId a = *tokenizer->find_token("▁a");
  StreamDecoder fresh(tokenizer), continued(tokenizer, true);
  EXPECT_EQ(fresh.push(1), "");  // BOS shows nothing and is not the start of the text
  EXPECT_EQ(fresh.push(a), "a");
  EXPECT_EQ(fresh.push(a), " a");
  EXPECT_EQ(continued.push(a), " a");
}

}  // namespace
}  // namespace tamis
