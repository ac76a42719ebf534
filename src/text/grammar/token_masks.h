// Which tokens each state of a grammar's terminals allows. A token that stays inside the terminal is known once for
// all; one that leaves it depends on the stack, and is kept as the bytes that are left over, in a small trie. Source of
// the split: XGrammar (arXiv:2411.15100), §3.1.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "text/grammar/automaton.h"
#include "text/grammar/grammar.h"

namespace tamis {

// The tokens of one state, seen from it with a count of 0 units (counts matter in counted terminals only).
struct StateMask {
  // Tokens that stay inside, sorted by the units they begin; `n_up_to[k]` of them begin at most k.
  std::vector<TokenId> inside;
  std::vector<uint32_t> n_up_to;
  std::vector<uint32_t> dense;  // all of `inside` as a mask, when they are many; else empty
  struct Counted {
    TokenId id;
    uint32_t units;
  };
  std::vector<Counted> in_tail;  // tokens that end in a counted terminal's tail

  // Tokens that leave the terminal: what is left of their bytes there.
  struct RestNode {
    uint32_t end;
    uint32_t first_token;  // into rest_tokens
    uint16_t depth;
    uint8_t byte;
  };
  std::vector<RestNode> rest;  // depth-first; [0] is the root, the last a sentinel
  std::vector<Counted> rest_tokens;
  struct Subtree {
    uint32_t node;  // of the vocabulary's trie: all tokens below it have left the terminal at this node
    uint32_t units;
  };
  std::vector<Subtree> subtrees;

  size_t size_bytes() const;
  uint32_t most_units() const { return n_up_to.empty() ? 0 : static_cast<uint32_t>(n_up_to.size() - 1); }
};

StateMask make_state_mask(const GrammarAutomaton& automaton, const TokenTrie& trie, uint32_t state);

class MaskStore {
 public:
  MaskStore(const GrammarAutomaton& automaton, const TokenTrie& trie, size_t max_bytes);
  // The mask of a state; made when it is not there.
  std::shared_ptr<const StateMask> get(uint32_t state);
  // The tokens that begin at most `units` units, as a mask. Requires: units < most_units() of the state's mask.
  std::shared_ptr<const std::vector<uint32_t>> get_up_to(uint32_t state, uint32_t units, const StateMask& mask);
  size_t size_bytes() const { return size_bytes_.load(std::memory_order_relaxed); }

 private:
  void make_room(size_t bytes);
  struct Slot {
    std::shared_ptr<const StateMask> mask;
    std::vector<std::shared_ptr<const std::vector<uint32_t>>> up_to;
  };
  const GrammarAutomaton& automaton_;
  const TokenTrie& trie_;
  size_t max_bytes_;
  std::atomic<size_t> size_bytes_ = 0;
  std::mutex mutex_;
  std::vector<Slot> slots_;  // by state
};

}  // namespace tamis
