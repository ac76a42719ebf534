// Grammars without a model, for scripts/check_grammars.py: writes random answers under the mask, and says whether texts
// are accepted token by token.
// usage: grammar_driver VOCAB.gguf < REQUESTS > REPLIES, one JSON object a line:
//   {"schema": S, "sample": N, "seed": K}  →  {"texts": [N answers]}
//   {"schema": S, "accept": [TEXT…]}       →  {"accepted": [0 or 1…]}
//   either                                 →  {"error": MESSAGE} when the schema does not compile
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "text/grammar/grammar.h"
#include "text/grammar/stack_table.h"

namespace {

using namespace tamis;

// A short text that completes an answer, the cheapest bytes first: what opens something that must be closed again costs
// more. Nothing within so many tries.
std::optional<std::string> shortest_end(StackTable& stacks, const Position& from) {
  constexpr size_t kMostTries = 1500000;
  struct Try {
    Position position;
    size_t before;
    char byte;
  };
  std::vector<Try> tries = {{from, 0, 0}};
  std::set<std::vector<uint32_t>> seen;
  std::set<std::pair<size_t, size_t>> open = {{0, 0}};  // cost, try
  while (!open.empty() && tries.size() < kMostTries) {
    const auto [cost, i] = *open.begin();
    open.erase(open.begin());
    if (tries[i].position.is_complete) {
      std::string text;
      for (size_t at = i; at != 0; at = tries[at].before) text.insert(text.begin(), tries[at].byte);
      return text;
    }
    for (int byte = 0; byte < 256; ++byte) {
      Position next;
      stacks.step(tries[i].position, static_cast<uint8_t>(byte), next);
      if (!next.is_alive()) continue;
      std::vector<uint32_t> key = {next.is_complete ? 1u : 0u};
      for (const Config& config : next.configs) key.insert(key.end(), {config.state, config.count, config.stack});
      if (!seen.insert(std::move(key)).second) continue;
      constexpr size_t kOpens = 30;
      open.emplace(
          cost + (std::string_view("[{ \n\t\\").find(static_cast<char>(byte)) != std::string_view::npos ? kOpens : 1),
          tries.size());
      tries.push_back({std::move(next), i, static_cast<char>(byte)});
    }
  }
  return std::nullopt;
}

// Random tokens among the allowed ones; after a while the bytes that come soonest to an end.
class Sampler {
 public:
  Sampler(const Tokenizer& tokenizer, const TokenTrie& trie)
      : trie_(trie), bits_(trie.n_words()), of_byte_(256, kNoToken) {
    for (const std::string_view text : {"\"", "}", "]", "0", ",", ":", "-"}) {
      for (size_t id = 0; id < tokenizer.n_vocab(); ++id)
        if (trie.bytes(static_cast<TokenId>(id)) == text) closers_.push_back(static_cast<TokenId>(id));
    }
    for (size_t id = 0; id < tokenizer.n_vocab(); ++id) {
      const std::string_view bytes = trie.bytes(static_cast<TokenId>(id));
      if (bytes.size() == 1) of_byte_[static_cast<uint8_t>(bytes[0])] = static_cast<TokenId>(id);
    }
  }

  Result<std::string> sample(GrammarMatcher& matcher, Rng& rng) {
    matcher.reset();
    std::string text;
    for (uint64_t n = rng.below(80); n > 0 && !matcher.must_end(); --n) {
      TAMIS_TRY_STATUS(matcher.fill_mask(bits_));
      if (matcher.is_complete() && rng.below(4) == 0) return text;
      const TokenId id = choose(rng, rng.below(2) == 0);
      if (id == kNoToken) return fail(ErrorCode::internal, "no token is allowed after {}", escape_for_display(text));
      TAMIS_TRY_STATUS(matcher.accept(id));
      text += trie_.bytes(id);
    }
    return finish(matcher, text);
  }

 private:
  Result<std::string> finish(GrammarMatcher& matcher, std::string text) {
    StackTable stacks(matcher.masks().grammar().automaton());
    Position now, next;
    stacks.start(now);
    for (const char byte : text) {
      stacks.step(now, static_cast<uint8_t>(byte), next);
      std::swap(now, next);
    }
    const auto end = shortest_end(stacks, now);
    if (!end) return fail(ErrorCode::internal, "no end after {}", escape_for_display(text, 200));
    for (const char byte : *end) {
      const TokenId id = of_byte_[static_cast<uint8_t>(byte)];
      TAMIS_TRY_STATUS(matcher.fill_mask(bits_));
      if (id == kNoToken || !is_allowed(id)) return fail(ErrorCode::internal, "not allowed: {} after {}", byte, text);
      TAMIS_TRY_STATUS(matcher.accept(id));
    }
    if (!matcher.is_complete()) return fail(ErrorCode::internal, "not complete: {}", text + *end);
    return text + *end;
  }
  bool is_allowed(TokenId id) const {
    return (bits_[static_cast<size_t>(id) / 32] >> (id % 32) & 1u) != 0 && !trie_.ends_answer(id);
  }
  TokenId choose(Rng& rng, bool closes) {
    if (closes)
      for (const TokenId id : closers_)
        if (is_allowed(id) && rng.below(4) != 0) return id;
    const size_t start = rng.below(trie_.n_vocab());
    for (size_t i = 0; i < trie_.n_vocab(); ++i) {
      const auto id = static_cast<TokenId>((start + i) % trie_.n_vocab());
      if (is_allowed(id)) return id;
    }
    return kNoToken;
  }

  const TokenTrie& trie_;
  std::vector<uint32_t> bits_;
  std::vector<TokenId> closers_;
  std::vector<TokenId> of_byte_;  // kNoToken where the vocabulary has no token of that byte
};

// Tokens whose bytes are the text: some vocabularies put a space in front of what begins a text.
std::vector<TokenId> encode_inside(const Tokenizer& tokenizer, const TokenTrie& trie, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode("\n" + text);
  std::string tail;
  for (size_t i = ids.size(); i-- > 0;) {
    tail.insert(0, trie.bytes(ids[i]));
    if (tail == text) return {ids.begin() + static_cast<ptrdiff_t>(i), ids.end()};
  }
  return tokenizer.encode(text);
}

bool is_accepted(const Tokenizer& tokenizer, GrammarMatcher& matcher, const std::string& text) {
  const TokenTrie& trie = matcher.masks().trie();
  std::vector<uint32_t> bits(trie.n_words());
  matcher.reset();
  for (const TokenId id : encode_inside(tokenizer, trie, text)) {
    if (!matcher.fill_mask(bits)) return false;
    const bool is_allowed = (bits[static_cast<size_t>(id) / 32] >> (id % 32) & 1u) != 0;
    if (!is_allowed || !matcher.accept(id)) return false;
  }
  return matcher.is_complete();
}

Result<Json> answer(const Tokenizer& tokenizer, GrammarCache& cache, Sampler& sampler, const Json& request) {
  const Json* schema = request.find("schema");
  if (schema == nullptr) return fail(ErrorCode::invalid_argument, "no schema");
  TAMIS_TRY(const auto masks, cache.get({GrammarSpec::Kind::json_schema, schema->dump()}));
  GrammarMatcher matcher(masks);
  Json reply = Json::object(), list = Json::array();
  if (const Json* texts = request.find("accept")) {
    for (const Json& text : texts->as_array())
      list.push_back(is_accepted(tokenizer, matcher, text.as_string()) ? 1 : 0);
    reply.set("accepted", std::move(list));
    return reply;
  }
  Rng rng(static_cast<uint64_t>(request.find("seed")->as_int()));
  for (int64_t i = 0; i < request.find("sample")->as_int(); ++i) {
    TAMIS_TRY(std::string text, sampler.sample(matcher, rng));
    list.push_back(std::move(text));
  }
  reply.set("texts", std::move(list));
  return reply;
}

Status run(const std::string& path) {
  TAMIS_TRY(const GgufFile file, GgufFile::open(path));
  TAMIS_TRY(const auto tokenizer, Tokenizer::from_gguf(file));
  TAMIS_TRY(const auto trie, TokenTrie::create(*tokenizer));
  GrammarCache cache(trie);
  Sampler sampler(*tokenizer, *trie);
  for (std::string line; std::getline(std::cin, line);) {
    TAMIS_TRY(const Json request, Json::parse(line));
    const auto reply = answer(*tokenizer, cache, sampler, request);
    const Json out = reply ? *reply : Json::object().set("error", reply.error().message);
    std::cout << out.dump() << std::endl;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: grammar_driver VOCAB.gguf\n", 2;
  const auto status = run(argv[1]);
  if (!status) std::cerr << status.error().to_string() << "\n";
  return status ? 0 : 1;
}
