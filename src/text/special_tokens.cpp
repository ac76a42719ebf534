// Completes a vocabulary: which tokens are special and what each model's defaults are; and the checks that span several
// keys. Names of well-known tokens: what converters write for the chat models in circulation (the same lists llama.cpp
// searches).
#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "base/fault.h"
#include "base/log.h"
#include "text/pretokenizer.h"
#include "text/vocab.h"

namespace tamis {
namespace {

// End of a turn, most telling first: the first one present is EOT when the file names none.
constexpr std::string_view kEndOfTurn[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",      "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "<｜end▁of▁sentence｜>", "<end_of_utterance>",
};
constexpr std::string_view kEndOfMessage = "<|eom_id|>";
// Tokens that end an answer wherever they exist.
constexpr std::string_view kEndOfGeneration[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    // fill-in-the-middle: padding, repository name, file separator
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
};

using Names = std::unordered_map<std::string_view, TokenId>;

// Those of the well-known names that are tokens.
Names find_well_known(const VocabData& vocab) {
  Names names;
  names[kEndOfMessage] = kNoToken;
  for (const auto name : kEndOfTurn) names[name] = kNoToken;
  for (const auto name : kEndOfGeneration) names[name] = kNoToken;
  names["<|plamo:eos|>"] = kNoToken;
  size_t longest = 0;
  for (const auto& [name, id] : names) longest = std::max(longest, name.size());
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    const std::string_view token = vocab.tokens[id];
    if (token.empty() || token.size() > longest || (token[0] != '<' && token[0] != '[' && token[0] != '_')) continue;
    const auto it = names.find(token);
    if (it != names.end()) it->second = static_cast<TokenId>(id);
  }
  return names;
}

VocabFault fault(std::string_view key, std::string got, std::string expected, std::string_view tag) {
  return {ErrorCode::format, std::string(key), std::move(got), std::move(expected), std::string(tag)};
}

class Completer {
 public:
  explicit Completer(VocabData& vocab) : vocab_(vocab) {}

  VocabResult<void> run() {
    if (vocab_.types.size() != vocab_.tokens.size()) vocab_.types.resize(vocab_.tokens.size(), TokenType::normal);
    for (auto check : {&Completer::check_tokens, &Completer::check_scores, &Completer::set_defaults}) {
      auto status = (this->*check)();
      if (!status) return status;
    }
    find_ends();
    return check_contradictions();
  }

 private:
  VocabResult<void> check_tokens() {
    vocab_.by_text = TokenIndex(vocab_.tokens.size());
    const auto text_of = [this](TokenId id) { return vocab_.tokens[static_cast<size_t>(id)]; };
    bool byte_seen[256] = {};
    for (size_t i = 0; i < vocab_.tokens.size(); ++i) {
      const std::string_view token = vocab_.tokens[i];
      if (!token.empty() && !vocab_.by_text.insert(static_cast<TokenId>(i), text_of))
        return tl::unexpected(fault("tokenizer.ggml.tokens",
                                    fmt::format("token {} '{}' a second time", i, escape_for_display(token)),
                                    "each token once", "E_TOKEN_DUPLICATE"));
      if (vocab_.types[i] != TokenType::byte) continue;
      const auto byte = byte_of_token(token);
      if (!byte || byte_seen[*byte])
        return tl::unexpected(fault("tokenizer.ggml.tokens",
                                    fmt::format("byte token {} '{}'", i, escape_for_display(token)),
                                    "<0x00> … <0xFF>, each once", "E_TOKEN_BYTE"));
      byte_seen[*byte] = true;
    }
    return {};
  }

  VocabResult<void> check_scores() {
    const bool is_needed = vocab_.model == "llama" || vocab_.model == "t5";
    if (is_needed && vocab_.scores.empty())
      return tl::unexpected(fault("tokenizer.ggml.scores", "no such key", "a score for each token", "E_KEY_MISSING"));
    for (size_t i = 0; i < vocab_.scores.size(); ++i)
      if (std::isnan(vocab_.scores[i]) || vocab_.scores[i] == HUGE_VALF)
        return tl::unexpected(fault("tokenizer.ggml.scores", fmt::format("{} for token {}", vocab_.scores[i], i),
                                    "a number", "E_TOKEN_SCORE"));
    return {};
  }

  // The id a model's files mean when they do not say.
  VocabResult<void> use_default(TokenId SpecialTokens::*id, std::string_view key, TokenId value) {
    if (vocab_.special.*id != kNoToken) return {};
    if (static_cast<size_t>(value) >= vocab_.tokens.size())
      return tl::unexpected(fault(key, fmt::format("no such key, so the default {} of this model", value),
                                  fmt::format("an id below {}", vocab_.tokens.size()), "E_TOKEN_ID"));
    vocab_.special.*id = value;
    return {};
  }

  VocabResult<void> set_defaults() {
    SpecialTokens& special = vocab_.special;
    struct Default {
      std::string_view model, key;
      TokenId SpecialTokens::*id;
      TokenId value;
    };
    static constexpr Default kDefaults[] = {
        {"llama", "tokenizer.ggml.bos_token_id", &SpecialTokens::bos, 1},
        {"llama", "tokenizer.ggml.eos_token_id", &SpecialTokens::eos, 2},
        {"llama", "tokenizer.ggml.unknown_token_id", &SpecialTokens::unk, 0},
        {"bert", "tokenizer.ggml.cls_token_id", &SpecialTokens::cls, 101},
        {"bert", "tokenizer.ggml.unknown_token_id", &SpecialTokens::unk, 100},
        {"bert", "tokenizer.ggml.seperator_token_id", &SpecialTokens::sep, 102},
        {"t5", "tokenizer.ggml.eos_token_id", &SpecialTokens::eos, 1},
        {"t5", "tokenizer.ggml.unknown_token_id", &SpecialTokens::unk, 2},
    };
    if (vocab_.model == "bert" && special.cls == kNoToken) special.cls = special.bos;
    for (const Default& entry : kDefaults) {
      if (entry.model != vocab_.model) continue;
      auto status = use_default(entry.id, entry.key, entry.value);
      if (!status) return status;
    }
    if (vocab_.model == "bert") special.bos = special.cls;
    const PreTokenizerRow* row = vocab_.model == "gpt2" ? find_pre_tokenizer(vocab_.pre) : nullptr;
    const bool pre_adds_bos = row != nullptr && row->add_bos && special.bos != kNoToken;
    special.add_bos = vocab_.add_bos.value_or(vocab_.model == "llama" || vocab_.model == "bert" || pre_adds_bos);
    if (vocab_.model == "gemma4") special.add_bos = special.bos != kNoToken;
    special.add_eos = vocab_.add_eos.value_or(vocab_.model == "t5");
    special.add_space_prefix =
        vocab_.model == "bert" || (vocab_.model != "gpt2" && vocab_.add_space_prefix.value_or(vocab_.model == "llama"));
    return {};
  }

  void add_end(TokenId id) {
    auto& ends = vocab_.special.end_of_generation;
    if (id != kNoToken && std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  }

  // Text that looks like a control token and is not typed as one would let user text forge it and would show in
  // answers.
  void make_control(TokenId id) {
    TokenType& type = vocab_.types[static_cast<size_t>(id)];
    if (type != TokenType::control)
      log_debug("token {} '{}' is typed {}, used as a control token", id,
                escape_for_display(vocab_.tokens[static_cast<size_t>(id)]), static_cast<int>(type));
    type = TokenType::control;
  }

  // A vocabulary learned from text has `</s>` or `<PAD>` as an ordinary piece of HTML: a bare tag of normal type, not
  // named by the file, means nothing.
  bool is_plain_text(TokenId id, std::string_view name) const {
    const SpecialTokens& special = vocab_.special;
    const bool is_marked = name.starts_with("<|") || name.starts_with("<｜") || name.starts_with("<end_of_");
    return !is_marked && vocab_.types[static_cast<size_t>(id)] == TokenType::normal && id != special.eos &&
           id != special.eot && id != special.eom;
  }

  void find_ends() {
    SpecialTokens& special = vocab_.special;
    const Names names = find_well_known(vocab_);
    const auto id_of = [&](std::string_view name) { return names.find(name)->second; };
    for (const auto name : kEndOfTurn)
      if (special.eot == kNoToken && id_of(name) != kNoToken && !is_plain_text(id_of(name), name))
        special.eot = id_of(name);
    if (special.eom == kNoToken) special.eom = id_of(kEndOfMessage);
    // Models in which </s> and <|end|> are ordinary marks.
    const bool s_is_text = id_of("<|tool_response>") != kNoToken || id_of("<|plamo:eos|>") != kNoToken;
    const bool end_is_text = (id_of("<|return|>") != kNoToken && id_of("<|call|>") != kNoToken) ||
                             (id_of("<|calls|>") != kNoToken && id_of("<|flush|>") != kNoToken);
    if (end_is_text && special.eot == id_of("<|end|>")) special.eot = kNoToken;
    for (const auto name : kEndOfGeneration) {
      const TokenId id = id_of(name);
      if (id == kNoToken || (s_is_text && name == "</s>") || (end_is_text && name == "<|end|>")) continue;
      if (is_plain_text(id, name)) continue;
      add_end(id);
      make_control(id);
    }
    for (const TokenId id : {special.eos, special.eot, special.eom}) add_end(id);
    std::sort(special.end_of_generation.begin(), special.end_of_generation.end());
  }

  VocabResult<void> check_contradictions() {
    const SpecialTokens& special = vocab_.special;
    if (special.add_bos && special.bos == kNoToken)
      return tl::unexpected(
          fault("tokenizer.ggml.add_bos_token", "true, without a bos_token_id", "a token to add", "E_TOKEN_ID"));
    if (special.add_eos && special.eos == kNoToken)
      return tl::unexpected(
          fault("tokenizer.ggml.add_eos_token", "true, without an eos_token_id", "a token to add", "E_TOKEN_ID"));
    const bool needs_merges = (vocab_.model == "gpt2" && vocab_.pre != "kimi-k2") || vocab_.model == "gemma4";
    if (needs_merges && vocab_.merges.empty())
      return tl::unexpected(
          fault("tokenizer.ggml.merges", "none", "the merges of byte-pair encoding", "E_KEY_MISSING"));
    return {};
  }

  VocabData& vocab_;
};

}  // namespace

VocabResult<void> complete_vocab(VocabData& vocab) { return Completer(vocab).run(); }

}  // namespace tamis
