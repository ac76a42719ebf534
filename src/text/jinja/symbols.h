// Which names a body has of its own before its first statement runs. jinja2 decides this while compiling: a name whose
// first use in a body, in the order of the source, is an assignment outside any `if` is that body's own and undefined
// until then, also for the loops and blocks inside it; any other name is looked up outside. Source: the behaviour of
// jinja2 3.1.6 (documented as scoping of `set`).
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "text/jinja/ast.h"

namespace tamis::jinja {

class SymbolTable {
 public:
  struct Body {
    Body* outer = nullptr;
    const Node* block = nullptr;
    uint32_t n_branches = 0;                       // enclosing ifs within this body
    std::unordered_map<uint32_t, bool> is_stored;  // symbol → its first use is such an assignment
  };

  SymbolTable() { open(nullptr); }
  Body& open(Body* outer) {
    Body& body = bodies_.emplace_back();
    body.outer = outer;
    current_ = &body;
    return body;
  }
  Body* current() { return current_; }
  void resume(Body* body) { current_ = body; }
  void load(uint32_t symbol) { current_->is_stored.try_emplace(symbol, false); }
  void store(uint32_t symbol) { current_->is_stored.try_emplace(symbol, current_->n_branches == 0); }

  // Every name of a target: assigned, or given from outside as a parameter is.
  void store(const Node& target) {
    if (target.kind == NodeKind::target_name) store(target.symbol);
    if (target.kind == NodeKind::target_attribute) load(target.symbol);
    for (const Node* item : target.items) store(*item);
  }
  void declare(const Node& target) {
    if (target.kind == NodeKind::target_name) load(target.symbol);
    for (const Node* item : target.items) declare(*item);
  }

  // Writes the names into the blocks, once all is parsed.
  void finish() {
    for (const Body& body : bodies_) {
      if (body.block == nullptr) continue;
      for (const auto& [symbol, is_stored] : body.is_stored) {
        bool is_outside = false;
        for (const Body* outer = body.outer; outer != nullptr && !is_outside; outer = outer->outer)
          is_outside = outer->is_stored.contains(symbol);
        if (is_stored && !is_outside) const_cast<Node*>(body.block)->own_names.push_back(symbol);
      }
    }
  }

 private:
  std::deque<Body> bodies_;
  Body* current_ = nullptr;
};

// A body opened inside the current one, for as long as this lives.
class InnerBody {
 public:
  explicit InnerBody(SymbolTable& symbols)
      : symbols_(symbols), outer_(symbols.current()), body_(symbols.open(outer_)) {}
  ~InnerBody() { symbols_.resume(outer_); }
  InnerBody(const InnerBody&) = delete;
  InnerBody& operator=(const InnerBody&) = delete;
  void pause() { symbols_.resume(outer_); }
  void resume() { symbols_.resume(&body_); }
  void set_block(const Node* block) { body_.block = block; }

 private:
  SymbolTable& symbols_;
  SymbolTable::Body* outer_;
  SymbolTable::Body& body_;
};

}  // namespace tamis::jinja
