// A first-in, first-out queue that allocates only when it grows.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace ramcloud {

template <typename T>
class RingBuffer {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& front() { return slots_[head_]; }
  /// The element at distance `i` from the front.
  T& at(size_t i) { return slots_[(head_ + i) & (slots_.size() - 1)]; }

  /// Adds a slot at the end. It still has the values of its last use, so the caller must set every
  /// field. Valid until the next push.
  T& push() {
    if (size_ == slots_.size()) grow();
    return slots_[(head_ + size_++) & (slots_.size() - 1)];
  }
  void pop() {
    head_ = (head_ + 1) & (slots_.size() - 1);
    --size_;
  }

 private:
  void grow() {
    std::vector<T> larger(slots_.empty() ? 64 : slots_.size() * 2);
    for (size_t i = 0; i < size_; ++i) {
      larger[i] = std::move(slots_[(head_ + i) & (slots_.size() - 1)]);
    }
    slots_ = std::move(larger);
    head_ = 0;
  }
  std::vector<T> slots_;
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace ramcloud
