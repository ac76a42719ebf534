// One walk over the vocabulary for each state of a grammar that is met.
#include "text/grammar/token_masks.h"

#include <algorithm>

namespace tamis {
namespace {

constexpr uint32_t kMostMerged = 96;  // tokens of a subtree whose rests are put into the small trie

// The rest of a token after it has left the terminal.
struct Rest {
  std::string_view bytes;
  TokenId id;
  uint32_t units;
};

class MaskMaker {
 public:
  MaskMaker(const GrammarAutomaton& automaton, const TokenTrie& trie) : automaton_(automaton), trie_(trie) {}

  StateMask make(uint32_t start) {
    const auto nodes = trie_.nodes();
    const Terminal& terminal = automaton_.terminals[automaton_.states[start].terminal];
    struct At {
      uint32_t state, units;
      bool in_tail;
    };
    std::vector<At> path(trie_.max_depth() + 1);  // by depth
    path[0] = {start, 0, false};
    const auto n = static_cast<uint32_t>(nodes.size() - 1);
    for (uint32_t i = 1; i < n;) {
      const TokenTrie::Node& node = nodes[i];
      const At& from = path[node.depth - 1u];
      const uint32_t to = automaton_.transition(from.state, node.byte);
      if (to == 0) {
        i = node.end;
        continue;
      }
      const At at{to & kStateMask, from.units + ((to & kBeginsUnit) != 0 ? 1 : 0),
                  from.in_tail || (to & kBeginsTail) != 0};
      path[node.depth] = at;
      for (uint32_t k = node.first_token; k < nodes[i + 1].first_token; ++k) {
        if (at.in_tail) {
          mask_.in_tail.push_back({trie_.ids()[k], at.units});
        } else {
          inside_.push_back({trie_.ids()[k], at.units});
        }
      }
      if (automaton_.states[at.state].accepts && node.end > i + 1) leave(i, at.units, terminal);
      ++i;
    }
    sort_inside();
    sort_rests();
    return std::move(mask_);
  }

 private:
  // The terminal may end at a node: the tokens below it go on elsewhere, if their next byte can follow.
  void leave(uint32_t node, uint32_t units, const Terminal& terminal) {
    const auto nodes = trie_.nodes();
    for (uint32_t child = node + 1; child < nodes[node].end; child = nodes[child].end) {
      if (!terminal.follow[nodes[child].byte]) continue;
      const uint32_t first = nodes[child].first_token, last = nodes[nodes[child].end].first_token;
      if (last - first > kMostMerged) {
        mask_.subtrees.push_back({child, units});
        continue;
      }
      for (uint32_t k = first; k < last; ++k)
        rests_.push_back({trie_.bytes(trie_.ids()[k]).substr(nodes[node].depth), trie_.ids()[k], units});
    }
  }

  void sort_inside() {
    std::stable_sort(inside_.begin(), inside_.end(),
                     [](const StateMask::Counted& a, const StateMask::Counted& b) { return a.units < b.units; });
    for (const StateMask::Counted& token : inside_) {
      while (mask_.n_up_to.size() < token.units) mask_.n_up_to.push_back(static_cast<uint32_t>(mask_.inside.size()));
      mask_.inside.push_back(token.id);
    }
    mask_.n_up_to.push_back(static_cast<uint32_t>(mask_.inside.size()));
    if (mask_.inside.size() * 32 < trie_.n_vocab()) return;
    mask_.dense.assign(trie_.n_words(), 0);
    for (const TokenId id : mask_.inside) mask_.dense[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  }

  void sort_rests() {
    std::stable_sort(rests_.begin(), rests_.end(), [](const Rest& a, const Rest& b) { return a.bytes < b.bytes; });
    mask_.rest.push_back({0, 0, 0, 0});
    std::vector<uint32_t> path = {0};
    std::string_view last;
    for (const Rest& rest : rests_) {
      size_t shared = 0;
      while (shared < last.size() && shared < rest.bytes.size() && last[shared] == rest.bytes[shared]) ++shared;
      for (; path.size() > shared + 1; path.pop_back())
        mask_.rest[path.back()].end = static_cast<uint32_t>(mask_.rest.size());
      for (size_t depth = shared; depth < rest.bytes.size(); ++depth) {
        path.push_back(static_cast<uint32_t>(mask_.rest.size()));
        mask_.rest.push_back({0, static_cast<uint32_t>(mask_.rest_tokens.size()), static_cast<uint16_t>(depth + 1),
                              static_cast<uint8_t>(rest.bytes[depth])});
      }
      mask_.rest_tokens.push_back({rest.id, rest.units});
      last = rest.bytes;
    }
    for (; !path.empty(); path.pop_back()) mask_.rest[path.back()].end = static_cast<uint32_t>(mask_.rest.size());
    mask_.rest.push_back(
        {static_cast<uint32_t>(mask_.rest.size() + 1), static_cast<uint32_t>(mask_.rest_tokens.size()), 0, 0});
  }

  const GrammarAutomaton& automaton_;
  const TokenTrie& trie_;
  StateMask mask_;
  std::vector<StateMask::Counted> inside_;
  std::vector<Rest> rests_;
};

}  // namespace

size_t StateMask::size_bytes() const {
  return sizeof(StateMask) + inside.capacity() * sizeof(TokenId) +
         (n_up_to.capacity() + dense.capacity()) * sizeof(uint32_t) +
         (in_tail.capacity() + rest_tokens.capacity()) * sizeof(Counted) + rest.capacity() * sizeof(RestNode) +
         subtrees.capacity() * sizeof(Subtree);
}

StateMask make_state_mask(const GrammarAutomaton& automaton, const TokenTrie& trie, uint32_t state) {
  StateMask mask = MaskMaker(automaton, trie).make(state);
  // The list is not needed beside the mask where nothing is counted.
  if (!mask.dense.empty() && mask.n_up_to.size() == 1) std::vector<TokenId>().swap(mask.inside);
  mask.inside.shrink_to_fit();
  return mask;
}

MaskStore::MaskStore(const GrammarAutomaton& automaton, const TokenTrie& trie, size_t max_bytes)
    : automaton_(automaton), trie_(trie), max_bytes_(max_bytes), slots_(automaton.states.size()) {}

// All masks go at once: a grammar whose masks do not fit has far more states than an answer visits again.
void MaskStore::make_room(size_t bytes) {
  if (size_bytes_ + bytes > max_bytes_) {
    for (Slot& slot : slots_) slot = {};
    size_bytes_ = 0;
  }
  size_bytes_ += bytes;
}

std::shared_ptr<const StateMask> MaskStore::get(uint32_t state) {
  {
    const std::scoped_lock lock(mutex_);
    if (slots_[state].mask != nullptr) return slots_[state].mask;
  }
  // Made without the lock: two threads may make the same one, and nobody waits.
  auto made = std::make_shared<const StateMask>(make_state_mask(automaton_, trie_, state));
  const std::scoped_lock lock(mutex_);
  if (slots_[state].mask == nullptr) {
    make_room(made->size_bytes());
    slots_[state].mask = made;
  }
  return made;
}

std::shared_ptr<const std::vector<uint32_t>> MaskStore::get_up_to(uint32_t state, uint32_t units,
                                                                  const StateMask& mask) {
  {
    const std::scoped_lock lock(mutex_);
    const Slot& slot = slots_[state];
    if (units < slot.up_to.size() && slot.up_to[units] != nullptr) return slot.up_to[units];
  }
  std::vector<uint32_t> bits(trie_.n_words(), 0);
  for (uint32_t i = 0; i < mask.n_up_to[units]; ++i)
    bits[static_cast<size_t>(mask.inside[i]) / 32] |= 1u << (mask.inside[i] % 32);
  auto made = std::make_shared<const std::vector<uint32_t>>(std::move(bits));
  const std::scoped_lock lock(mutex_);
  make_room(made->size() * sizeof(uint32_t));
  Slot& slot = slots_[state];
  if (slot.up_to.size() <= units) slot.up_to.resize(units + 1);
  slot.up_to[units] = made;
  return made;
}

TokenMasks::TokenMasks(Grammar grammar, std::shared_ptr<const TokenTrie> trie, size_t max_bytes)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      store_(std::make_unique<MaskStore>(grammar_.automaton(), *trie_, max_bytes)) {}
TokenMasks::~TokenMasks() = default;
size_t TokenMasks::size_bytes() const { return grammar_.size_bytes() + store_->size_bytes(); }

}  // namespace tamis
