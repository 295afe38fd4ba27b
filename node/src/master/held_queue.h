// Held replies in order of arrival, and a sweep over them, a few in each turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/ring_buffer.h"
#include "master/reply.h"

namespace ramcloud::master {

class HeldQueue {
 public:
  bool empty() const { return queue_.empty(); }
  /// Includes replies that an unfinished sweep has dropped.
  size_t size() const { return queue_.size(); }
  Reply& front() { return queue_.front(); }
  Reply& push() { return queue_.push(); }
  /// Removes the front, and the holes after it.
  void pop();

  bool sweeping() const { return sweeping_; }
  void begin_sweep();
  /// Looks at a limited number of replies. `drop` returns true for a reply that must be removed.
  template <typename Drop>
  size_t sweep(size_t most, Drop drop);

 private:
  RingBuffer<Reply> queue_;
  // Replies are numbered as they come. A sweep goes from the newest to the oldest and moves what it
  // keeps towards the newest: places from swept_to_ to kept_from_ are holes. New replies are added
  // at the end during a sweep.
  uint64_t first_ = 0;  // the front's number
  uint64_t swept_to_ = 0;
  uint64_t kept_from_ = 0;
  bool sweeping_ = false;
};

inline void HeldQueue::pop() {
  queue_.pop();
  ++first_;
  while (sweeping_ && first_ >= swept_to_ && first_ < kept_from_) {
    queue_.pop();
    ++first_;
  }
  if (sweeping_ && first_ >= kept_from_) sweeping_ = false;
}

inline void HeldQueue::begin_sweep() {
  if (queue_.empty() || sweeping_) return;
  sweeping_ = true;
  swept_to_ = kept_from_ = first_ + queue_.size();
}

/// Returns how many it looked at.
template <typename Drop>
size_t HeldQueue::sweep(size_t most, Drop drop) {
  if (!sweeping_) return 0;
  size_t looked = 0;
  for (; looked < most && swept_to_ > first_; ++looked) {
    Reply& reply = queue_.at(--swept_to_ - first_);
    if (drop(reply)) continue;
    --kept_from_;
    if (kept_from_ != swept_to_) queue_.at(kept_from_ - first_) = std::move(reply);
  }
  if (swept_to_ > first_) return looked;
  sweeping_ = false;
  for (; first_ < kept_from_; ++first_) queue_.pop();
  return looked;
}

}  // namespace ramcloud::master
