// Bounds of the current thread's stack, from the C library.
#include "text/jinja/stack_guard.h"

#include <pthread.h>

#include <cstddef>

namespace tamis::jinja {
namespace {

// What one step between two checks, and the error that follows, may need. Sanitizers fatten frames several times over.
#if defined(__SANITIZE_ADDRESS__)
constexpr uintptr_t kReserveBytes = 96 << 10;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr uintptr_t kReserveBytes = 96 << 10;
#else
constexpr uintptr_t kReserveBytes = 40 << 10;
#endif
#else
constexpr uintptr_t kReserveBytes = 40 << 10;
#endif

uintptr_t stack_bottom() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* bottom = nullptr;
  size_t size_bytes = 0;
  const int failed = pthread_attr_getstack(&attributes, &bottom, &size_bytes);
  pthread_attr_destroy(&attributes);
  return failed == 0 ? reinterpret_cast<uintptr_t>(bottom) : 0;
}

}  // namespace

StackGuard::StackGuard() {
  thread_local const uintptr_t bottom = stack_bottom();
  floor_ = bottom == 0 ? 0 : bottom + kReserveBytes;
}

}  // namespace tamis::jinja
