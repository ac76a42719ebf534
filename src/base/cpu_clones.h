// TAMIS_WIDE before a function's definition compiles it for several x86 instruction sets, chosen at program start, so
// that its plain loops run as wide as the machine allows. The clones give the same bits: nothing is contracted or
// reordered (cmake/flags.cmake), so loops that must be fast keep independent lanes in small arrays. For encoders, where
// a kernel per target (src/cpu) is not worth its upkeep. Under sanitizers, whose runtime is not up when the choice is
// made, and on other machines it is the baseline alone.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TAMIS_IS_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAMIS_IS_SANITIZED
#endif

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(TAMIS_IS_SANITIZED)
#define TAMIS_WIDE __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define TAMIS_WIDE
#endif

// A helper of such functions: inlined into each clone, or it would run at the baseline.
#define TAMIS_INLINE [[gnu::always_inline]] inline

namespace tamis {

// `value`, which the compiler then does not know: of the minimum of a vector and a constant g++ 12 makes a comparison
// and a blend, three times as slow as the one instruction.
TAMIS_INLINE float unknown_constant(float value) {
#ifdef __x86_64__
  asm("" : "+x"(value));
#endif
  return value;
}

}  // namespace tamis
