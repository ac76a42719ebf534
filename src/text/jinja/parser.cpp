// Statements of the template language.
#include "text/jinja/parser.h"

#include <algorithm>

#include "base/fault.h"
#include "text/jinja/builtins.h"

namespace tamis::jinja {
namespace {

// Taller expressions (long chains of one operator) are refused: evaluating them would recurse as deep.
constexpr uint32_t kMaxHeight = 400;

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data: return "template data / text";
    case TokenKind::variable_begin: return "begin of print statement";
    case TokenKind::variable_end: return "end of print statement";
    case TokenKind::block_begin: return "begin of statement block";
    case TokenKind::block_end: return "end of statement block";
    case TokenKind::string: return "string";
    case TokenKind::end: return "end of template";
    default: return escape_for_display(token.text);
  }
}

}  // namespace

uint32_t Program::intern(std::string_view name) {
  const auto [it, is_new] = symbol_ids.try_emplace(std::string(name), static_cast<uint32_t>(symbols.size()));
  if (is_new) symbols.emplace_back(name);
  return it->second;
}

Status Parser::Depth::check() const {
  const Limits& limits = parser_.program_.limits;
  if (TAMIS_CHECKED(14, parser_.depth_ > limits.template_parse_depth || parser_.guard_.is_nearly_full()))
    return syntax_error(parser_.current().line, fmt::format("nested deeper than {}", limits.template_parse_depth));
  return {};
}

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  advance();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  advance();
  return true;
}

tl::unexpected<Error> Parser::unexpected(std::string_view expected) const {
  return syntax_error(current().line, fmt::format("expected {}, got '{}'", expected, describe(current())));
}

Status Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) return unexpected(fmt::format("token '{}'", op));
  return {};
}

Status Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) return unexpected(fmt::format("'{}'", name));
  return {};
}

Result<std::string> Parser::expect_any_name() {
  if (current().kind != TokenKind::name) return unexpected("a name");
  std::string name = current().text;
  advance();
  return name;
}

Node& Parser::make(NodeKind kind, uint32_t line) {
  Node& node = program_.nodes.emplace_back();
  node.kind = kind;
  node.line = line;
  return node;
}

Parser::NodeResult Parser::finish(Node& node) {
  uint32_t height = 0;
  const auto see = [&height](const Node* child) {
    if (child != nullptr) height = std::max(height, child->height);
  };
  for (const Node* child : {node.a, node.b, node.c, node.body, node.else_body}) see(child);
  for (const Node* child : node.items) see(child);
  if (node.call != nullptr) {
    for (const Node* child : node.call->positional) see(child);
    for (const auto& [name, child] : node.call->keywords) see(child);
    see(node.call->star);
    see(node.call->star_star);
  }
  if (node.macro != nullptr)
    for (const Node* child : node.macro->defaults) see(child);
  node.height = height + 1;
  if (node.height > kMaxHeight)
    return syntax_error(node.line, fmt::format("expression taller than {} levels", kMaxHeight));
  return &node;
}

Parser::NodeResult Parser::parse_template() {
  TAMIS_TRY(const Node* body, parse_block_until({}));
  if (current().kind != TokenKind::end) return unexpected("end of template");
  if (!unknown_.empty()) return syntax_error(unknown_[0].line, unknown_[0].message);
  symbols_.current()->block = body;
  symbols_.finish();
  return body;
}

Parser::NodeResult Parser::parse_body(std::initializer_list<std::string_view> end_tags) {
  skip_op(":");
  if (current().kind != TokenKind::block_end) return unexpected("end of statement block");
  advance();
  TAMIS_TRY(const Node* body, parse_block_until(end_tags));
  if (current().kind == TokenKind::end)
    return syntax_error(current().line,
                        fmt::format("Unexpected end of template: looking for '{}'", *(end_tags.end() - 1)));
  return body;
}

Parser::NodeResult Parser::parse_block_until(std::initializer_list<std::string_view> end_tags) {
  Node& block = make(NodeKind::block, current().line);
  while (current().kind != TokenKind::end) {
    const Token& token = current();
    if (token.kind == TokenKind::data) {
      Node& data = make(NodeKind::data, token.line);
      data.text = token.text;
      data.symbol = program_.n_literals++;
      block.items.push_back(&data);
      advance();
    } else if (token.kind == TokenKind::variable_begin) {
      advance();
      Node& output = make(NodeKind::output, token.line);
      TAMIS_TRY(const Node* expression, parse_tuple(true, "", false));
      if (current().kind != TokenKind::variable_end) return unexpected("end of print statement");
      advance();
      output.items.push_back(expression);
      TAMIS_TRY(const Node* finished, finish(output));
      block.items.push_back(finished);
    } else if (token.kind == TokenKind::block_begin) {
      advance();
      for (std::string_view end : end_tags)
        if (is_name(end)) return finish(block);
      TAMIS_TRY(const Node* statement, parse_statement());
      if (current().kind != TokenKind::block_end) return unexpected("end of statement block");
      advance();
      block.items.push_back(statement);
    } else {
      return unexpected("text");
    }
  }
  return finish(block);
}

Parser::NodeResult Parser::parse_statement() {
  const Depth depth(*this);
  TAMIS_TRY_STATUS(depth.check());
  if (current().kind != TokenKind::name) return unexpected("a tag name");
  const std::string& tag = current().text;
  if (tag == "if") return parse_if();
  if (tag == "for") return parse_for();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call_block();
  if (tag == "filter") return parse_filter_block();
  if (tag == "with") return parse_with();
  if (tag == "generation") return parse_scope("endgeneration");
  if (tag == "autoescape") return parse_autoescape();
  if (tag == "block") return parse_block_tag();
  if (tag == "print") return parse_print();
  if (tag == "break" || tag == "continue") {
    if (n_loops_ == 0) return syntax_error(current().line, fmt::format("'{}' outside loop", tag));
    Node& node = make(tag == "break" ? NodeKind::break_ : NodeKind::continue_, current().line);
    advance();
    return finish(node);
  }
  for (std::string_view refused : {"include", "import", "extends", "from"})
    if (tag == refused)
      return syntax_error(current().line, fmt::format("'{}' is not allowed: a chat template is one file", tag));
  return syntax_error(current().line, fmt::format("Encountered unknown tag '{}'", escape_for_display(tag)));
}

Parser::NodeResult Parser::parse_if() {
  Node& node = make(NodeKind::if_, current().line);
  const bool was_soft = std::exchange(is_soft_, true);
  while (true) {
    advance();  // if or elif
    TAMIS_TRY(const Node* test, parse_tuple(false, "", false));
    ++symbols_.current()->n_branches;
    TAMIS_TRY(const Node* body, parse_body({"elif", "else", "endif"}));
    --symbols_.current()->n_branches;
    node.items.push_back(test);
    node.items.push_back(body);
    if (!is_name("elif")) break;
  }
  if (skip_name("else")) {
    ++symbols_.current()->n_branches;
    TAMIS_TRY(node.c, parse_body({"endif"}));
    --symbols_.current()->n_branches;
  }
  is_soft_ = was_soft;
  advance();
  return finish(node);
}

Parser::NodeResult Parser::parse_for() {
  Node& node = make(NodeKind::for_, current().line);
  advance();
  TAMIS_TRY(node.a, parse_target(false, true));
  TAMIS_TRY_STATUS(expect_name("in"));
  TAMIS_TRY(node.b, parse_tuple(false, "recursive", false));
  const bool was_soft = std::exchange(is_soft_, false);
  if (skip_name("if")) {
    const InnerBody inner(symbols_);
    symbols_.declare(*node.a);
    TAMIS_TRY(node.c, parse_expression());
  }
  node.is_recursive = skip_name("recursive");
  loops_.push_back(&node);
  ++n_loops_;
  {
    InnerBody inner(symbols_);
    symbols_.declare(*node.a);
    symbols_.load(program_.intern("loop"));
    TAMIS_TRY(node.body, parse_body({"endfor", "else"}));
    inner.set_block(node.body);
  }
  --n_loops_;
  loops_.pop_back();
  if (skip_name("else")) {
    TAMIS_TRY(node.else_body, parse_inner_body("endfor"));
  }
  is_soft_ = was_soft;
  advance();
  return finish(node);
}

Parser::NodeResult Parser::parse_set() {
  const uint32_t line = current().line;
  advance();
  TAMIS_TRY(const Node* target, parse_target(true, false));
  if (skip_op("=")) {
    Node& node = make(NodeKind::set, line);
    node.a = target;
    TAMIS_TRY(node.b, parse_tuple(true, "", false));
    symbols_.store(*target);
    return finish(node);
  }
  symbols_.store(*target);
  Node& node = make(NodeKind::set_block, line);
  node.a = target;
  if (is_op("|")) {
    TAMIS_TRY(node.b, parse_filter_chain(nullptr));
  }
  const bool was_soft = std::exchange(is_soft_, false);
  TAMIS_TRY(node.body, parse_inner_body("endset"));
  is_soft_ = was_soft;
  advance();
  return finish(node);
}

Parser::NodeResult Parser::parse_with() {
  Node& node = make(NodeKind::with, current().line);
  advance();
  while (current().kind != TokenKind::block_end) {
    if (!node.items.empty()) TAMIS_TRY_STATUS(expect_op(","));
    TAMIS_TRY(const Node* target, parse_target(false, false));
    TAMIS_TRY_STATUS(expect_op("="));
    TAMIS_TRY(const Node* value, parse_expression());
    node.items.push_back(target);
    node.items.push_back(value);
  }
  const bool was_soft = std::exchange(is_soft_, false);
  InnerBody inner(symbols_);
  for (size_t i = 0; i < node.items.size(); i += 2) symbols_.declare(*node.items[i]);
  TAMIS_TRY(node.body, parse_body({"endwith"}));
  inner.set_block(node.body);
  is_soft_ = was_soft;
  advance();
  return finish(node);
}

Status Parser::parse_signature(MacroSpec& macro) {
  TAMIS_TRY_STATUS(expect_op("("));
  while (!is_op(")")) {
    if (!macro.parameters.empty()) TAMIS_TRY_STATUS(expect_op(","));
    TAMIS_TRY(const std::string name, expect_any_name());
    if (std::find(macro.parameter_names.begin(), macro.parameter_names.end(), name) != macro.parameter_names.end())
      return syntax_error(current().line, fmt::format("duplicate argument '{}'", escape_for_display(name)));
    macro.parameters.push_back(program_.intern(name));
    symbols_.load(macro.parameters.back());
    macro.parameter_names.push_back(name);
    if (skip_op("=")) {
      TAMIS_TRY(const Node* value, parse_expression());
      macro.defaults.push_back(value);
    } else if (!macro.defaults.empty()) {
      return syntax_error(current().line, "non-default argument follows default argument");
    }
  }
  return expect_op(")");
}

Parser::NodeResult Parser::parse_macro_body(MacroSpec& macro, std::string_view end) {
  const bool was_soft = std::exchange(is_soft_, false);
  const uint32_t outer_loops = std::exchange(n_loops_, 0);
  macros_.push_back(&macro);
  TAMIS_TRY(const Node* body, parse_body({end}));
  macros_.pop_back();
  n_loops_ = outer_loops;
  is_soft_ = was_soft;
  macro.body = body;
  advance();
  return body;
}

Parser::NodeResult Parser::parse_inner_body(std::string_view end) {
  InnerBody inner(symbols_);
  TAMIS_TRY(const Node* body, parse_body({end}));
  inner.set_block(body);
  return body;
}

Parser::NodeResult Parser::parse_macro() {
  Node& node = make(NodeKind::macro, current().line);
  MacroSpec& macro = program_.macros.emplace_back();
  advance();
  TAMIS_TRY(macro.name, expect_any_name());
  node.symbol = program_.intern(macro.name);
  symbols_.store(node.symbol);
  InnerBody inner(symbols_);
  TAMIS_TRY_STATUS(parse_signature(macro));
  TAMIS_TRY(node.body, parse_macro_body(macro, "endmacro"));
  inner.set_block(node.body);
  node.macro = &macro;
  return finish(node);
}

Parser::NodeResult Parser::parse_call_block() {
  Node& node = make(NodeKind::call_block, current().line);
  MacroSpec& macro = program_.macros.emplace_back();
  macro.name = "caller";
  advance();
  InnerBody inner(symbols_);
  if (is_op("(")) TAMIS_TRY_STATUS(parse_signature(macro));
  inner.pause();
  TAMIS_TRY(node.a, parse_expression());
  if (node.a->kind != NodeKind::call) return syntax_error(node.line, "expected call");
  inner.resume();
  TAMIS_TRY(node.body, parse_macro_body(macro, "endcall"));
  inner.set_block(node.body);
  node.macro = &macro;
  return finish(node);
}

Parser::NodeResult Parser::parse_filter_block() {
  Node& node = make(NodeKind::filter_block, current().line);
  advance();
  TAMIS_TRY(const Node* first, parse_one_filter(nullptr));
  node.a = first;
  if (is_op("|")) {
    TAMIS_TRY(node.a, parse_filter_chain(first));
  }
  const bool was_soft = std::exchange(is_soft_, false);
  TAMIS_TRY(node.body, parse_inner_body("endfilter"));
  is_soft_ = was_soft;
  advance();
  return finish(node);
}

Parser::NodeResult Parser::parse_scope(std::string_view end) {
  Node& node = make(NodeKind::scope, current().line);
  advance();
  const bool was_soft = std::exchange(is_soft_, false);
  TAMIS_TRY(node.body, parse_inner_body(end));
  is_soft_ = was_soft;
  advance();
  return finish(node);
}

Parser::NodeResult Parser::parse_autoescape() {
  Node& node = make(NodeKind::scope, current().line);
  advance();
  if (!skip_name("false") && !skip_name("False")) return syntax_error(node.line, "autoescape is not supported");
  TAMIS_TRY(node.body, parse_inner_body("endautoescape"));
  advance();
  return finish(node);
}

// Without inheritance a block is its body in a scope of its own.
Parser::NodeResult Parser::parse_block_tag() {
  Node& node = make(NodeKind::scope, current().line);
  advance();
  TAMIS_TRY(const std::string name, expect_any_name());
  skip_name("scoped");
  skip_name("required");
  const bool was_soft = std::exchange(is_soft_, false);
  const uint32_t outer_loops = std::exchange(n_loops_, 0);
  TAMIS_TRY(node.body, parse_inner_body("endblock"));
  is_soft_ = was_soft;
  n_loops_ = outer_loops;
  advance();
  skip_name(name);
  return finish(node);
}

Parser::NodeResult Parser::parse_print() {
  Node& node = make(NodeKind::output, current().line);
  advance();
  while (current().kind != TokenKind::block_end) {
    if (!node.items.empty()) TAMIS_TRY_STATUS(expect_op(","));
    TAMIS_TRY(const Node* expression, parse_expression());
    node.items.push_back(expression);
  }
  return finish(node);
}

Parser::NodeResult Parser::parse_target_primary(bool with_namespace) {
  const uint32_t line = current().line;
  if (skip_op("(")) {
    const Depth depth(*this);
    TAMIS_TRY_STATUS(depth.check());
    TAMIS_TRY(const Node* inner, parse_target(false, false));
    TAMIS_TRY_STATUS(expect_op(")"));
    return inner;
  }
  TAMIS_TRY(const std::string name, expect_any_name());
  for (std::string_view constant : {"true", "false", "none", "True", "False", "None"})
    if (name == constant) return syntax_error(line, "can't assign to 'const'");
  Node& node = make(NodeKind::target_name, line);
  node.symbol = program_.intern(name);
  if (with_namespace && skip_op(".")) {
    node.kind = NodeKind::target_attribute;
    TAMIS_TRY(node.text, expect_any_name());
  }
  return finish(node);
}

Parser::NodeResult Parser::parse_target(bool with_namespace, bool stops_at_in) {
  Node& tuple = make(NodeKind::target_tuple, current().line);
  bool is_tuple = false;
  while (true) {
    if (!tuple.items.empty()) TAMIS_TRY_STATUS(expect_op(","));
    const bool is_end = current().kind == TokenKind::block_end || is_op(")") || (stops_at_in && is_name("in"));
    if (is_end && is_tuple) break;
    TAMIS_TRY(const Node* target, parse_target_primary(with_namespace));
    tuple.items.push_back(target);
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) return tuple.items[0];
  return finish(tuple);
}

Result<Program> parse_program(std::string_view source, const Limits& limits) {
  if (source.size() > limits.template_bytes)
    return syntax_error(1,
                        fmt::format("template of {} bytes, at most {} allowed", source.size(), limits.template_bytes));
  Program program;
  program.limits = limits;
  TAMIS_TRY(std::vector<Token> tokens, tokenize(source));
  TAMIS_TRY(program.body, Parser(program, std::move(tokens)).parse_template());
  return program;
}

}  // namespace tamis::jinja
