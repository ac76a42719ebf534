// Names and conversions of the façade's generation types.
#include "tamis/generate.h"

#include "api/model_state.h"
#include "api/seam.h"

namespace tamis::api {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::end_of_text:
    case FinishReason::stop_string: return "stop";
    case FinishReason::token_limit:
    case FinishReason::context_full: return "length";
    case FinishReason::cancelled: return "cancelled";
  }
  return "stop";
}

tamis::Result<std::shared_ptr<const TokenMasks>> LanguageModel::State::compile_grammar(const GrammarSpec& spec) const {
  {
    const std::scoped_lock lock(grammars_mutex_);
    if (grammars_ == nullptr) {
      TAMIS_TRY(auto trie, TokenTrie::create(*engine->tokenizer()));
      grammars_ = std::make_unique<GrammarCache>(std::move(trie));
    }
  }
  return grammars_->get(spec);
}

namespace {

GrammarSpec::Kind kind_of(AnswerForm form) {
  switch (form) {
    case AnswerForm::grammar: return GrammarSpec::Kind::gbnf;
    case AnswerForm::regex: return GrammarSpec::Kind::regex;
    case AnswerForm::json_schema: return GrammarSpec::Kind::json_schema;
    case AnswerForm::any:
    case AnswerForm::json_object: break;
  }
  return GrammarSpec::Kind::json_object;
}

}  // namespace

tamis::Result<GenerationOptions> to_engine(const GenerateOptions& options, const LanguageModel::State& model) {
  const Sampling& from = options.sampling;
  GenerationOptions out;
  SamplingParams& to = out.sampling;
  to.seed = from.seed;
  to.temp = from.temp;
  to.top_k = from.top_k;
  to.top_p = from.top_p;
  to.min_p = from.min_p;
  to.typical_p = from.typical_p;
  to.xtc_probability = from.xtc_probability;
  to.xtc_threshold = from.xtc_threshold;
  to.repeat_last_n = from.repeat_last_n;
  to.repeat_penalty = from.repeat_penalty;
  to.frequency_penalty = from.frequency_penalty;
  to.presence_penalty = from.presence_penalty;
  to.dry_multiplier = from.dry_multiplier;
  to.dry_base = from.dry_base;
  to.dry_allowed_length = from.dry_allowed_length;
  to.dry_penalty_last_n = from.dry_penalty_last_n;
  to.mirostat = from.mirostat;
  to.mirostat_lr = from.mirostat_lr;
  to.mirostat_ent = from.mirostat_ent;
  for (const Sampling::Bias& bias : from.logit_bias) to.logit_bias.push_back({bias.id, bias.bias});
  out.n_predict = options.n_predict;
  out.stop = options.stop;
  out.ignore_eos = options.ignore_eos;
  out.speculation = options.has_speculation ? Speculation::ngram : Speculation::off;
  out.cancel = options.cancel;
  if (options.form != AnswerForm::any) {
    TAMIS_TRY(out.grammar, model.compile_grammar({kind_of(options.form), options.form_text}));
  }
  return out;
}

std::function<tamis::Status(std::string_view)> to_engine(const OnText& on_text) {
  if (!on_text) return nullptr;
  return [&on_text](std::string_view text) { return to_private(on_text(text)); };
}

Answer from_engine(Generation generation) {
  Answer answer;
  answer.text = std::move(generation.text);
  answer.tokens = std::move(generation.tokens);
  switch (generation.end) {
    case GenerationEnd::end_of_text: answer.finish = FinishReason::end_of_text; break;
    case GenerationEnd::stop_string: answer.finish = FinishReason::stop_string; break;
    case GenerationEnd::token_limit: answer.finish = FinishReason::token_limit; break;
    case GenerationEnd::context_full: answer.finish = FinishReason::context_full; break;
    case GenerationEnd::time_limit:  // of the scheduler's requests only
    case GenerationEnd::cancelled: answer.finish = FinishReason::cancelled; break;
  }
  answer.seed = generation.seed;
  answer.n_prompt = generation.n_prompt;
  answer.n_cached = generation.n_cached;
  answer.n_drafted = generation.n_drafted;
  answer.n_accepted = generation.n_accepted;
  answer.prompt_seconds = generation.prompt_seconds;
  answer.first_token_seconds = generation.first_token_seconds;
  answer.generate_seconds = generation.generate_seconds;
  return answer;
}

}  // namespace tamis::api
