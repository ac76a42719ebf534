// Errors as clients see them.
#include "server/api_error.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "formats/json.h"

namespace tamis::server {
namespace {

// OpenAI's names of kinds of error, by status.
std::string_view type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 501: return "not_implemented_error";
    case 503: return "overloaded_error";
    case 507: return "storage_error";
    default: return "invalid_request_error";
  }
}

}  // namespace

ApiError plain_error(int status, std::string_view message) {
  ApiError error;
  error.status = status;
  error.message = message;
  if (status == 503) error.retry_after_seconds = 1;
  return error;
}

tl::unexpected<ApiError> refused(int status, std::string_view message) {
  return tl::unexpected<ApiError>(plain_error(status, message));
}

tl::unexpected<ApiError> refuse(std::string param, std::string_view why) {
  ApiError error;
  error.message = param.empty() ? std::string(why) : fmt::format("{}: {}", param, why);
  error.param = std::move(param);
  return tl::unexpected<ApiError>(std::move(error));
}

ApiError unknown_model(std::string_view name) {
  ApiError error = plain_error(404, fmt::format("model: \"{}\" is not served here", escape_for_display(name)));
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

ApiError from_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported: return plain_error(400, error.message);
    case ErrorCode::not_found: return plain_error(404, error.message);
    case ErrorCode::out_of_memory: return plain_error(503, "not enough memory for this request");
    case ErrorCode::cancelled: return plain_error(503, "the request was stopped");
    default: break;
  }
  log_warning("a request failed: {}", error.to_string());
  return plain_error(500, "internal error");
}

ApiError from_failure(const RequestFailure& failure) {
  if (!failure.is_busy) return from_error(failure.error);
  ApiError out = plain_error(failure.is_greedy ? 429 : 503, failure.error.message);
  out.retry_after_seconds = std::max(1.0, failure.retry_after_seconds);
  return out;
}

std::string error_json(const ApiError& error) {
  Json details = Json::object();
  details.set("message", error.message).set("type", type_of(error.status));
  details.set("param", error.param.empty() ? Json() : Json(error.param));
  details.set("code", error.code.empty() ? Json() : Json(error.code));
  Json out = Json::object();
  return out.set("type", "error").set("error", std::move(details)).dump();
}

Response error_response(const ApiError& error) {
  Response response;
  response.status = error.status;
  response.body = error_json(error) + "\n";
  if (error.retry_after_seconds > 0)
    response.headers.emplace_back("retry-after", fmt::format("{:.0f}", std::ceil(error.retry_after_seconds)));
  if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  return response;
}

}  // namespace tamis::server
