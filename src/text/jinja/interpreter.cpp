// Statements: the walk over a template's body, its scopes and loops.
#include "text/jinja/interpreter.h"

#include <algorithm>

#include "base/fault.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace tamis::jinja {
namespace {

constexpr uint32_t kMaxDepth = 1200;  // nested statements and expressions of all active calls together
constexpr uint64_t kScopeBytes = 160, kLoopBytes = 256;

}  // namespace

// One level of nesting while alive.
class Interpreter::Level {
 public:
  explicit Level(Interpreter& interpreter) : interpreter_(interpreter) { ++interpreter_.depth_; }
  ~Level() { --interpreter_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Interpreter& interpreter_;
};

// A scope inside `parent` while alive.
class Interpreter::Inner {
 public:
  Inner(Interpreter& interpreter, Scope* parent, const Node* block = nullptr)
      : interpreter_(interpreter), outer_(interpreter.scope_) {
    scope_ = interpreter_.scope_ = interpreter_.new_scope(parent);
    if (block == nullptr) return;
    for (const uint32_t symbol : block->own_names) scope_->names.emplace_back(symbol, Value());
  }
  ~Inner() {
    interpreter_.scope_ = outer_;
    interpreter_.drop_scope(scope_);
  }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;

 private:
  Interpreter& interpreter_;
  Scope *outer_, *scope_;
};

// Output goes to a buffer of its own while alive.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter) : interpreter_(interpreter), outer_(interpreter.out_) {
    interpreter_.out_ = &buffer_;
  }
  ~Capture() {
    interpreter_.out_ = outer_;
    interpreter_.budget_.release(held_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Value take() {
    interpreter_.out_ = outer_;
    held_ = buffer_.bytes.size();
    return interpreter_.string(std::move(buffer_));
  }

 private:
  Interpreter& interpreter_;
  Text* outer_;
  Text buffer_;
  uint64_t held_ = 0;
};

Interpreter::Interpreter(const Program& program, const RenderInput& input)
    : program_(program),
      input_(input),
      literals_(program.n_literals),
      root_(program.symbols.size()),
      root_state_(program.symbols.size(), 0) {}

Interpreter::~Interpreter() = default;

Result<Text> Interpreter::run() {
  budget_.max_live_bytes = UINT64_MAX;
  TAMIS_TRY_STATUS(load_variables());
  budget_.max_live_bytes = budget_.live_bytes + program_.limits.template_memory_bytes + 16 * input_bytes_;
  budget_.steps_left = program_.limits.template_steps + 16 * input_bytes_;
  max_output_bytes_ = 4 * input_bytes_ + program_.limits.template_output_bytes;
  for (const uint32_t symbol : program_.body->own_names) root_state_[symbol] = 1;
  TAMIS_TRY_STATUS(execute_body(*program_.body));
  return std::move(output_);
}

Status Interpreter::load_variables() {
  if (!input_.variables->is_object())
    return fail(ErrorCode::invalid_argument, "template variables: expected an object");
  TAMIS_TRY(variables_, from_json(*input_.variables, 0, false));
  auto& dict = const_cast<DictObject&>(variables_.dict());
  dict.set(string("bos_token"), string(input_.bos_token));
  dict.set(string("eos_token"), string(input_.eos_token));
  return {};
}

// A plain role word ("user") cannot forge anything, and templates build control tokens from it (`<|` + role + `|>`):
// scaffolding.
static bool is_plain_role(std::string_view role) {
  return !role.empty() && role.size() <= 64 && std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

Result<Value> Interpreter::from_json(const Json& json, uint32_t depth, bool is_role) {
  if (depth > program_.limits.json_depth || guard_.is_nearly_full())
    return fail(ErrorCode::invalid_argument, "template variables are nested deeper than {}",
                program_.limits.json_depth);
  input_bytes_ += 8;
  if (json.is_null()) return Value::none();
  if (json.is_bool()) return Value::of(json.as_bool());
  if (json.is_int()) return Value::of(json.as_int());
  if (json.is_uint()) return make_integer_text(budget_, std::to_string(json.as_uint()));
  if (json.is_double()) return Value::of(json.as_double());
  if (json.is_string()) {
    const std::string& text = json.as_string();
    input_bytes_ += text.size();
    return string(is_role && is_plain_role(text) ? Text::plain(text) : Text::from_caller(text));
  }
  if (json.is_array()) {
    std::vector<Value> values;
    for (const Json& member : json.as_array()) {
      TAMIS_TRY(Value value, from_json(member, depth + 1, false));
      values.push_back(std::move(value));
    }
    return make_list(budget_, std::move(values));
  }
  auto* dict = new DictObject(budget_);
  Value out = Value::object(Kind::dict, dict);
  for (const auto& [key, member] : json.as_object()) {
    input_bytes_ += key.size();
    TAMIS_TRY(Value value, from_json(member, depth + 1, key == "role"));
    dict->set(string(Text::from_caller(key)), std::move(value));
  }
  return out;
}

const Value& Interpreter::literal(const Node& node) {
  Value& cached = literals_[node.symbol];
  if (cached.is(Kind::undefined_plain))
    cached = node.kind == NodeKind::literal_integer ? make_integer_text(budget_, node.text)
                                                    : string(std::string_view(node.text));
  return cached;
}

Scope* Interpreter::new_scope(Scope* parent) {
  budget_.hold(kScopeBytes);
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    scope = &scopes_.emplace_back();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

void Interpreter::drop_scope(Scope* scope) {
  if (scope->is_captured) return;
  scope->names.clear();
  free_scopes_.push_back(scope);
  budget_.release(kScopeBytes);
}

Loop* Interpreter::new_loop() {
  budget_.hold(kLoopBytes);
  if (free_loops_.empty()) return &loops_.emplace_back();
  Loop* loop = free_loops_.back();
  free_loops_.pop_back();
  return loop;
}

void Interpreter::drop_loop(Loop* loop) {
  if (loop->is_escaped) return;
  *loop = Loop{};
  free_loops_.push_back(loop);
  budget_.release(kLoopBytes);
}

void Interpreter::set_name(uint32_t symbol, Value value) {
  if (scope_ == nullptr) {
    root_[symbol] = std::move(value);
    root_state_[symbol] = 1;
    return;
  }
  for (auto& [name, old] : scope_->names) {
    if (name != symbol) continue;
    old = std::move(value);
    return;
  }
  scope_->names.emplace_back(symbol, std::move(value));
}

const Value& Interpreter::find_name(uint32_t symbol) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent)
    for (const auto& [name, value] : scope->names)
      if (name == symbol) return value;
  return resolve_root(symbol);
}

const Value& Interpreter::resolve_root(uint32_t symbol) {
  if (root_state_[symbol] != 0) return root_[symbol];
  const std::string& name = program_.symbols[symbol];
  if (const Value* value = variables_.dict().find(name)) {
    root_[symbol] = *value;
  } else if (const FunctionRow* function = find_global(name)) {
    root_[symbol] = Value::borrowed(Kind::function, function);
  } else {
    root_[symbol] = undefined(fmt::format("'{}' is undefined", name));
  }
  root_state_[symbol] = 1;
  return root_[symbol];
}

Result<Interpreter::Flow> Interpreter::execute_body(const Node& block) {
  for (const Node* node : block.items) {
    TAMIS_TRY(const Flow flow, execute(*node));
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute_in_scope(const Node& block) {
  const Inner inner(*this, scope_, &block);
  return execute_body(block);
}

// Names the line of an error that has none yet.
Result<Interpreter::Flow> Interpreter::execute(const Node& node) {
  Result<Flow> flow = execute_at(node);
  if (flow || flow.error().site) return flow;
  ErrorSite site;
  site.section = "template";
  site.index = node.line;
  site.tag = "E_RENDER";
  Error error = std::move(flow).error();
  error.message = fmt::format("template line {}: {}", node.line, error.message);
  error.site = std::make_shared<const ErrorSite>(std::move(site));
  return tl::unexpected<Error>(std::move(error));
}

Result<Interpreter::Flow> Interpreter::execute_at(const Node& node) {
  const Level level(*this);
  TAMIS_TRY_STATUS(budget_.spend(1));
  if (depth_ > kMaxDepth || guard_.is_nearly_full()) return fail(ErrorCode::invalid_argument, "recursion is too deep");
  switch (node.kind) {
    case NodeKind::data: TAMIS_TRY_STATUS(emit(literal(node).text())); return Flow::normal;
    case NodeKind::output: TAMIS_TRY_STATUS(output(node)); return Flow::normal;
    case NodeKind::if_: return execute_if(node);
    case NodeKind::for_: return execute_for(node);
    case NodeKind::macro: set_name(node.symbol, new_macro(*node.macro)); return Flow::normal;
    case NodeKind::call_block: TAMIS_TRY_STATUS(execute_call_block(node)); return Flow::normal;
    case NodeKind::filter_block:
    case NodeKind::set_block: return execute_capture(node);
    case NodeKind::set: TAMIS_TRY_STATUS(execute_set(node)); return Flow::normal;
    case NodeKind::with: return execute_with(node);
    case NodeKind::scope: return execute_in_scope(*node.body);
    case NodeKind::break_: return Flow::break_;
    case NodeKind::continue_: return Flow::continue_;
    default: return fail(ErrorCode::internal, "statement expected");
  }
}

Status Interpreter::output(const Node& node) {
  for (const Node* item : node.items) {
    TAMIS_TRY(const Value value, evaluate(*item));
    TAMIS_TRY_STATUS(emit_value(value));
  }
  return {};
}

Status Interpreter::emit_value(const Value& value) {
  if (value.is_string()) return emit(value.text());
  TAMIS_TRY(const Text text, to_text(*this, value));
  return emit(text);
}

Status Interpreter::emit(const Text& text) {
  TAMIS_TRY_STATUS(budget_.spend_bytes(text.bytes.size()));
  const uint64_t n_bytes = text.bytes.size(), n_out = out_->bytes.size();
  if (TAMIS_CHECKED(15, n_bytes > max_output_bytes_ || n_out > max_output_bytes_ - n_bytes))
    return fail(ErrorCode::invalid_argument, "the template's output passes {} bytes", max_output_bytes_);
  budget_.hold(text.bytes.size());
  out_->append(text);
  return {};
}

Result<Interpreter::Flow> Interpreter::execute_if(const Node& node) {
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    TAMIS_TRY(const Value test, evaluate(*node.items[i]));
    if (is_true(test)) return execute_body(*node.items[i + 1]);
  }
  return node.c == nullptr ? Flow::normal : execute_body(*node.c);
}

Result<Interpreter::Flow> Interpreter::execute_for(const Node& node) {
  TAMIS_TRY(const Value iterable, evaluate(*node.b));
  return run_loop(node, iterable, 0);
}

Result<Interpreter::Flow> Interpreter::run_loop(const Node& node, const Value& iterable, int64_t depth0) {
  TAMIS_TRY(Sequence all, sequence(iterable));
  if (node.c != nullptr) {
    TAMIS_TRY(all, filter_items(node, std::move(all)));
  }
  Loop* loop = new_loop();
  loop->items = std::move(all);
  loop->depth0 = depth0;
  loop->scope = scope_;
  loop->recursive = node.is_recursive ? &node : nullptr;
  bool ran_whole_body = false;
  Result<Flow> flow = loop_passes(node, *loop, ran_whole_body);
  drop_loop(loop);
  if (!flow) return flow;
  // As in jinja2, else runs unless one pass came to the end of the body.
  if (node.else_body != nullptr && !ran_whole_body) return execute_in_scope(*node.else_body);
  return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::loop_passes(const Node& node, Loop& loop, bool& ran_whole_body) {
  const auto loop_symbol = program_.symbol_ids.find("loop");
  for (loop.index0 = 0; loop.index0 < loop.items.n; ++loop.index0) {
    TAMIS_TRY_STATUS(budget_.spend(1));
    const Inner inner(*this, scope_, node.body);
    if (node.uses_loop && loop_symbol != program_.symbol_ids.end())
      scope_->names.emplace_back(loop_symbol->second, Value::borrowed(Kind::loop, &loop));
    TAMIS_TRY_STATUS(assign(*node.a, loop.items.item(budget_, loop.index0)));
    TAMIS_TRY(const Flow flow, execute_body(*node.body));
    if (scope_->is_captured) loop.is_escaped = true;
    if (flow == Flow::normal) ran_whole_body = true;
    if (flow == Flow::break_) break;
  }
  return Flow::normal;
}

// The items that pass a for statement's `if`.
Result<Sequence> Interpreter::filter_items(const Node& node, Sequence all) {
  std::vector<Value> kept;
  for (int64_t i = 0; i < all.n; ++i) {
    TAMIS_TRY_STATUS(budget_.spend(1));
    const Inner inner(*this, scope_);
    Value value = all.item(budget_, i);
    TAMIS_TRY_STATUS(assign(*node.a, value));
    TAMIS_TRY(const Value test, evaluate(*node.c));
    if (is_true(test)) kept.push_back(std::move(value));
  }
  TAMIS_TRY(const Value list, make_list(budget_, std::move(kept)));
  return sequence(list);
}

Result<Value> Interpreter::call_loop(Loop& loop, const Value& iterable) {
  if (loop.recursive == nullptr)
    return type_error("The loop must have the 'recursive' marker to be called recursively.");
  if (call_depth_ >= program_.limits.template_call_depth)
    return fail(ErrorCode::invalid_argument, "calls are nested deeper than {}", program_.limits.template_call_depth);
  ++call_depth_;
  Capture capture(*this);
  Scope* const outer = std::exchange(scope_, loop.scope);
  const Node& node = *loop.recursive;
  const auto flow = run_loop(node, iterable, loop.depth0 + 1);
  scope_ = outer;
  --call_depth_;
  if (!flow) return tl::unexpected<Error>(flow.error());
  return capture.take();
}

Result<Value> Interpreter::run_macro(const Macro& macro, const Arguments& args) {
  if (call_depth_ >= program_.limits.template_call_depth)
    return fail(ErrorCode::invalid_argument, "calls are nested deeper than {}", program_.limits.template_call_depth);
  TAMIS_TRY_STATUS(budget_.spend(1));
  ++call_depth_;
  Result<Value> result = run_macro_body(macro, args);
  --call_depth_;
  return result;
}

Result<Value> Interpreter::run_macro_body(const Macro& macro, const Arguments& args) {
  const Inner inner(*this, macro.scope, macro.spec->body);
  TAMIS_TRY_STATUS(bind_parameters(*macro.spec, args));
  Capture capture(*this);
  TAMIS_TRY_STATUS(execute_body(*macro.spec->body));
  return capture.take();
}

Status Interpreter::execute_set(const Node& node) {
  TAMIS_TRY(const Value value, evaluate(*node.b));
  return assign(*node.a, value);
}

// {% set x %}…{% endset %} and {% filter f %}…{% endfilter %}.
Result<Interpreter::Flow> Interpreter::execute_capture(const Node& node) {
  Value value;
  {
    Capture capture(*this);
    TAMIS_TRY(const Flow flow, execute_in_scope(*node.body));
    if (flow != Flow::normal) return flow;
    value = capture.take();
  }
  const Node* filters = node.kind == NodeKind::set_block ? node.b : node.a;
  if (filters != nullptr) {
    TAMIS_TRY(value, apply_filters(*filters, value));
  }
  if (node.kind == NodeKind::filter_block && !value.is_string())
    return type_error(fmt::format("a filter block must give a str, not {}", type_name(value)));
  const Status done = node.kind == NodeKind::set_block ? assign(*node.a, value) : emit_value(value);
  if (!done) return tl::unexpected<Error>(done.error());
  return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute_with(const Node& node) {
  std::vector<Value> values;
  for (size_t i = 1; i < node.items.size(); i += 2) {
    TAMIS_TRY(Value value, evaluate(*node.items[i]));
    values.push_back(std::move(value));
  }
  const Inner inner(*this, scope_, node.body);
  for (size_t i = 0; i < values.size(); ++i) TAMIS_TRY_STATUS(assign(*node.items[2 * i], values[i]));
  return execute_body(*node.body);
}

Status Interpreter::execute_call_block(const Node& node) {
  const Value caller = new_macro(*node.macro);
  TAMIS_TRY(const Value value, evaluate_call(*node.a, &caller));
  return emit_value(value);
}

Status Interpreter::assign(const Node& target, const Value& value) {
  switch (target.kind) {
    case NodeKind::target_name: set_name(target.symbol, value); return {};
    case NodeKind::target_attribute: {
      const Value& holder = find_name(target.symbol);
      if (!holder.is(Kind::name_space)) return type_error("cannot assign attribute on non-namespace object");
      auto& dict = const_cast<DictObject&>(holder.thing<Namespace>().dict.dict());
      dict.set(string(std::string_view(target.text)), value);
      return {};
    }
    default: break;
  }
  TAMIS_TRY(const std::vector<Value> parts, items(value));
  if (parts.size() != target.items.size())
    return fail(ErrorCode::invalid_argument, "cannot unpack {} values into {} names", parts.size(),
                target.items.size());
  for (size_t i = 0; i < parts.size(); ++i) TAMIS_TRY_STATUS(assign(*target.items[i], parts[i]));
  return {};
}

}  // namespace tamis::jinja
