// The two error types name the same codes in the same order.
#include "api/seam.h"

namespace tamis::api {

static_assert(static_cast<int>(ErrorCode::io) == static_cast<int>(tamis::ErrorCode::io));
static_assert(static_cast<int>(ErrorCode::network) == static_cast<int>(tamis::ErrorCode::network));
static_assert(static_cast<int>(ErrorCode::internal) == static_cast<int>(tamis::ErrorCode::internal));

Error to_public(tamis::Error error) {
  return {static_cast<ErrorCode>(error.code), std::move(error.message), std::move(error.site)};
}

tamis::Error to_private(Error error) {
  return {static_cast<tamis::ErrorCode>(error.code), std::move(error.message), std::move(error.site)};
}

std::string Error::to_string() const { return to_private(*this).to_string(); }

}  // namespace tamis::api
