// Runs a parsed template over the caller's variables. One object renders once, on one thread.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/stack_guard.h"
#include "text/jinja/value.h"

namespace tamis::jinja {

// What a template sees. Strings in `variables` are the caller's (content); the named tokens are scaffolding.
struct RenderInput {
  const Json* variables = nullptr;  // an object
  std::string_view bos_token, eos_token;
  std::string_view clock;  // "2031-02-03T04:05:06", or "" for local time now
};

// Names of one body. The root scope is Interpreter::root_.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<uint32_t, Value>> names;
  bool is_captured = false;  // a macro refers to it: it lives to the end
};

struct Macro {
  const MacroSpec* spec;
  Scope* scope;  // where it was defined
};

struct Namespace {
  Value dict;  // replaced as a whole never; members are set in place
};

// Items of an iterable, by index.
struct Sequence {
  Value holder;
  int64_t n = 0;
  Value item(Budget& budget, int64_t i) const;
};

struct Loop {
  Sequence items;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  const Node* recursive = nullptr;  // the for statement when it may call itself
  Scope* scope = nullptr;           // around the statement
  std::optional<std::vector<Value>> last_changed;
  bool is_escaped = false;  // someone holds it beyond its statement
};

struct Cycler {
  std::vector<Value> items;
  size_t position = 0;
};

struct Joiner {
  Value separator;
  bool is_used = false;
};

class Interpreter {
 public:
  Interpreter(const Program& program, const RenderInput& input);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // The rendered prompt with its provenance. Errors: invalid_argument, naming the line.
  Result<Text> run();

  // For the builtins.
  Budget& budget() { return budget_; }
  std::string_view clock() const { return input_.clock; }
  Value string(Text text) { return make_string(budget_, std::move(text)); }
  Value string(std::string_view text) { return make_string(budget_, text); }
  Value undefined(std::string message) { return make_undefined(budget_, std::move(message)); }
  Result<Value> call(const Value& callee, const Arguments& args);
  Result<Value> attribute(const Value& object, std::string_view name);  // object.name
  Result<Value> item(const Value& object, const Value& key);            // object[key]
  Result<Sequence> sequence(const Value& iterable);                     // what a for loop sees; uses generators up
  Result<std::vector<Value>> items(const Value& iterable);
  Value undefined_member(const Value& object, const Value& key);
  Value new_namespace(Value dict);
  Value new_cycler(std::vector<Value> items);
  Value new_joiner(Value separator);
  Result<Value> call_loop(Loop& loop, const Value& iterable);
  bool is_stack_low() const { return guard_.is_nearly_full(); }

 private:
  enum class Flow : uint8_t { normal, break_, continue_ };
  class Level;
  class Inner;
  class Capture;

  Status load_variables();
  Result<Value> from_json(const Json& json, uint32_t depth, bool is_role);
  const Value& literal(const Node& node);

  // Statements (interpreter.cpp).
  Result<Flow> execute(const Node& node);
  Result<Flow> execute_at(const Node& node);
  Result<Flow> execute_body(const Node& block);
  Result<Flow> execute_in_scope(const Node& block);
  Result<Flow> execute_if(const Node& node);
  Result<Flow> execute_for(const Node& node);
  Result<Flow> run_loop(const Node& node, const Value& iterable, int64_t depth0);
  Result<Flow> loop_passes(const Node& node, Loop& loop, bool& ran_whole_body);
  Result<Sequence> filter_items(const Node& node, Sequence all);
  Status execute_set(const Node& node);
  Result<Flow> execute_capture(const Node& node);
  Result<Flow> execute_with(const Node& node);
  Status execute_call_block(const Node& node);
  Status output(const Node& node);
  Status emit(const Text& text);
  Status emit_value(const Value& value);
  Status assign(const Node& target, const Value& value);
  Value new_macro(const MacroSpec& spec);
  Result<Value> run_macro(const Macro& macro, const Arguments& args);
  Result<Value> run_macro_body(const Macro& macro, const Arguments& args);
  Status bind_parameters(const MacroSpec& spec, const Arguments& args);

  // Names.
  void set_name(uint32_t symbol, Value value);
  const Value& find_name(uint32_t symbol);
  const Value& resolve_root(uint32_t symbol);
  Scope* new_scope(Scope* parent);
  void drop_scope(Scope* scope);
  Loop* new_loop();
  void drop_loop(Loop* loop);

  // Expressions (evaluate.cpp).
  Result<Value> evaluate(const Node& node);
  Result<Value> evaluate_unchecked(const Node& node);
  Result<Value> evaluate_object(const Node& node);  // of an attribute or call: a loop found by name does not escape
  Result<std::vector<Value>> evaluate_all(const std::vector<const Node*>& nodes);
  Result<Value> evaluate_dict(const Node& node);
  Result<Value> evaluate_logical(const Node& node);
  Result<Value> evaluate_compare(const Node& node);
  Result<Value> evaluate_binary(const Node& node);
  Result<Value> evaluate_unary(const Node& node);
  Result<Value> evaluate_concatenation(const Node& node);
  Result<Value> evaluate_conditional(const Node& node);
  Result<Value> evaluate_slice(const Node& node);
  Result<Value> evaluate_subscript(const Node& node);
  Result<Value> evaluate_call(const Node& node, const Value* caller);
  Result<Value> evaluate_filter(const Node& node, const Value* subject);
  Result<Value> apply_filters(const Node& node, const Value& subject);
  Result<Value> evaluate_test(const Node& node);
  Result<Arguments> evaluate_arguments(const Call* call);
  Result<Value> special_attribute(const Value& object, std::string_view name, bool& found);

  Budget budget_;  // first: values charge it until they die
  const Program& program_;
  RenderInput input_;
  StackGuard guard_;
  std::vector<Value> literals_;
  std::vector<Value> root_;
  std::vector<uint8_t> root_state_;  // 0 not looked up yet, 1 a value, 2 undefined
  Value variables_;                  // dict
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  std::deque<Loop> loops_;
  std::vector<Loop*> free_loops_;
  std::deque<Macro> macros_;
  std::deque<Namespace> namespaces_;
  std::deque<Cycler> cyclers_;
  std::deque<Joiner> joiners_;
  Scope* scope_ = nullptr;  // null: root
  Text output_;
  Text* out_ = &output_;
  uint64_t max_output_bytes_ = 0;
  uint64_t input_bytes_ = 0;
  uint32_t depth_ = 0;
  uint32_t call_depth_ = 0;
};

}  // namespace tamis::jinja
