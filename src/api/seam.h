// The border of the public façade: errors change their type here, and std::bad_alloc ends here.
#pragma once

#include <new>
#include <utility>

#include "base/result.h"
#include "tamis/result.h"

namespace tamis::api {

Error to_public(tamis::Error error);
tamis::Error to_private(Error error);

template <class T>
Result<T> to_public(tamis::Result<T> result) {
  if (!result) return tl::unexpected<Error>(to_public(std::move(result).error()));
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return *std::move(result);
  }
}

template <class T>
tamis::Result<T> to_private(Result<T> result) {
  if (!result) return tl::unexpected<tamis::Error>(to_private(std::move(result).error()));
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return *std::move(result);
  }
}

// fn() of type tamis::Result<T>, as the façade's caller sees it.
template <class Fn>
auto at_seam(Fn&& fn) -> decltype(to_public(fn())) {
  try {
    return to_public(fn());
  } catch (const std::bad_alloc&) {
    return tl::unexpected<Error>(Error{ErrorCode::out_of_memory, "out of memory", nullptr});
  }
}

}  // namespace tamis::api
