// Marks are looked for in text, since a vocabulary may cut them anywhere.
#include "engine/reasoning_gate.h"

namespace tamis {

TokenId ReasoningGate::forced() const {
  const bool is_forced = state_ == State::open && is_over_budget() && n_forced_ < rule_.forced_end.size();
  return is_forced ? rule_.forced_end[n_forced_] : kNoToken;
}

void ReasoningGate::accept(std::string_view bytes) {
  if (state_ == State::closed) return;
  if (state_ == State::open) {
    const bool was_forced = forced() != kNoToken;
    ++n_tokens_;
    text_ += bytes;
    // What is forced is written to its last token.
    if (was_forced ? ++n_forced_ == rule_.forced_end.size() : text_.find(rule_.end) != std::string::npos)
      state_ = State::closed;
    if (text_.size() >= rule_.end.size()) text_.erase(0, text_.size() - (rule_.end.size() - 1));
    return;
  }
  text_ += bytes;
  const size_t begin = text_.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return;
  const std::string_view said = std::string_view(text_).substr(begin);
  if (said.starts_with(rule_.begin)) {
    text_.erase(0, begin + rule_.begin.size());
    state_ = State::open;
  } else if (!std::string_view(rule_.begin).starts_with(said)) {
    state_ = State::closed;
  }
}

}  // namespace tamis
