// Stop strings in streamed text: finds them across the borders of tokens, and never hands out text that may still turn
// out to be part of one. Between the stream decoder and the caller.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tamis {

// Text goes in by pieces and comes out as far as it is certain. The text that comes out, joined, does not depend on
// where the pieces were cut: it is everything before the stop string that ends first (of several ending at the same
// byte, the longest), or all of the text when none occurs. No chunk ends inside a UTF-8 sequence, so each is a whole
// number of characters when the text is.
//
// Linear: each byte costs amortised O(number of stops), whatever the stops' lengths (Knuth, Morris, Pratt 1977).
class StopMatcher {
 public:
  // Empty stop strings are ignored: they would match before the first token.
  explicit StopMatcher(std::vector<std::string> stops = {});

  // Text that became certain. After a match: "", and the piece is dropped.
  std::string push(std::string_view piece);
  // The end of the text: what was held back because it might have begun a stop string; "" after a match.
  std::string finish();

  bool matched() const { return match_.has_value(); }
  // The stop string that matched; "" when none has.
  std::string_view matched_stop() const;
  void reset();  // a new text, the same stops

 private:
  struct Stop {
    std::string text;
    std::vector<size_t>
        border;            // border[i]: length of the longest proper prefix of text[0 … i] that is also its suffix
    size_t n_matched = 0;  // bytes of `text` that the stream now ends with
  };
  bool advance(Stop& stop, char byte);
  size_t longest_partial_match() const;

  std::vector<Stop> stops_;
  std::string text_;  // from n_out_ on: not handed out yet, a possible stop or the head of a UTF-8 sequence
  size_t n_out_ = 0;  // bytes at the front of text_ that are handed out; cut off when they are half of it
  std::optional<size_t> match_;
};

}  // namespace tamis
