// Structured output: time to compile a grammar, and to make the mask of the next token along random answers.
// usage: bench_grammar VOCAB.gguf [SCHEMA_FILE…]   (default: a few schemas and the grammar of any JSON)
// "cold" is the first time a state is met, "warm" the second walk over the same answers; times are of one thread, in
// µs.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "text/grammar/grammar.h"

namespace {

using namespace tamis;

// CPU time of this thread: other programs on the machine do not count.
struct Clock {
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  }
};

double us_since(double start) { return Clock::now() - start; }

double quantile(std::vector<double> times, double q) {
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[static_cast<size_t>(q * static_cast<double>(times.size() - 1))];
}

constexpr std::string_view kSchemas[] = {
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"type":"string"}}},"required":["name","age"],"additionalProperties":false})",
    R"({"type":"object","properties":{"title":{"type":"string","maxLength":80},"when":{"type":"string","format":"date-time"},"kind":{"enum":["meeting","call","visit"]},"people":{"type":"array","maxItems":5,"items":{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":40},"email":{"type":"string","format":"email"}},"required":["name"],"additionalProperties":false}}},"required":["title","when","kind"],"additionalProperties":false})",
    R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"number"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"],"additionalProperties":false}}})",
    "true"};

// Makes masks along answers of random allowed tokens; the same answers for the same seed.
std::vector<double> walk(const std::shared_ptr<const TokenMasks>& masks, uint64_t seed) {
  GrammarMatcher matcher(masks);
  std::vector<uint32_t> bits(masks->trie().n_words());
  std::vector<double> times;
  Rng rng(seed);
  for (int answer = 0; answer < 40; ++answer) {
    matcher.reset();
    for (int n = 0; n < 50 && !matcher.must_end(); ++n) {
      const auto start = Clock::now();
      if (!matcher.fill_mask(bits)) return times;
      times.push_back(us_since(start));
      const size_t from = rng.below(masks->trie().n_vocab());
      for (size_t i = 0; i < masks->trie().n_vocab(); ++i) {
        const auto id = static_cast<TokenId>((from + i) % masks->trie().n_vocab());
        if ((bits[static_cast<size_t>(id) / 32] >> (id % 32) & 1u) == 0 || masks->trie().ends_answer(id)) continue;
        if (!matcher.accept(id)) return times;
        break;
      }
    }
  }
  return times;
}

Status run(const std::string& vocab, const std::vector<std::string>& schemas) {
  TAMIS_TRY(const GgufFile file, GgufFile::open(vocab));
  TAMIS_TRY(const auto tokenizer, Tokenizer::from_gguf(file));
  const auto begin = Clock::now();
  TAMIS_TRY(const auto trie, TokenTrie::create(*tokenizer));
  fmt::print("vocabulary of {}: trie of {} nodes in {:.0f} ms\n", trie->n_vocab(), trie->nodes().size(),
             us_since(begin) / 1e3);
  fmt::print("{:>8} {:>10} {:>8} | {:>10} {:>10} {:>10} | {:>10} {:>10} {:>10}\n", "schema", "compile ms", "KiB",
             "cold p50", "cold p99", "cold max", "warm p50", "warm p99", "warm max");
  for (size_t i = 0; i < schemas.size(); ++i) {
    const auto start = Clock::now();
    TAMIS_TRY(const Grammar grammar, Grammar::from_json_schema(schemas[i]));
    const double compile_ms = us_since(start) / 1e3;
    const auto masks = std::make_shared<const TokenMasks>(grammar, trie);
    const auto cold = walk(masks, 1), warm = walk(masks, 1);
    fmt::print("{:>8} {:>10.2f} {:>8} | {:>10.1f} {:>10.1f} {:>10.1f} | {:>10.1f} {:>10.1f} {:>10.1f}\n", i, compile_ms,
               masks->size_bytes() >> 10, quantile(cold, 0.5), quantile(cold, 0.99), quantile(cold, 1),
               quantile(warm, 0.5), quantile(warm, 0.99), quantile(warm, 1));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print(stderr, "usage: bench_grammar VOCAB.gguf [SCHEMA_FILE…]\n"), 2;
  std::vector<std::string> schemas(std::begin(kSchemas), std::end(kSchemas));
  if (argc > 2) schemas.clear();
  for (int i = 2; i < argc; ++i) {
    const auto text = tamis::read_text_file(argv[i], uint64_t{1} << 20);
    if (!text) return fmt::print(stderr, "{}\n", text.error().to_string()), 1;
    schemas.push_back(*text);
  }
  const auto status = run(argv[1], schemas);
  if (!status) fmt::print(stderr, "{}\n", status.error().to_string());
  return status ? 0 : 1;
}
