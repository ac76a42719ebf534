// The chat template's life: parse once, render per conversation, encode with scaffolding and content told apart.
#include "text/chat_template.h"

#include "text/jinja/interpreter.h"

namespace tamis {

struct ChatTemplate::Program {
  jinja::Program jinja;
};

namespace {

Result<jinja::Text> render_text(const jinja::Program& program, const ChatTemplateInput& input) {
  jinja::RenderInput render;
  render.variables = &input.variables;
  render.bos_token = input.bos_token;
  render.eos_token = input.eos_token;
  render.clock = input.clock;
  jinja::Interpreter interpreter(program, render);
  return interpreter.run();
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const Limits& limits) {
  TAMIS_TRY(jinja::Program program, jinja::parse_program(source, limits));
  ChatTemplate out;
  out.program_ = std::make_shared<const Program>(Program{std::move(program)});
  return out;
}

Result<std::string> ChatTemplate::render(const ChatTemplateInput& input) const {
  TAMIS_TRY(jinja::Text text, render_text(program_->jinja, input));
  return std::move(text.bytes);
}

Result<std::vector<PromptPart>> ChatTemplate::render_parts(const ChatTemplateInput& input) const {
  TAMIS_TRY(const jinja::Text text, render_text(program_->jinja, input));
  std::vector<PromptPart> parts;
  size_t at = 0;
  const auto add = [&](size_t end, bool is_content) {
    if (end > at) parts.push_back({text.bytes.substr(at, end - at), is_content});
    at = end;
  };
  for (const jinja::Span& span : text.content) {
    add(span.begin, false);
    add(span.end, true);
  }
  add(text.bytes.size(), false);
  return parts;
}

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const std::vector<PromptPart>& parts,
                                   bool parse_content_special) {
  std::string text;
  std::vector<std::pair<size_t, size_t>> content;
  for (const PromptPart& part : parts) {
    const size_t begin = text.size();
    text += part.text;
    if (part.is_content && !parse_content_special && !part.text.empty()) content.emplace_back(begin, text.size());
  }
  // One text, so that merges and the leading space of SentencePiece do not see the borders of parts.
  std::vector<TokenId> ids = tokenizer.encode_masked(text, content, {.add_special = false, .parse_special = true});
  const SpecialTokens& special = tokenizer.special();
  if (special.bos == kNoToken) return ids;
  while (ids.size() > 1 && ids[0] == special.bos && ids[1] == special.bos) ids.erase(ids.begin());
  if (special.add_bos && (ids.empty() || ids[0] != special.bos)) ids.insert(ids.begin(), special.bos);
  return ids;
}

}  // namespace tamis
