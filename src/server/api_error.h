// The one error schema of every API: a superset of what OpenAI's and Anthropic's clients read. Texts come from a closed
// set of ours or from checks of the request: no path, no address, nothing of a foreign exception.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/scheduler.h"
#include "server/http.h"

namespace tamis::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;               // the field it is about: "messages[2].content"; "" when none
  std::string code;                // "context_length_exceeded"; "" when none
  double retry_after_seconds = 0;  // > 0: a Retry-After header
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;

// An error without a field. A 503 asks to come back after a second.
ApiError plain_error(int status, std::string_view message);
tl::unexpected<ApiError> refused(int status, std::string_view message);

// `return refuse("temperature", "got 3, expected 0 … 2");`: 400 about a field.
tl::unexpected<ApiError> refuse(std::string param, std::string_view why);

// 404 about the field "model". Says no more than the client did.
ApiError unknown_model(std::string_view name);

// What an error of the library is to a client: 400, 404, 503, or 500 without its text, which is logged instead.
ApiError from_error(const Error& error);
ApiError from_failure(const RequestFailure& failure);

// {"type":"error","error":{"message":…,"type":…,"param":…,"code":…}}
Response error_response(const ApiError& error);
std::string error_json(const ApiError& error);

}  // namespace tamis::server

// As TAMIS_TRY, for ApiResult.
#define TAMIS_API_TRY(decl, expr) TAMIS_API_TRY_(TAMIS_CONCAT(tamis_result_, __COUNTER__), decl, expr)
#define TAMIS_API_TRY_(tmp, decl, expr)                                         \
  auto tmp = (expr);                                                            \
  if (!tmp) [[unlikely]]                                                        \
    return ::tl::unexpected<::tamis::server::ApiError>(std::move(tmp).error()); \
  decl = std::move(tmp).value()
#define TAMIS_API_TRY_STATUS(expr) TAMIS_API_TRY_STATUS_(TAMIS_CONCAT(tamis_status_, __COUNTER__), expr)
#define TAMIS_API_TRY_STATUS_(tmp, expr)    \
  if (auto tmp = (expr); !tmp) [[unlikely]] \
  return ::tl::unexpected<::tamis::server::ApiError>(std::move(tmp).error())
