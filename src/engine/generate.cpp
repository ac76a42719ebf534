// The generation loop: prefill, then one token a step until a stop.
#include "engine/generate.h"

#include <chrono>
#include <limits>
#include <optional>

#include "engine/sampler.h"
#include "engine/stop_matcher.h"

namespace tamis {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

SamplingParams sampling_of(const GenerationOptions& options, const Tokenizer& tokenizer) {
  SamplingParams params = options.sampling;
  if (options.ignore_eos) {
    for (const TokenId id : tokenizer.special().end_of_generation)
      params.logit_bias.push_back({id, -std::numeric_limits<float>::infinity()});
  }
  return params;
}

// Text on its way out: token → characters → certain not to be a stop string → caller.
class TextOut {
 public:
  TextOut(std::shared_ptr<const Tokenizer> tokenizer, const GenerationOptions& options,
          const std::function<Status(std::string_view)>& on_text, std::string& text)
      // Under a grammar each byte of a token counts, a space before the first word too.
      : decoder_(std::move(tokenizer), options.grammar != nullptr),
        matcher_(options.stop),
        on_text_(on_text),
        text_(text) {}

  Status push(TokenId id) { return send(matcher_.push(decoder_.push(id))); }
  Status finish() {
    TAMIS_TRY_STATUS(send(matcher_.push(decoder_.finish())));
    return send(matcher_.finish());
  }
  bool is_stopped() const { return matcher_.matched(); }

 private:
  Status send(std::string_view piece) {
    if (piece.empty()) return {};
    text_ += piece;
    return on_text_ ? on_text_(piece) : Status{};
  }

  StreamDecoder decoder_;
  StopMatcher matcher_;
  const std::function<Status(std::string_view)>& on_text_;
  std::string& text_;
};

// The grammar's part in the loop; without a grammar it does nothing.
class GrammarGuard {
 public:
  explicit GrammarGuard(const std::shared_ptr<const TokenMasks>& masks) {
    if (masks == nullptr) return;
    matcher_.emplace(masks);
    bits_.resize(masks->trie().n_words());
  }
  Status mask(std::span<float> logits) {
    if (!matcher_) return {};
    TAMIS_TRY_STATUS(matcher_->fill_mask(bits_));
    apply_token_mask(logits, bits_);
    return {};
  }
  Status accept(TokenId id) { return matcher_ ? matcher_->accept(id) : Status{}; }
  // Nothing can follow: no step is spent on the token that says so.
  bool must_end() const { return matcher_ && matcher_->must_end(); }

 private:
  std::optional<GrammarMatcher> matcher_;
  std::vector<uint32_t> bits_;
};

bool is_cancelled(const GenerationOptions& options) { return options.cancel != nullptr && options.cancel->load(); }

// The loop after the prompt; `logits` are those of its last token. Fills in all of `out` but the prompt's part.
Status generate_tokens(Session& session, std::vector<float> logits, SamplerChain& sampler,
                       const GenerationOptions& options, TextOut& text, Generation& out) {
  const Tokenizer& tokenizer = *session.engine().tokenizer();
  const auto start = Clock::now();
  GrammarGuard grammar(options.grammar);
  for (;;) {
    if (options.n_predict >= 0 && out.tokens.size() >= static_cast<uint64_t>(options.n_predict)) {
      out.end = GenerationEnd::token_limit;
      break;
    }
    if (is_cancelled(options)) {
      out.end = GenerationEnd::cancelled;
      break;
    }
    TAMIS_TRY_STATUS(grammar.mask(logits));
    TAMIS_TRY(const TokenId id, sampler.sample(logits));
    TAMIS_TRY_STATUS(grammar.accept(id));
    sampler.accept(id);
    if (out.tokens.empty()) out.first_token_seconds = out.prompt_seconds + seconds_since(start);
    if (tokenizer.is_end_of_generation(id)) {
      out.end = GenerationEnd::end_of_text;
      break;
    }
    out.tokens.push_back(id);
    TAMIS_TRY_STATUS(text.push(id));
    if (text.is_stopped()) {
      out.end = GenerationEnd::stop_string;
      break;
    }
    if (grammar.must_end()) break;
    if (session.is_full()) {
      out.end = GenerationEnd::context_full;
      break;
    }
    TAMIS_TRY(logits, session.append(std::span(&id, 1)));
  }
  TAMIS_TRY_STATUS(text.finish());
  if (text.is_stopped()) out.end = GenerationEnd::stop_string;
  out.generate_seconds = seconds_since(start);
  return {};
}

}  // namespace

Result<Generation> generate(Session& session, std::span<const TokenId> prompt, const GenerationOptions& options,
                            const std::function<Status(std::string_view)>& on_text) {
  const Engine& engine = session.engine();
  if (prompt.empty()) return fail(ErrorCode::invalid_argument, "prompt: got no tokens, expected at least one");
  if (prompt.size() > engine.n_ctx()) {
    return fail(ErrorCode::invalid_argument, "prompt: got {} tokens, expected at most {}, the context (-c)",
                prompt.size(), engine.n_ctx());
  }
  TAMIS_TRY(SamplerChain sampler, SamplerChain::create(sampling_of(options, *engine.tokenizer()),
                                                       engine.model().n_vocab(), engine.tokenizer()));
  Generation out;
  out.seed = sampler.seed();
  out.n_prompt = prompt.size();
  out.n_cached = session.keep_common_prefix(prompt);
  for (const TokenId id : prompt) sampler.accept(id);
  const auto start = Clock::now();
  auto logits = session.append(prompt.subspan(out.n_cached), options.cancel);
  out.prompt_seconds = seconds_since(start);
  if (!logits && logits.error().code == ErrorCode::cancelled) {
    out.end = GenerationEnd::cancelled;
    return out;
  }
  if (!logits) return tl::unexpected<Error>(std::move(logits).error());
  TextOut text(engine.tokenizer(), options, on_text, out.text);
  TAMIS_TRY_STATUS(generate_tokens(session, *std::move(logits), sampler, options, text, out));
  return out;
}

}  // namespace tamis
