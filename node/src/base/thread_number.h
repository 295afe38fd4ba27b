#pragma once

#include <atomic>
#include <cstdint>

namespace ramcloud {

/// Of the calling thread: 0, 1, 2 in the order in which threads first ask. For counts that threads
/// keep on lines of their own.
inline uint32_t thread_number() {
  static std::atomic<uint32_t> next{0};
  thread_local const uint32_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace ramcloud
