// Python's operators on template values.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace tamis::jinja {

class Interpreter;

// a OP b for the arithmetic node kinds. Errors: types, division by zero, results past 64 bits, budgets.
Result<Value> arithmetic(Interpreter& interpreter, NodeKind op, const Value& a, const Value& b);
Result<Value> negated(const Value& value);
Result<bool> contains(Interpreter& interpreter, const Value& container, const Value& item);  // item in container
Result<bool> compare(Interpreter& interpreter, CompareOp op, const Value& a, const Value& b);

struct SliceBounds {
  int64_t begin, n, step;  // n items: begin, begin + step, …
  int64_t end;             // the bound itself, past the last item
};
// Python's slice.indices for a sequence of `length`; null = absent. Errors: not integers, step 0.
Result<SliceBounds> slice_bounds(int64_t length, const Value* start, const Value* stop, const Value* step);
Result<Value> slice(Interpreter& interpreter, const Value& sequence, const Value* start, const Value* stop,
                    const Value* step);

Result<int64_t> floor_divide(int64_t a, int64_t b);
Result<int64_t> floor_modulo(int64_t a, int64_t b);
double float_modulo(double a, double b);

}  // namespace tamis::jinja
