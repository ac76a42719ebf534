// Expressions of the template language, by jinja2's precedence: if/else, or, and, not, comparisons, + -, ~, * / // %,
// **, unary minus, then attributes, calls, filters and tests.
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/parser.h"

namespace tamis::jinja {
namespace {

struct BinaryOp {
  std::string_view text;
  int level;
  NodeKind kind;
};

constexpr BinaryOp kBinaryOps[] = {
    {"+", 0, NodeKind::add},      {"-", 0, NodeKind::subtract}, {"~", 1, NodeKind::concatenate},
    {"*", 2, NodeKind::multiply}, {"/", 2, NodeKind::divide},   {"//", 2, NodeKind::floor_divide},
    {"%", 2, NodeKind::modulo},   {"**", 3, NodeKind::power},
};

const BinaryOp* binary_op(const Token& token) {
  if (token.kind != TokenKind::op) return nullptr;
  for (const BinaryOp& op : kBinaryOps)
    if (op.text == token.text) return &op;
  return nullptr;
}

}  // namespace

Parser::NodeResult Parser::parse_expression(bool with_conditional) {
  const Depth depth(*this);
  TAMIS_TRY_STATUS(depth.check());
  return with_conditional ? parse_condition() : parse_logical(0);
}

Parser::NodeResult Parser::parse_condition() {
  const uint32_t line = current().line;
  const bool was_soft = is_soft_;
  const size_t n_unknown = unknown_.size();
  TAMIS_TRY(const Node* value, parse_logical(0));
  while (skip_name("if")) {
    Node& node = make(NodeKind::conditional, line);
    node.a = value;
    is_soft_ = true;
    TAMIS_TRY(node.b, parse_logical(0));
    if (skip_name("else")) {
      TAMIS_TRY(node.c, parse_expression());
    }
    is_soft_ = was_soft;
    unknown_.resize(n_unknown);
    TAMIS_TRY(value, finish(node));
  }
  return value;
}

// Level 0: or; level 1: and.
Parser::NodeResult Parser::parse_logical(int level) {
  const uint32_t line = current().line;
  TAMIS_TRY(const Node* first, level == 0 ? parse_logical(1) : parse_not());
  const std::string_view word = level == 0 ? "or" : "and";
  if (!is_name(word)) return first;
  Node& node = make(level == 0 ? NodeKind::logical_or : NodeKind::logical_and, line);
  node.items.push_back(first);
  while (skip_name(word)) {
    TAMIS_TRY(const Node* next, level == 0 ? parse_logical(1) : parse_not());
    node.items.push_back(next);
  }
  return finish(node);
}

Parser::NodeResult Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Depth depth(*this);
  TAMIS_TRY_STATUS(depth.check());
  Node& node = make(NodeKind::logical_not, current().line);
  advance();
  TAMIS_TRY(node.a, parse_not());
  return finish(node);
}

Parser::NodeResult Parser::parse_compare() {
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {{"==", CompareOp::eq}, {"!=", CompareOp::ne},
                                                                    {"<", CompareOp::lt},  {"<=", CompareOp::le},
                                                                    {">", CompareOp::gt},  {">=", CompareOp::ge}};
  const uint32_t line = current().line;
  TAMIS_TRY(const Node* first, parse_binary(0));
  Node* node = nullptr;
  while (true) {
    bool found = false;
    CompareOp op = CompareOp::eq;
    for (const auto& [text, candidate] : kOps)
      if (is_op(text)) op = candidate, found = true;
    if (is_name("in")) op = CompareOp::in, found = true;
    if (is_name("not") && look().kind == TokenKind::name && look().text == "in") {
      advance();
      op = CompareOp::not_in;
      found = true;
    }
    if (!found) break;
    advance();
    if (node == nullptr) {
      node = &make(NodeKind::compare, line);
      node->items.push_back(first);
    }
    TAMIS_TRY(const Node* right, parse_binary(0));
    node->items.push_back(right);
    node->compare_ops.push_back(op);
  }
  return node == nullptr ? NodeResult(first) : finish(*node);
}

// Operators of `level` and above, all left-associative (also **, as in jinja2).
Parser::NodeResult Parser::parse_binary(int level) {
  TAMIS_TRY(const Node* left, parse_unary(true));
  while (const BinaryOp* op = binary_op(current())) {
    if (op->level < level) break;
    Node& node = make(op->kind, current().line);
    if (op->kind == NodeKind::concatenate) {
      node.items.push_back(left);
      while (skip_op("~")) {
        TAMIS_TRY(const Node* item, parse_binary(op->level + 1));
        node.items.push_back(item);
      }
    } else {
      advance();
      node.a = left;
      TAMIS_TRY(node.b, parse_binary(op->level + 1));
    }
    TAMIS_TRY(left, finish(node));
  }
  return left;
}

Parser::NodeResult Parser::parse_unary(bool with_filter) {
  const Node* value = nullptr;
  if (is_op("-") || is_op("+")) {
    const Depth depth(*this);
    TAMIS_TRY_STATUS(depth.check());
    Node& node = make(is_op("-") ? NodeKind::negate : NodeKind::plus, current().line);
    advance();
    TAMIS_TRY(node.a, parse_unary(false));
    TAMIS_TRY(value, finish(node));
  } else {
    TAMIS_TRY(value, parse_primary());
  }
  TAMIS_TRY(value, parse_postfix(value));
  return with_filter ? parse_filter_suffix(value) : NodeResult(value);
}

Parser::NodeResult Parser::parse_name() {
  const Token& token = current();
  const std::string& name = token.text;
  NodeKind kind = NodeKind::name;
  if (name == "true" || name == "True") kind = NodeKind::literal_true;
  if (name == "false" || name == "False") kind = NodeKind::literal_false;
  if (name == "none" || name == "None") kind = NodeKind::literal_none;
  Node& node = make(kind, token.line);
  if (kind == NodeKind::name) {
    node.symbol = program_.intern(name);
    symbols_.load(node.symbol);
    for (MacroSpec* macro : macros_) {
      macro->uses_varargs |= name == "varargs";
      macro->uses_kwargs |= name == "kwargs";
      macro->uses_caller |= name == "caller";
    }
    if (name == "loop")
      for (Node* loop : loops_) loop->uses_loop = true;
  }
  advance();
  return finish(node);
}

Parser::NodeResult Parser::parse_primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::name: return parse_name();
    case TokenKind::string: {
      Node& node = make(NodeKind::literal_string, token.line);
      for (; current().kind == TokenKind::string; advance()) node.text += current().text;
      node.symbol = program_.n_literals++;
      return finish(node);
    }
    case TokenKind::integer: {
      Node& node = make(NodeKind::literal_integer, token.line);
      node.text = token.text;
      node.symbol = program_.n_literals++;
      advance();
      return finish(node);
    }
    case TokenKind::real: {
      Node& node = make(NodeKind::literal_real, token.line);
      node.real = parse_double(token.text).value_or(0);
      advance();
      return finish(node);
    }
    default: break;
  }
  if (is_op("(")) {
    advance();
    TAMIS_TRY(const Node* inner, parse_tuple(true, "", true));
    TAMIS_TRY_STATUS(expect_op(")"));
    return inner;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  return unexpected("an expression");
}

Parser::NodeResult Parser::parse_tuple(bool with_conditional, std::string_view end_name, bool in_parentheses) {
  Node& tuple = make(NodeKind::tuple, current().line);
  bool is_tuple = false;
  while (true) {
    if (!tuple.items.empty()) TAMIS_TRY_STATUS(expect_op(","));
    const bool is_end = current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end ||
                        is_op(")") || (!end_name.empty() && is_name(end_name));
    if (is_end) break;
    TAMIS_TRY(const Node* item, parse_expression(with_conditional));
    tuple.items.push_back(item);
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !tuple.items.empty()) return tuple.items[0];
  if (!is_tuple && !in_parentheses) return unexpected("an expression");
  return finish(tuple);
}

Parser::NodeResult Parser::parse_list() {
  Node& list = make(NodeKind::list, current().line);
  advance();
  while (!is_op("]")) {
    if (!list.items.empty()) TAMIS_TRY_STATUS(expect_op(","));
    if (is_op("]")) break;
    TAMIS_TRY(const Node* item, parse_expression());
    list.items.push_back(item);
  }
  advance();
  return finish(list);
}

Parser::NodeResult Parser::parse_dict() {
  Node& dict = make(NodeKind::dict, current().line);
  advance();
  while (!is_op("}")) {
    if (!dict.items.empty()) TAMIS_TRY_STATUS(expect_op(","));
    if (is_op("}")) break;
    TAMIS_TRY(const Node* key, parse_expression());
    TAMIS_TRY_STATUS(expect_op(":"));
    TAMIS_TRY(const Node* value, parse_expression());
    dict.items.push_back(key);
    dict.items.push_back(value);
  }
  advance();
  return finish(dict);
}

Parser::NodeResult Parser::parse_postfix(const Node* node) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      TAMIS_TRY(node, parse_subscript(node));
    } else if (is_op("(")) {
      TAMIS_TRY(node, parse_call_suffix(node));
    } else {
      return node;
    }
  }
}

Parser::NodeResult Parser::parse_filter_suffix(const Node* node) {
  while (true) {
    if (is_op("|")) {
      TAMIS_TRY(node, parse_filter_chain(node));
    } else if (is_name("is")) {
      TAMIS_TRY(node, parse_test(node));
    } else if (is_op("(")) {
      TAMIS_TRY(node, parse_call_suffix(node));
    } else {
      return node;
    }
  }
}

Parser::NodeResult Parser::parse_subscript(const Node* object) {
  const uint32_t line = current().line;
  if (skip_op(".")) {
    const Token& token = current();
    if (token.kind == TokenKind::name) {
      Node& node = make(NodeKind::attribute, line);
      node.a = object;
      node.text = token.text;
      node.symbol = program_.n_literals++;
      advance();
      return finish(node);
    }
    if (token.kind != TokenKind::integer) return unexpected("name or number");
    Node& node = make(NodeKind::subscript, line);
    node.a = object;
    TAMIS_TRY(node.b, parse_primary());
    return finish(node);
  }
  advance();  // [
  TAMIS_TRY(const Node* first, parse_slice_or_index(object));
  if (!is_op(",")) {
    TAMIS_TRY_STATUS(expect_op("]"));
    return first;
  }
  Node& tuple = make(NodeKind::tuple, line);
  if (first->kind == NodeKind::slice) return unexpected("token ']'");
  tuple.items.push_back(first->b);
  while (skip_op(",")) {
    TAMIS_TRY(const Node* item, parse_expression());
    tuple.items.push_back(item);
  }
  TAMIS_TRY_STATUS(expect_op("]"));
  Node& node = make(NodeKind::subscript, line);
  node.a = object;
  TAMIS_TRY(node.b, finish(tuple));
  return finish(node);
}

Parser::NodeResult Parser::parse_slice_or_index(const Node* object) {
  const uint32_t line = current().line;
  const Node* parts[3] = {nullptr, nullptr, nullptr};
  if (!is_op(":")) {
    TAMIS_TRY(parts[0], parse_expression());
    if (!is_op(":")) {
      Node& node = make(NodeKind::subscript, line);
      node.a = object;
      node.b = parts[0];
      return finish(node);
    }
  }
  advance();
  if (!is_op(":") && !is_op("]") && !is_op(",")) {
    TAMIS_TRY(parts[1], parse_expression());
  }
  if (skip_op(":") && !is_op("]") && !is_op(",")) {
    TAMIS_TRY(parts[2], parse_expression());
  }
  Node& node = make(NodeKind::slice, line);
  node.a = object;
  node.items.assign(parts, parts + 3);
  return finish(node);
}

Result<const Call*> Parser::parse_call_arguments() {
  Call& call = program_.calls.emplace_back();
  const uint32_t line = current().line;
  const auto wrong = [line] { return syntax_error(line, "invalid syntax for function call expression"); };
  TAMIS_TRY_STATUS(expect_op("("));
  bool needs_comma = false;
  while (!is_op(")")) {
    if (needs_comma) {
      TAMIS_TRY_STATUS(expect_op(","));
      if (is_op(")")) break;
    }
    needs_comma = true;
    if (skip_op("*")) {
      if (call.star != nullptr || call.star_star != nullptr) return wrong();
      TAMIS_TRY(call.star, parse_expression());
    } else if (skip_op("**")) {
      if (call.star_star != nullptr) return wrong();
      TAMIS_TRY(call.star_star, parse_expression());
    } else if (current().kind == TokenKind::name && look().kind == TokenKind::op && look().text == "=") {
      if (call.star_star != nullptr) return wrong();
      std::string name = current().text;
      advance();
      advance();
      TAMIS_TRY(const Node* value, parse_expression());
      for (const auto& [known, node] : call.keywords)
        if (known == name)
          return syntax_error(line, fmt::format("keyword argument repeated: {}", escape_for_display(name)));
      call.keywords.emplace_back(std::move(name), value);
    } else {
      if (call.star != nullptr || call.star_star != nullptr || !call.keywords.empty()) return wrong();
      TAMIS_TRY(const Node* value, parse_expression());
      call.positional.push_back(value);
    }
  }
  advance();
  return &call;
}

Parser::NodeResult Parser::parse_call_suffix(const Node* callee) {
  Node& node = make(NodeKind::call, current().line);
  node.a = callee;
  TAMIS_TRY(node.call, parse_call_arguments());
  return finish(node);
}

// NAME or NAME(arguments), after the |.
Parser::NodeResult Parser::parse_one_filter(const Node* value) {
  Node& node = make(NodeKind::filter, current().line);
  node.a = value;
  TAMIS_TRY(node.text, expect_any_name());
  while (skip_op(".")) {
    TAMIS_TRY(const std::string more, expect_any_name());
    node.text += "." + more;
  }
  node.filter = find_filter(node.text);
  if (node.filter == nullptr && !is_soft_)
    unknown_.push_back({node.line, fmt::format("No filter named '{}'", escape_for_display(node.text))});
  if (is_op("(")) {
    TAMIS_TRY(node.call, parse_call_arguments());
  }
  return finish(node);
}

Parser::NodeResult Parser::parse_filter_chain(const Node* value) {
  while (skip_op("|")) {
    TAMIS_TRY(value, parse_one_filter(value));
  }
  return value;
}

Parser::NodeResult Parser::parse_test(const Node* value) {
  Node& node = make(NodeKind::test, current().line);
  node.a = value;
  advance();  // is
  const bool is_negated = skip_name("not");
  TAMIS_TRY(node.text, expect_any_name());
  while (skip_op(".")) {
    TAMIS_TRY(const std::string more, expect_any_name());
    node.text += "." + more;
  }
  node.test = find_test(node.text);
  if (node.test == nullptr && !is_soft_)
    unknown_.push_back({node.line, fmt::format("No test named '{}'", escape_for_display(node.text))});
  const TokenKind kind = current().kind;
  if (is_op("(")) {
    TAMIS_TRY(node.call, parse_call_arguments());
  } else if ((kind == TokenKind::name || kind == TokenKind::string || kind == TokenKind::integer ||
              kind == TokenKind::real || is_op("[") || is_op("{")) &&
             !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) return syntax_error(node.line, "You cannot chain multiple tests with is");
    const Depth depth(*this);
    TAMIS_TRY_STATUS(depth.check());
    Call& call = program_.calls.emplace_back();
    TAMIS_TRY(const Node* primary, parse_primary());
    TAMIS_TRY(const Node* argument, parse_postfix(primary));
    call.positional.push_back(argument);
    node.call = &call;
  }
  if (!is_negated) return finish(node);
  TAMIS_TRY(const Node* test, finish(node));
  Node& negation = make(NodeKind::logical_not, node.line);
  negation.a = test;
  return finish(negation);
}

}  // namespace tamis::jinja
