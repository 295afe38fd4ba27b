// Whether a sanitizer watches: tests that do one thing for many seeds take fewer of them then. It
// makes such a test four times slower and more, and finds no more in the last seeds than in the
// first; all of them are tried without one.
#pragma once

#include <cstdint>

namespace ramcloud::testing {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

/// So many of `all` seeds: a quarter with a sanitizer, but two at least.
constexpr uint64_t seeds(uint64_t all) {
  return !kSanitized ? all : all / 4 > 2 ? all / 4 : 2;
}

}  // namespace ramcloud::testing
