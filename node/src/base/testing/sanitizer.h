// Whether a sanitizer is used: tests with many seeds then try fewer of them. A sanitizer makes such
// a test at least four times slower, and finds no more in the last seeds than in the first. Without
// a sanitizer all seeds are tried.
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

/// The number of seeds to try of `all`: a quarter with a sanitizer, at least two.
constexpr uint64_t seeds(uint64_t all) {
  return !kSanitized ? all : all / 4 > 2 ? all / 4 : 2;
}

}  // namespace ramcloud::testing
