// Stop strings by one Knuth–Morris–Pratt automaton each.
#include "engine/stop_matcher.h"

#include <algorithm>

#include "base/utf8.h"

namespace tamis {
namespace {

std::vector<size_t> borders_of(std::string_view text) {
  std::vector<size_t> border(text.size(), 0);
  for (size_t i = 1, length = 0; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    if (text[i] == text[length]) ++length;
    border[i] = length;
  }
  return border;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    std::vector<size_t> border = borders_of(text);
    stops_.push_back({std::move(text), std::move(border), 0});
  }
}

bool StopMatcher::advance(Stop& stop, char byte) {
  while (stop.n_matched > 0 && stop.text[stop.n_matched] != byte) stop.n_matched = stop.border[stop.n_matched - 1];
  if (stop.text[stop.n_matched] == byte) ++stop.n_matched;
  return stop.n_matched == stop.text.size();
}

size_t StopMatcher::longest_partial_match() const {
  size_t longest = 0;
  for (const Stop& stop : stops_) longest = std::max(longest, stop.n_matched);
  return longest;
}

std::string StopMatcher::push(std::string_view piece) {
  if (matched()) return {};
  for (const char byte : piece) {
    text_ += byte;
    for (size_t i = 0; i < stops_.size(); ++i)
      if (advance(stops_[i], byte) && (!matched() || stops_[i].text.size() > stops_[*match_].text.size())) match_ = i;
    if (matched()) break;
  }
  // What is not handed out covers every partial match: at least the longest one is kept from call to call.
  const size_t n_uncertain = matched() ? stops_[*match_].text.size() : longest_partial_match();
  std::string certain = text_.substr(n_out_, text_.size() - n_out_ - n_uncertain);
  certain.resize(certain.size() - utf8_incomplete_tail(certain));
  n_out_ += certain.size();
  if (n_out_ > text_.size() / 2) {
    text_.erase(0, n_out_);
    n_out_ = 0;
  }
  return certain;
}

std::string StopMatcher::finish() {
  std::string rest = matched() ? std::string() : text_.substr(n_out_);
  text_.clear();
  n_out_ = 0;
  return rest;
}

std::string_view StopMatcher::matched_stop() const {
  return matched() ? std::string_view(stops_[*match_].text) : std::string_view();
}

void StopMatcher::reset() {
  for (Stop& stop : stops_) stop.n_matched = 0;
  text_.clear();
  n_out_ = 0;
  match_.reset();
}

}  // namespace tamis
