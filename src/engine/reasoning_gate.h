// Where an answer's reasoning stands, token by token: nothing but its budget bounds it, and the grammar of the answer
// holds from its end on. Between sampler and grammar of one choice.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace tamis {

struct ReasoningRule {
  std::string begin, end;          // the marks around it, as text; not empty
  TokenId begin_token = kNoToken;  // that is `begin` alone; none: under a grammar there is no reasoning but an open one
  bool is_open = false;            // the prompt ends behind `begin`
  int64_t budget = -1;             // tokens of reasoning at most; < 0 = any number
  std::vector<TokenId> forced_end;  // what is written when the budget is spent; holds `end`
};

class ReasoningGate {
 public:
  // `rule` outlives the gate.
  explicit ReasoningGate(const ReasoningRule& rule) : rule_(rule), state_(rule.is_open ? State::open : State::before) {}

  // The token that must come next; kNoToken = any.
  TokenId forced() const;
  // In reasoning: no grammar holds, and the answer cannot end under one.
  bool is_open() const { return state_ == State::open; }
  // Nothing has been written yet: the next token may be begin_token, too.
  bool may_begin() const { return state_ == State::before && text_.empty(); }
  // Goes on by a token. `bytes`: what it stands for, control tokens by their names.
  void accept(std::string_view bytes);
  void close() { state_ = State::closed; }  // there will be no reasoning from here on

 private:
  enum class State : uint8_t { before, open, closed };
  bool is_over_budget() const { return rule_.budget >= 0 && n_tokens_ >= rule_.budget; }

  const ReasoningRule& rule_;
  State state_;
  std::string text_;      // what may still be (the beginning of) a mark
  int64_t n_tokens_ = 0;  // of reasoning
  size_t n_forced_ = 0;   // tokens of forced_end that were written
};

}  // namespace tamis
