// The generation loop: prefill, then one token a step until a stop.
#include "engine/generate.h"

#include <chrono>
#include <limits>

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
  TextOut(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<std::string>& stops,
          const std::function<Status(std::string_view)>& on_text, std::string& text)
      : decoder_(std::move(tokenizer)), matcher_(stops), on_text_(on_text), text_(text) {}

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

bool is_cancelled(const GenerationOptions& options) { return options.cancel != nullptr && options.cancel->load(); }

// The loop after the prompt; `logits` are those of its last token. Fills in all of `out` but the prompt's part.
Status generate_tokens(Session& session, std::vector<float> logits, SamplerChain& sampler,
                       const GenerationOptions& options, TextOut& text, Generation& out) {
  const Tokenizer& tokenizer = *session.engine().tokenizer();
  const auto start = Clock::now();
  for (;;) {
    if (options.n_predict >= 0 && out.tokens.size() >= static_cast<uint64_t>(options.n_predict)) {
      out.end = GenerationEnd::token_limit;
      break;
    }
    if (is_cancelled(options)) {
      out.end = GenerationEnd::cancelled;
      break;
    }
    TAMIS_TRY(const TokenId id, sampler.sample(logits));
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
  TextOut text(engine.tokenizer(), options.stop, on_text, out.text);
  TAMIS_TRY_STATUS(generate_tokens(session, *std::move(logits), sampler, options, text, out));
  return out;
}

}  // namespace tamis
