// Whether a sanitizer watches: tests that do one thing for many seeds, in one thread, take fewer of
// them then. The address sanitizer makes such a test four times slower, the thread sanitizer twenty
// times, and neither finds more in the last seeds than in the first.
#pragma once

#include <cstdint>

namespace ramcloud::testing {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#if __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
inline constexpr bool kAddressSanitizer = false;
#endif

/// So many of `all` seeds: a tenth with the thread sanitizer, but two at least.
constexpr uint64_t seeds(uint64_t all) {
  return !kThreadSanitizer ? all : all / 10 > 2 ? all / 10 : 2;
}

}  // namespace ramcloud::testing
