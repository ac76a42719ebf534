// fuzz: rooms=engine,text,formats,base
// F13: stop strings and text cut anywhere. Joined chunks equal what the definition gives for the whole text, and no
// chunk splits a UTF-8 sequence.
//
// Input: byte 0 = number of stops (0 … 3), bytes 1 … = a length (0 … 15) and the text of each; then the text, a byte
// 0xff ending a piece.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "engine/stop_matcher.h"

namespace {

// Everything before the stop that ends first (the longest of several), without the head of a character that the stop
// cuts.
std::string expected(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops)
      if (stop.size() > longest && stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0)
        longest = stop.size();
    if (longest == 0) continue;
    std::string before = text.substr(0, end - longest);
    before.resize(before.size() - tamis::utf8_incomplete_tail(before));
    return before;
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 512) return 0;
  std::vector<std::string> stops;
  size_t at = 1;
  for (int n = data[0] % 4; n > 0 && at < size; --n) {
    const size_t length = std::min<size_t>(data[at] % 16, size - at - 1);
    stops.emplace_back(reinterpret_cast<const char*>(data) + at + 1, length);
    at += 1 + length;
  }
  tamis::StopMatcher matcher(stops);
  std::string text, joined, piece;
  bool is_split = false;
  const auto push = [&] {
    const std::string chunk = matcher.push(piece);
    is_split |= tamis::utf8_incomplete_tail(chunk) != 0;
    joined += chunk;
    piece.clear();
  };
  for (; at < size; ++at) {
    if (data[at] == 0xff) {
      push();
    } else {
      piece += static_cast<char>(data[at]);
      text += static_cast<char>(data[at]);
    }
  }
  push();
  joined += matcher.finish();
  if (is_split && tamis::utf8_first_invalid(text) == text.size()) std::abort();
  if (joined != expected(stops, text)) std::abort();
  return 0;
}
