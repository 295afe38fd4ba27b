#pragma once

#include <atomic>
#include <cstdint>

namespace ramcloud {

/// The number of the calling thread: 0, 1, 2 in the order of first calls. For counters that each
/// thread keeps on its own cache line.
inline uint32_t thread_number() {
  static std::atomic<uint32_t> next{0};
  thread_local const uint32_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace ramcloud
