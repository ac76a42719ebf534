// The parser's state and helpers, shared by parser.cpp (statements) and parser_expression.cpp.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/stack_guard.h"
#include "text/jinja/symbols.h"

namespace tamis::jinja {

class Parser {
 public:
  Parser(Program& program, std::vector<Token> tokens) : program_(program), tokens_(std::move(tokens)) {}

  // The whole template.
  Result<const Node*> parse_template();

 private:
  using NodeResult = Result<const Node*>;

  // Counts nesting while alive.
  class Depth {
   public:
    explicit Depth(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Status check() const;

   private:
    Parser& parser_;
  };

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool is_op(std::string_view op) const { return current().kind == TokenKind::op && current().text == op; }
  bool is_name(std::string_view name) const { return current().kind == TokenKind::name && current().text == name; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  Status expect_op(std::string_view op);
  Status expect_name(std::string_view name);
  Result<std::string> expect_any_name();
  tl::unexpected<Error> unexpected(std::string_view expected) const;

  // Nodes.
  Node& make(NodeKind kind, uint32_t line);
  // Sets the height from the children. Errors: format when the expression is too tall.
  NodeResult finish(Node& node);

  // Statements (parser.cpp).
  NodeResult parse_body(
      std::initializer_list<std::string_view> end_tags);  // after the tag: `%} … {% end`, end not consumed
  NodeResult parse_block_until(std::initializer_list<std::string_view> end_tags);
  Status end_tag(std::string_view name);
  NodeResult parse_statement();
  NodeResult parse_for();
  NodeResult parse_if();
  NodeResult parse_set();
  NodeResult parse_with();
  NodeResult parse_macro();
  NodeResult parse_call_block();
  NodeResult parse_filter_block();
  NodeResult parse_scope(std::string_view name);
  NodeResult parse_autoescape();
  NodeResult parse_block_tag();
  NodeResult parse_print();
  Status parse_signature(MacroSpec& macro);
  NodeResult parse_macro_body(MacroSpec& macro, std::string_view end);
  NodeResult parse_inner_body(std::string_view end);  // in a scope of its own
  NodeResult parse_target(bool with_namespace, bool stops_at_in);
  NodeResult parse_target_primary(bool with_namespace);

  // Expressions (parser_expression.cpp).
  NodeResult parse_expression(bool with_conditional = true);
  NodeResult parse_tuple(bool with_conditional, std::string_view end_name, bool in_parentheses);
  NodeResult parse_condition();
  NodeResult parse_binary(int level);
  NodeResult parse_logical(int level);
  NodeResult parse_compare();
  NodeResult parse_not();
  NodeResult parse_unary(bool with_filter);
  NodeResult parse_primary();
  NodeResult parse_name();
  NodeResult parse_list();
  NodeResult parse_dict();
  NodeResult parse_postfix(const Node* node);
  NodeResult parse_filter_suffix(const Node* node);
  NodeResult parse_subscript(const Node* node);
  NodeResult parse_slice_or_index(const Node* node);
  NodeResult parse_call_suffix(const Node* node);
  Result<const Call*> parse_call_arguments();
  NodeResult parse_one_filter(const Node* node);
  NodeResult parse_filter_chain(const Node* node);
  NodeResult parse_test(const Node* node);

  Program& program_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  uint32_t n_loops_ = 0;  // enclosing for bodies of the same function, for break and continue
  struct Unknown {
    uint32_t line;
    std::string message;
  };
  bool is_soft_ = false;  // inside an if: unknown filters are errors only when evaluated, as in jinja2
  std::vector<Unknown>
      unknown_;  // unknown filters and tests outside: errors, unless a conditional turns out to hold them
  std::vector<MacroSpec*> macros_;  // enclosing macros, which note the use of varargs, kwargs, caller
  std::vector<Node*> loops_;        // enclosing for statements, which note the use of loop
  SymbolTable symbols_;
  StackGuard guard_;
};

}  // namespace tamis::jinja
