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

}  // namespace tamis
