// From a call's messages or text to the tokens of a prompt, from the form it wants to the masks of tokens.
#include <algorithm>

#include "base/log.h"
#include "server/embeddings.h"
#include "server/server.h"
#include "server/tool_prompt.h"

namespace tamis::server {
namespace {

ChatTemplateInput template_input(const ServedModel& model, const GenerationCall& call) {
  const Tokenizer& tokenizer = *model.engine->tokenizer();
  const Json& tools = call.tools.offered;
  ChatTemplateInput input;
  input.variables = call.variables;
  if (model.syntax.offers_tools) {
    input.variables.set("messages", *call.messages);
    if (!tools.as_array().empty()) input.variables.set("tools", tools);
  } else {
    const bool has_tools = !tools.as_array().empty() || has_tool_messages(*call.messages);
    input.variables.set("messages", has_tools ? spell_out_tools(*call.messages, tools) : *call.messages);
  }
  const SpecialTokens& special = tokenizer.special();
  if (special.bos != kNoToken) input.bos_token = tokenizer.token_text(special.bos);
  if (special.eos != kNoToken) input.eos_token = tokenizer.token_text(special.eos);
  return input;
}

// A request the template cannot serve is the client's to change; a template that does not parse is not.
ApiResult<const ChatTemplate*> chat_template(const ServedModel& model, const GenerationCall& call) {
  const auto found = model.engine->chat_template();
  if (found) return *found;
  if (found.error().code == ErrorCode::not_found)
    return refuse(std::string(call.messages_field),
                  "this model has no chat template; /v1/completions continues a text");
  return refused(500, "the model's chat template does not parse");
}

// The messages as text with marks of what came from where. Some templates want the arguments of calls as objects,
// others as JSON in strings: which is found out by trying.
ApiResult<std::vector<PromptPart>> render_messages(const ServedModel& model, const GenerationCall& call) {
  TAMIS_API_TRY(const ChatTemplate* const with, chat_template(model, call));
  ChatTemplateInput input = template_input(model, call);
  auto parts = with->render_parts(input);
  if (!parts && has_tool_messages(*call.messages)) {
    input.variables.set("messages", with_text_arguments(*input.variables.find("messages")));
    if (auto again = with->render_parts(input)) return *std::move(again);
  }
  if (!parts) return refuse(std::string(call.messages_field), "the chat template refused: " + parts.error().message);
  return *std::move(parts);
}

ApiResult<void> check_length(const ServedModel& model, const std::string& field, const std::vector<TokenId>& prompt) {
  const uint32_t n_ctx = model.scheduler->n_ctx();
  if (prompt.empty()) return refuse(field, "is empty, and the model has no token to begin with");
  if (prompt.size() <= n_ctx) return {};
  auto error = refuse(field, fmt::format("has {} tokens, the context holds {}", prompt.size(), n_ctx));
  error.value().code = "context_length_exceeded";
  return error;
}

// A prompt that is a text.
std::vector<TokenId> encode_text(const ServedModel& model, const std::string& text) {
  const Tokenizer& tokenizer = *model.engine->tokenizer();
  std::vector<TokenId> prompt = tokenizer.encode(text, {.add_special = true, .parse_special = true});
  const TokenId bos = tokenizer.special().bos;
  if (prompt.empty() && bos != kNoToken) prompt.push_back(bos);
  if (prompt.size() > 1 && bos != kNoToken && prompt[0] == bos && prompt[1] == bos) {
    std::call_once(model.two_bos, [&] {
      log_warning("{}: a prompt begins with BOS twice, the model's own and one that the text spells out; both are kept",
                  escape_for_display(model.alias));
    });
  }
  return prompt;
}

}  // namespace

CallLimits limits_of(const ServedModel& model) {
  return {model.engine->model().n_vocab(), model.scheduler->n_ctx(),
          std::min(model.max_seqs, GenerateRequest::kMaxChoices), model.engine->model().hyper.n_embd, model.max_seqs};
}

ApiResult<std::string> render_prompt(const ServedModel& model, const GenerationCall& call) {
  TAMIS_API_TRY(const std::vector<PromptPart> parts, render_messages(model, call));
  std::string text;
  for (const PromptPart& part : parts) text += part.text;
  return text;
}

ApiResult<std::vector<std::vector<TokenId>>> build_prompts(const ServedModel& model, const GenerationCall& call,
                                                           std::string* end) {
  std::vector<std::vector<TokenId>> out;
  if (call.messages) {
    TAMIS_API_TRY(const std::vector<PromptPart> parts, render_messages(model, call));
    out.push_back(encode_prompt(*model.engine->tokenizer(), parts, model.parse_content_special));
    if (end != nullptr && !parts.empty() && !parts.back().is_content) *end = parts.back().text;
    TAMIS_API_TRY_STATUS(check_length(model, std::string(call.messages_field), out.front()));
  }
  for (const GivenPrompt& given : call.prompts) {
    out.push_back(given.text ? encode_text(model, *given.text) : given.tokens);
    TAMIS_API_TRY_STATUS(check_length(model, given.field, out.back()));
  }
  return out;
}

ApiResult<std::vector<TokenId>> build_embedding_prompt(const ServedModel& model, const EmbeddingsCall::Input& input) {
  std::vector<TokenId> prompt = input.tokens;
  if (prompt.empty())
    prompt = model.engine->tokenizer()->encode(input.text,
                                               {.add_special = true, .parse_special = model.parse_content_special});
  TAMIS_API_TRY_STATUS(check_length(model, input.field, prompt));
  return prompt;
}

ApiResult<std::shared_ptr<const TokenMasks>> build_masks(const ServedModel& model, const GenerationCall& call) {
  if (!call.form) return nullptr;
  if (model.grammars == nullptr) return refuse(call.form_field, "this model's vocabulary cannot be held to a grammar");
  auto masks = model.grammars->get(*call.form);
  if (masks) return *std::move(masks);
  const Error& error = masks.error();
  if (error.code != ErrorCode::invalid_argument && error.code != ErrorCode::unsupported)
    return tl::unexpected<ApiError>(from_error(error));
  return refuse(call.form_field, error.message);
}

}  // namespace tamis::server
