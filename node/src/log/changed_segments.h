// Which segments changed so much that the cleaner should look at them again: one bit for each
// segment, set by any thread and taken by one.
//
// Two levels: a bit of `nonzero_` for each word of `bits_` that has bits. A thread that sets the
// first bit of a word sets the word's bit in `nonzero_` afterwards; the taker clears that one
// first. So no bit is forgotten. Either it was set before its word was taken, or it is again the
// first bit of the word.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/atomic.h"

namespace ramcloud::log {

class ChangedSegments {
 public:
  /// Segments have numbers below `capacity`.
  explicit ChangedSegments(uint32_t capacity);
  /// Any thread.
  void mark(uint32_t segment);
  /// How many times mark() set a bit. Any thread.
  uint64_t marks() const { return marks_.load(std::memory_order_acquire); }
  /// Takes about so many segments (up to 63 more), in no order. One thread at a time.
  std::vector<uint32_t> take(uint32_t about);

 private:
  static constexpr uint32_t kBits = 64;
  using Words = std::unique_ptr<Atomic<uint64_t>[]>;
  /// Sets a bit; true if it is the first of its word.
  static bool set(Words& words, uint32_t bit);

  uint32_t nonzero_words_;
  Words bits_;
  Words nonzero_;
  Atomic<uint64_t> marks_{0};
};

}  // namespace ramcloud::log
