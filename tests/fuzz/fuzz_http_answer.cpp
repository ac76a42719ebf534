// fuzz: rooms=base sources=src/cli/http_answer.cpp
// Any bytes as the answer of an HTTP server with a stream of events in it, cut at places the input chooses: the same
// status, events and verdict as uncut.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/http_answer.h"

namespace {

struct Outcome {
  int status = 0;
  std::vector<std::string> events;
  std::string body;
  bool is_whole = false;
};

Outcome read(std::string_view bytes, std::string_view cuts) {
  Outcome out;
  tamis::cli::HttpAnswerParser parser;
  tamis::cli::EventStream events;
  bool is_sound = true;
  for (size_t i = 0, cut = 0; i < bytes.size() && is_sound;) {
    const size_t step = cuts.empty() ? bytes.size() : 1 + static_cast<unsigned char>(cuts[cut++ % cuts.size()]) % 16;
    const std::string_view piece = bytes.substr(i, step);
    i += piece.size();
    is_sound = parser.feed(piece).has_value();
    const std::string body = parser.take_body();
    out.body += body;
    const auto found = events.feed(body);
    if (!found) std::abort();  // shorter than any limit
    out.events.insert(out.events.end(), found->begin(), found->end());
  }
  out.status = parser.status();
  out.is_whole = is_sound && parser.end().has_value();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const Outcome whole = read(all.substr(4), "");
  const Outcome cut = read(all.substr(4), all.substr(0, 4));
  if (whole.status != cut.status || whole.events != cut.events || whole.body != cut.body ||
      whole.is_whole != cut.is_whole)
    std::abort();
  return 0;
}
