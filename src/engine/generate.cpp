// The generation loop: prefill, then one token a step until a stop.
#include "engine/generate.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "engine/draft_policy.h"
#include "engine/ngram_draft.h"
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

// The logits after each token in turn: from a step of its own, or from the step before, when it was guessed there.
class AnswerRows {
 public:
  // Requires: the session holds `prompt`, and `logits` [n_vocab] are those of its last token.
  AnswerRows(Session& session, std::span<const TokenId> prompt, std::vector<float> logits,
             const GenerationOptions& options, Generation& out)
      : session_(session),
        tokens_(prompt.begin(), prompt.end()),
        logits_(std::move(logits)),
        options_(options),
        policy_(options.draft_margin),
        out_(out) {}

  std::span<float> row() {
    const size_t n_vocab = session_.engine().model().n_vocab();
    return std::span(logits_).subspan(row_idx_ * n_vocab, n_vocab);
  }
  // Goes on behind `id`. Requires: !is_full(). Errors: those of Session::append.
  Status next(TokenId id);
  bool is_full() const { return tokens_.size() >= session_.engine().n_ctx(); }
  // The session forgets what was only guessed.
  void finish() { session_.truncate(tokens_.size()); }

 private:
  bool follow_guess(TokenId id);
  void make_guess();

  Session& session_;
  std::vector<TokenId> tokens_;  // prompt, and answer without the last token chosen
  std::vector<float> logits_;    // rows of the last step
  const GenerationOptions& options_;
  DraftPolicy policy_;
  DraftRecord record_;
  NgramDraft ngram_;
  std::vector<TokenId> guess_;
  size_t n_agreeing_ = 0;
  size_t n_guessed_ = 0;  // tokens of the guess that the last step computed
  size_t row_idx_ = 0;    // of logits_; as many tokens of the guess have held
  Generation& out_;
};

bool AnswerRows::follow_guess(TokenId id) {
  if (row_idx_ >= guess_.size()) return false;
  const bool has_held = guess_[row_idx_] == id;
  record_.note(n_agreeing_, has_held);
  if (!has_held || row_idx_ >= n_guessed_) return false;
  ++row_idx_;
  ++out_.n_accepted;
  return true;
}

void AnswerRows::make_guess() {
  n_guessed_ = 0;
  if (options_.speculation == Speculation::off) return;
  ngram_.extend(tokens_);
  n_agreeing_ = ngram_.guess(tokens_, DraftPolicy::kMostTokens, guess_);
  if (guess_.empty()) return;
  const Engine& engine = session_.engine();
  n_guessed_ = std::min({policy_.n_worth(record_.chance(n_agreeing_), 1), size_t{engine.n_ctx()} - tokens_.size(),
                         size_t{engine.n_batch()} - 1});
  if (options_.n_predict >= 0)  // the last token wanted is not computed
    n_guessed_ = std::min(n_guessed_, static_cast<size_t>(options_.n_predict) - out_.tokens.size() - 1);
}

Status AnswerRows::next(TokenId id) {
  tokens_.push_back(id);
  if (follow_guess(id)) return {};
  session_.truncate(tokens_.size() - 1);
  make_guess();
  std::vector<TokenId> step{id};
  step.insert(step.end(), guess_.begin(), guess_.begin() + static_cast<ptrdiff_t>(n_guessed_));
  const auto begin = Clock::now();
  TAMIS_TRY(logits_, session_.append_step(step, 0));
  policy_.note(static_cast<uint32_t>(step.size()), 1e3 * seconds_since(begin));
  row_idx_ = 0;
  out_.n_drafted += n_guessed_;
  return {};
}

bool is_cancelled(const GenerationOptions& options) { return options.cancel != nullptr && options.cancel->load(); }

// The loop after the prompt, whose last logits are the first row. Fills in all of `out` but the prompt's part.
Status generate_tokens(AnswerRows& rows, const Tokenizer& tokenizer, SamplerChain& sampler,
                       const GenerationOptions& options, TextOut& text, Generation& out) {
  const auto start = Clock::now();
  GrammarGuard grammar(options.grammar);
  const auto is_enough = [&] {
    return options.n_predict >= 0 && out.tokens.size() >= static_cast<uint64_t>(options.n_predict);
  };
  for (;;) {
    if (is_enough()) {
      out.end = GenerationEnd::token_limit;
      break;
    }
    if (is_cancelled(options)) {
      out.end = GenerationEnd::cancelled;
      break;
    }
    TAMIS_TRY_STATUS(grammar.mask(rows.row()));
    TAMIS_TRY(const TokenId id, sampler.sample(rows.row()));
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
    if (rows.is_full()) {
      out.end = GenerationEnd::context_full;
      break;
    }
    if (is_enough()) continue;
    TAMIS_TRY_STATUS(rows.next(id));
  }
  rows.finish();
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
  AnswerRows rows(session, prompt, *std::move(logits), options, out);
  TAMIS_TRY_STATUS(generate_tokens(rows, *engine.tokenizer(), sampler, options, text, out));
  return out;
}

}  // namespace tamis
