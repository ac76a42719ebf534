// How tamis reports failure: Result<T> is a value or an Error (code, message, place in a file). Nothing in tamis
// throws, except std::bad_alloc where the caller's own memory runs out.
#pragma once

#include "base/result.h"  // Error, ErrorCode, Result, Status, exit_code, error_code_name
