// The parsed template. Nodes live in the Program's arena and point at each other plainly; nothing is freed one by one,
// so no shape of template can exhaust the stack in a destructor.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/result.h"

namespace tamis::jinja {

struct FilterRow;
struct TestRow;

enum class NodeKind : uint8_t {
  // expressions
  literal_string,
  literal_integer,
  literal_real,
  literal_true,
  literal_false,
  literal_none,
  name,  // symbol
  list,
  tuple,      // items
  dict,       // items: key, value, key, value …
  attribute,  // a . text
  subscript,  // a [ b ]
  slice,      // a [ items[0] : items[1] : items[2] ], null where absent
  call,       // a ( call )
  filter,     // a | filter ( call ); a is null in filter blocks
  test,       // a is test ( call )
  negate,
  plus,
  logical_not,  // a
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,  // a, b
  concatenate,
  logical_and,
  logical_or,   // items
  compare,      // items: operands; compare_ops between them
  conditional,  // a if b else c (c may be null)
  // statements
  data,          // text
  output,        // items
  block,         // items: statements in a row (a body)
  if_,           // items: test, body, test, body …; c: else body or null
  for_,          // target a, iterable b, filter c (or null), body, else_body
  macro,         // symbol, macro
  call_block,    // a: call expression, macro
  filter_block,  // a: filter chain, body
  set,           // target a, value b
  set_block,     // target a, filter chain b (or null), body
  with,          // items: target, value, …; body
  scope,         // body
  break_,
  continue_,
  // targets
  target_name,       // symbol
  target_attribute,  // symbol . text
  target_tuple,      // items
};

enum class CompareOp : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Node;

struct Call {
  std::vector<const Node*> positional;
  std::vector<std::pair<std::string, const Node*>> keywords;
  const Node* star = nullptr;       // *args
  const Node* star_star = nullptr;  // **kwargs
};

struct MacroSpec {
  std::string name;
  std::vector<uint32_t> parameters;  // symbols
  std::vector<std::string> parameter_names;
  std::vector<const Node*> defaults;  // of the last defaults.size() parameters
  const Node* body = nullptr;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Node {
  NodeKind kind;
  bool is_recursive = false;  // for_
  bool uses_loop = false;     // for_: the body mentions `loop`
  uint32_t line = 0;
  uint32_t height = 1;  // levels of nodes under and with this one
  uint32_t symbol = 0;  // name, target_name, macro; index of literals
  const Node *a = nullptr, *b = nullptr, *c = nullptr;
  const Node *body = nullptr, *else_body = nullptr;
  std::vector<const Node*> items;
  std::vector<CompareOp> compare_ops;
  std::vector<uint32_t> own_names;  // block: symbols undefined when it begins (symbols.h)
  std::string text;
  double real = 0;
  const FilterRow* filter = nullptr;  // null: unknown, an error when evaluated
  const TestRow* test = nullptr;
  const Call* call = nullptr;
  const MacroSpec* macro = nullptr;
};

// A parsed template; immutable and shared between threads.
struct Program {
  std::deque<Node> nodes;
  std::deque<Call> calls;
  std::deque<MacroSpec> macros;
  std::vector<std::string> symbols;
  std::unordered_map<std::string, uint32_t> symbol_ids;
  const Node* body = nullptr;
  uint32_t n_literals = 0;  // literal strings and integers, cached as values by each rendering
  Limits limits;

  uint32_t intern(std::string_view name);
};

// Errors: format, naming the line; template longer than limits.template_bytes, deeper than limits.template_parse_depth,
// unknown tags, filters and tests; extends, include, import and from by name.
Result<Program> parse_program(std::string_view source, const Limits& limits);

}  // namespace tamis::jinja
