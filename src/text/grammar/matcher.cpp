// One generation under a grammar: its position, the mask of what may come next, the way back.
#include <algorithm>
#include <limits>

#include "text/grammar/grammar.h"
#include "text/grammar/stack_table.h"
#include "text/grammar/token_masks.h"

namespace tamis {
namespace {

// Stacks that the moments of one answer may need, of some 100 bytes each, and places in them; and how many stacks there
// are before those that no moment needs are let go.
constexpr size_t kMostStacks = 1 << 19, kMostPlaces = 1 << 22, kHeldBeforeCompacting = 1 << 16;
// Comparisons of one mask or token, some 10 ms: only a grammar that is read in hundreds of ways at once comes near.
constexpr uint64_t kMostWork = 4000000;

void set_bit(std::span<uint32_t> bits, TokenId id) { bits[static_cast<size_t>(id) / 32] |= 1u << (id % 32); }

tl::unexpected<Error> too_much_to_follow() {
  return fail(ErrorCode::unsupported,
              "grammar: the answer can be read in too many ways at once, or nests too deep, to be followed further");
}

void add_bits(std::span<uint32_t> bits, std::span<const uint32_t> more) {
  for (size_t i = 0; i < more.size(); ++i) bits[i] |= more[i];
}

// Positions along a path of a trie, by depth.
class Walk {
 public:
  explicit Walk(StackTable& stacks) : stacks_(stacks) {}

  // Visits the nodes below `root` (and their tokens) that can be reached from `from`; the root's own byte is taken,
  // too, when `takes_root`. Nodes are in depth-first order with depth, byte and end.
  template <class Nodes, class Visit>
  void run(const Position& from, const Nodes& nodes, uint32_t root, bool takes_root, Visit visit) {
    const uint32_t base = takes_root ? nodes[root].depth - 1u : nodes[root].depth;
    const uint32_t end = nodes[root].end;
    at(0) = from;
    for (uint32_t i = takes_root ? root : root + 1; i < end && !stacks_.is_spent();) {
      const uint32_t depth = nodes[i].depth - base;
      Position& next = at(depth);
      stacks_.step(positions_[depth - 1], nodes[i].byte, next);
      if (!next.is_alive()) {
        i = nodes[i].end;
        continue;
      }
      visit(i);
      ++i;
    }
  }

 private:
  Position& at(uint32_t depth) {
    if (positions_.size() <= depth) positions_.resize(depth + 1);
    return positions_[depth];
  }
  StackTable& stacks_;
  std::vector<Position> positions_;
};

}  // namespace

struct GrammarMatcher::State {
  explicit State(std::shared_ptr<const TokenMasks> of) : masks(std::move(of)), stacks(masks->grammar().automaton()) {}

  struct Moment {
    uint32_t first_config;
    bool is_complete, has_ended;
  };

  void load(const Moment& moment, Position& out) const {
    out.configs.assign(history.begin() + moment.first_config, history.end());
    out.is_complete = moment.is_complete;
  }
  void save(const Position& position, bool has_ended) {
    moments.push_back({static_cast<uint32_t>(history.size()), position.is_complete, has_ended});
    history.insert(history.end(), position.configs.begin(), position.configs.end());
  }
  void add_config(const Config& config, std::span<uint32_t> bits);
  Status make_mask();
  void compact();

  std::shared_ptr<const TokenMasks> masks;
  StackTable stacks;
  std::vector<Config> history;  // the configs of all moments
  std::vector<Moment> moments;  // [0] is the start; the last is now
  Position now;
  Position scratch[2];
  std::vector<Config> mask_of;      // the position `last_mask` was made for
  std::vector<uint32_t> last_mask;  // without the end tokens; empty = none
  size_t compact_at = kHeldBeforeCompacting;
  bool has_given_up = false;
};

GrammarMatcher::GrammarMatcher(std::shared_ptr<const TokenMasks> masks)
    : state_(std::make_unique<State>(std::move(masks))) {
  reset();
}
GrammarMatcher::~GrammarMatcher() = default;
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;

void GrammarMatcher::reset() {
  State& s = *state_;
  s.stacks.clear();
  s.history.clear();
  s.moments.clear();
  s.last_mask.clear();
  s.compact_at = kHeldBeforeCompacting;
  s.stacks.allow(kMostWork);
  s.stacks.start(s.now);
  s.has_given_up = s.stacks.is_spent();
  s.save(s.now, false);
}

// The tokens that one place allows.
void GrammarMatcher::State::add_config(const Config& config, std::span<uint32_t> bits) {
  const GrammarAutomaton& automaton = stacks.automaton();
  const Terminal& terminal = automaton.terminals[automaton.states[config.state].terminal];
  const auto mask = masks->store().get(config.state);
  // How many units a token may still begin, and must when it leaves.
  const uint32_t most = terminal.max == kUnbounded ? kUnbounded : terminal.max - config.count;
  const uint32_t least = config.count >= terminal.min ? 0 : terminal.min - config.count;
  if (most >= mask->most_units()) {
    add_bits(bits, mask->dense);
    if (mask->dense.empty())
      for (const TokenId id : mask->inside) set_bit(bits, id);
  } else if (mask->dense.empty()) {
    for (uint32_t i = 0; i < mask->n_up_to[most]; ++i) set_bit(bits, mask->inside[i]);
  } else {
    add_bits(bits, *masks->store().get_up_to(config.state, most, *mask));
  }
  for (const StateMask::Counted& token : mask->in_tail)
    if (token.units >= least && token.units <= most) set_bit(bits, token.id);
  if (mask->rest_tokens.empty() && mask->subtrees.empty()) return;

  Position& after = scratch[0];
  after.clear();
  stacks.resume(config.stack, after);
  if (after.configs.empty()) return;
  Walk walk(stacks);
  walk.run(after, mask->rest, 0, false, [&](uint32_t i) {
    for (uint32_t k = mask->rest[i].first_token; k < mask->rest[i + 1].first_token; ++k) {
      const StateMask::Counted& token = mask->rest_tokens[k];
      if (token.units >= least && token.units <= most) set_bit(bits, token.id);
    }
  });
  const TokenTrie& trie = masks->trie();
  const auto nodes = trie.nodes();
  for (const StateMask::Subtree& subtree : mask->subtrees) {
    if (subtree.units < least || subtree.units > most) continue;
    walk.run(after, nodes, subtree.node, true, [&](uint32_t i) {
      for (uint32_t k = nodes[i].first_token; k < nodes[i + 1].first_token; ++k) set_bit(bits, trie.ids()[k]);
    });
  }
}

// Lets go of stacks that no moment needs. The next time comes after as many more, so that each costs little.
void GrammarMatcher::State::compact() {
  stacks.compact(history);
  load(moments.back(), now);
  last_mask.clear();
  compact_at = kHeldBeforeCompacting + 2 * stacks.n_held();
  has_given_up = stacks.n_held() > kMostStacks;
}

// Makes last_mask that of now.
Status GrammarMatcher::State::make_mask() {
  if (has_given_up) return too_much_to_follow();
  if (!last_mask.empty() && mask_of == now.configs) return {};
  last_mask.assign(masks->trie().n_words(), 0);
  stacks.allow(kMostWork);
  for (const Config& config : now.configs) add_config(config, last_mask);
  has_given_up = stacks.is_spent();
  if (has_given_up) return too_much_to_follow();
  mask_of = now.configs;
  return {};
}

Status GrammarMatcher::fill_mask(std::span<uint32_t> bits) {
  State& s = *state_;
  TAMIS_CHECK(bits.size() == s.masks->trie().n_words());
  const bool has_ended = s.moments.back().has_ended;
  const Status status = has_ended ? Status{} : s.make_mask();
  if (has_ended || !status) {
    std::fill(bits.begin(), bits.end(), 0u);
  } else {
    std::copy(s.last_mask.begin(), s.last_mask.end(), bits.begin());
  }
  if (!status) return status;
  if (s.now.is_complete)
    for (const TokenId id : s.masks->trie().end_of_generation()) set_bit(bits, id);
  return {};
}

Status GrammarMatcher::accept(TokenId id) {
  State& s = *state_;
  const TokenTrie& trie = s.masks->trie();
  const auto refuse = [&]() {
    return fail(ErrorCode::invalid_argument, "token {}: the grammar does not allow it here", id);
  };
  if (s.has_given_up) return too_much_to_follow();
  if (trie.ends_answer(id)) {
    if (!s.now.is_complete) return refuse();
    s.save(s.now, true);
    return {};
  }
  const std::string_view bytes = trie.bytes(id);
  if (bytes.empty() || s.moments.back().has_ended) return refuse();
  const Position* from = &s.now;
  s.stacks.allow(kMostWork);
  for (size_t i = 0; i < bytes.size(); ++i) {
    Position& to = s.scratch[i % 2];
    s.stacks.step(*from, static_cast<uint8_t>(bytes[i]), to);
    s.has_given_up = s.stacks.is_spent();
    if (s.has_given_up) return too_much_to_follow();
    if (!to.is_alive()) return refuse();
    from = &to;
  }
  s.now = *from;
  s.save(s.now, false);
  if (s.stacks.n_held() > s.compact_at) s.compact();
  s.has_given_up |= s.history.size() > kMostPlaces;
  return {};
}

void GrammarMatcher::rollback(size_t n) {
  State& s = *state_;
  TAMIS_CHECK(n <= n_accepted());
  if (n == 0) return;
  s.history.resize(s.moments[s.moments.size() - n].first_config);
  s.moments.resize(s.moments.size() - n);
  s.load(s.moments.back(), s.now);
}

bool GrammarMatcher::is_complete() const { return state_->now.is_complete; }
bool GrammarMatcher::must_end() const { return state_->now.configs.empty(); }
size_t GrammarMatcher::n_accepted() const { return state_->moments.size() - 1; }
const TokenMasks& GrammarMatcher::masks() const { return *state_->masks; }

void apply_token_mask(std::span<float> logits, std::span<const uint32_t> bits) {
  for (size_t i = 0; i < logits.size(); ++i)
    if (i / 32 >= bits.size() || (bits[i / 32] >> (i % 32) & 1u) == 0)
      logits[i] = -std::numeric_limits<float>::infinity();
}

}  // namespace tamis
