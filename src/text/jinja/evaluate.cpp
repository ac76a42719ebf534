// Expressions: the walk from a node to its value.
#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace tamis::jinja {

Result<Value> Interpreter::evaluate(const Node& node) {
  // The cheap leaves need no guard.
  switch (node.kind) {
    case NodeKind::literal_string:
    case NodeKind::literal_integer: return literal(node);
    case NodeKind::literal_real: return Value::of(node.real);
    case NodeKind::literal_true: return Value::of(true);
    case NodeKind::literal_false: return Value::of(false);
    case NodeKind::literal_none: return Value::none();
    case NodeKind::name: {
      const Value& value = find_name(node.symbol);
      if (value.is(Kind::loop)) value.thing<Loop>().is_escaped = true;
      return value;
    }
    default: break;
  }
  TAMIS_TRY_STATUS(budget_.spend(1));
  if (budget_.is_spent) return fail(ErrorCode::invalid_argument, "the template builds too much data (memory budget)");
  ++depth_;
  Result<Value> value = depth_ > 1200 || guard_.is_nearly_full()
                            ? Result<Value>(fail(ErrorCode::invalid_argument, "recursion is too deep"))
                            : evaluate_unchecked(node);
  --depth_;
  return value;
}

Result<Value> Interpreter::evaluate_unchecked(const Node& node) {
  switch (node.kind) {
    case NodeKind::list:
    case NodeKind::tuple: {
      TAMIS_TRY(std::vector<Value> values, evaluate_all(node.items));
      return node.kind == NodeKind::list ? make_list(budget_, std::move(values))
                                         : make_tuple(budget_, std::move(values));
    }
    case NodeKind::dict: return evaluate_dict(node);
    case NodeKind::attribute: {
      TAMIS_TRY(const Value object, evaluate_object(*node.a));
      return attribute(object, node.text);
    }
    case NodeKind::subscript: return evaluate_subscript(node);
    case NodeKind::slice: return evaluate_slice(node);
    case NodeKind::call: return evaluate_call(node, nullptr);
    case NodeKind::filter: return evaluate_filter(node, nullptr);
    case NodeKind::test: return evaluate_test(node);
    case NodeKind::negate:
    case NodeKind::plus:
    case NodeKind::logical_not: return evaluate_unary(node);
    case NodeKind::concatenate: return evaluate_concatenation(node);
    case NodeKind::logical_and:
    case NodeKind::logical_or: return evaluate_logical(node);
    case NodeKind::compare: return evaluate_compare(node);
    case NodeKind::conditional: return evaluate_conditional(node);
    default: return evaluate_binary(node);
  }
}

Result<Value> Interpreter::evaluate_object(const Node& node) {
  if (node.kind == NodeKind::name) return find_name(node.symbol);
  return evaluate(node);
}

Result<std::vector<Value>> Interpreter::evaluate_all(const std::vector<const Node*>& nodes) {
  std::vector<Value> values;
  values.reserve(nodes.size());
  for (const Node* node : nodes) {
    TAMIS_TRY(Value value, evaluate(*node));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Interpreter::evaluate_dict(const Node& node) {
  std::vector<DictObject::Member> members;
  for (size_t i = 0; i < node.items.size(); i += 2) {
    TAMIS_TRY(Value key, evaluate(*node.items[i]));
    TAMIS_TRY(Value value, evaluate(*node.items[i + 1]));
    members.emplace_back(std::move(key), std::move(value));
  }
  return make_dict(budget_, std::move(members));
}

Result<Value> Interpreter::evaluate_logical(const Node& node) {
  const bool stops_at = node.kind == NodeKind::logical_or;
  Value value;
  for (const Node* item : node.items) {
    TAMIS_TRY(value, evaluate(*item));
    if (is_true(value) == stops_at) break;
  }
  return value;
}

Result<Value> Interpreter::evaluate_compare(const Node& node) {
  TAMIS_TRY(Value left, evaluate(*node.items[0]));
  for (size_t i = 0; i < node.compare_ops.size(); ++i) {
    TAMIS_TRY(Value right, evaluate(*node.items[i + 1]));
    TAMIS_TRY(const bool holds, compare(*this, node.compare_ops[i], left, right));
    if (!holds) return Value::of(false);
    left = std::move(right);
  }
  return Value::of(true);
}

Result<Value> Interpreter::evaluate_binary(const Node& node) {
  TAMIS_TRY(const Value a, evaluate(*node.a));
  TAMIS_TRY(const Value b, evaluate(*node.b));
  return arithmetic(*this, node.kind, a, b);
}

Result<Value> Interpreter::evaluate_unary(const Node& node) {
  TAMIS_TRY(const Value value, evaluate(*node.a));
  if (node.kind == NodeKind::logical_not) return Value::of(!is_true(value));
  if (node.kind == NodeKind::negate) return negated(value);
  TAMIS_TRY_STATUS(negated(value));  // + asks for a number as - does
  return value.is(Kind::boolean) ? Value::of(value.as_int()) : value;
}

Result<Value> Interpreter::evaluate_concatenation(const Node& node) {
  Text out;
  for (const Node* item : node.items) {
    TAMIS_TRY(const Value value, evaluate(*item));
    TAMIS_TRY(const Text text, to_text(*this, value));
    TAMIS_TRY_STATUS(budget_.can_hold(out.bytes.size() + text.bytes.size()));
    TAMIS_TRY_STATUS(budget_.spend_bytes(text.bytes.size()));
    out.append(text);
  }
  return string(std::move(out));
}

Result<Value> Interpreter::evaluate_conditional(const Node& node) {
  TAMIS_TRY(const Value test, evaluate(*node.b));
  if (is_true(test)) return evaluate(*node.a);
  if (node.c != nullptr) return evaluate(*node.c);
  return undefined("the inline if-expression evaluated to false and no else section was defined.");
}

Result<Value> Interpreter::evaluate_slice(const Node& node) {
  TAMIS_TRY(const Value object, evaluate(*node.a));
  Value bounds[3];
  const Value* given[3] = {nullptr, nullptr, nullptr};
  for (size_t i = 0; i < 3; ++i) {
    if (node.items[i] == nullptr) continue;
    TAMIS_TRY(bounds[i], evaluate(*node.items[i]));
    given[i] = &bounds[i];
  }
  return slice(*this, object, given[0], given[1], given[2]);
}

Result<Value> Interpreter::evaluate_subscript(const Node& node) {
  TAMIS_TRY(const Value object, evaluate_object(*node.a));
  TAMIS_TRY(const Value key, evaluate(*node.b));
  return item(object, key);
}

Result<Arguments> Interpreter::evaluate_arguments(const Call* call) {
  Arguments args;
  if (call == nullptr) return args;
  TAMIS_TRY(args.positional, evaluate_all(call->positional));
  if (call->star != nullptr) {
    TAMIS_TRY(const Value star, evaluate(*call->star));
    TAMIS_TRY(const std::vector<Value> more, items(star));
    args.positional.insert(args.positional.end(), more.begin(), more.end());
  }
  for (const auto& [name, node] : call->keywords) {
    TAMIS_TRY(Value value, evaluate(*node));
    args.keywords.emplace_back(name, std::move(value));
  }
  if (call->star_star != nullptr) {
    TAMIS_TRY(const Value more, evaluate(*call->star_star));
    if (!more.is(Kind::dict)) return type_error("argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict().members) {
      if (!key.is_string()) return type_error("keywords must be strings");
      if (args.keyword(key.bytes()) != nullptr)
        return type_error(fmt::format("multiple values for keyword argument '{}'", key.bytes()));
      args.keywords.emplace_back(key.bytes(), value);
    }
  }
  return args;
}

// `caller` is the macro of a call block.
Result<Value> Interpreter::evaluate_call(const Node& node, const Value* caller) {
  if (node.a->kind == NodeKind::attribute) {  // a method is called without being made a value
    TAMIS_TRY(const Value object, evaluate_object(*node.a->a));
    const Attribute found = find_attribute(object, node.a->text);
    if (found.what == Attribute::What::method && !object.is_undefined()) {
      TAMIS_TRY(const Arguments args, evaluate_arguments(node.call));
      return found.method->run(*this, object, args);
    }
    TAMIS_TRY(const Value callee, attribute(object, node.a->text));
    TAMIS_TRY(Arguments args, evaluate_arguments(node.call));
    if (caller != nullptr) args.keywords.emplace_back("caller", *caller);
    return call(callee, args);
  }
  TAMIS_TRY(const Value callee, evaluate_object(*node.a));
  TAMIS_TRY(Arguments args, evaluate_arguments(node.call));
  if (caller != nullptr) args.keywords.emplace_back("caller", *caller);
  return call(callee, args);
}

// `subject`: what a filter block captured; null when the node has its own.
Result<Value> Interpreter::evaluate_filter(const Node& node, const Value* subject) {
  Value value;
  if (subject != nullptr) {
    value = *subject;
  } else {
    TAMIS_TRY(value, evaluate(*node.a));
  }
  if (node.filter == nullptr) return fail(ErrorCode::invalid_argument, "No filter named '{}' found.", node.text);
  TAMIS_TRY(const Arguments args, evaluate_arguments(node.call));
  return node.filter->run(*this, value, args);
}

// A chain of filters whose innermost has no subject of its own.
Result<Value> Interpreter::apply_filters(const Node& node, const Value& subject) {
  std::vector<const Node*> chain;
  for (const Node* filter = &node; filter != nullptr; filter = filter->a) chain.push_back(filter);
  Value value = subject;
  for (size_t i = chain.size(); i-- > 0;) {
    TAMIS_TRY(value, evaluate_filter(*chain[i], &value));
  }
  return value;
}

Result<Value> Interpreter::evaluate_test(const Node& node) {
  TAMIS_TRY(const Value value, evaluate(*node.a));
  if (node.test == nullptr) return fail(ErrorCode::invalid_argument, "No test named '{}' found.", node.text);
  TAMIS_TRY(const Arguments args, evaluate_arguments(node.call));
  TAMIS_TRY(const bool holds, node.test->run(*this, value, args));
  return Value::of(holds);
}

}  // namespace tamis::jinja
