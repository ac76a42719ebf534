// The API's own description, as OpenAPI 3.1: made from the table of routes and from what the parsers of requests ask
// for while they are watched, so that it says what the server does. Beside the routes.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "formats/json.h"
#include "server/generation_call.h"

namespace tamis::server {

struct ApiOperation {
  std::string_view method, path;  // a path may end in "{name}"
  std::string_view about;
  std::string_view answer_type;  // media type of the whole answer, "application/json" mostly
  std::string_view stream_type;  // of a streamed one; "": there is none
  bool is_public = false;        // no key is asked for
  std::string_view parameters;   // of path and query, a JSON array of OpenAPI's; "": none
  // Reads a body as the route does; empty: the route has no body.
  std::function<void(const Json& body, const CallLimits& limits)> read;
};

// `limits`: bounds depend on the model. `asks_for_key`: requests need one.
Json describe_api(std::span<const ApiOperation> operations, const CallLimits& limits, std::string_view version,
                  bool asks_for_key);

}  // namespace tamis::server
