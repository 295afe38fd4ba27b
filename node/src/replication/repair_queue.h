// Settled segments that lack replicas, in the order in which they are copied. The first reactor's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "replication/segment_replicas.h"

namespace ramcloud {

class RepairQueue {
 public:
  /// `concurrent`: segments that are copied at the same time.
  explicit RepairQueue(uint32_t concurrent) : concurrent_(concurrent) {}

  /// The segment is closed and lacks a replica. Does nothing if it is in the queue already.
  void add(SegmentReplicas& replicas) {
    if (replicas.repairing) return;
    replicas.repairing = true;
    queue_.push_back(&replicas);
  }
  /// Segments for which `first` holds come first from now on. True if there are any. Not during a
  /// pass.
  template <typename First>
  bool hurry(First first) {
    const auto is_first = [&](const SegmentReplicas* replicas) { return first(*replicas); };
    if (std::ranges::none_of(queue_, is_first)) return false;
    if (!std::ranges::is_partitioned(queue_, is_first)) put_first(is_first);
    return true;
  }
  /// The segment is not needed any more. Not during a pass.
  void remove(SegmentReplicas& replicas) {
    if (std::exchange(replicas.repairing, false)) std::erase(queue_, &replicas);
  }
  size_t size() const { return queue_.size(); }

  /// One pass over the first few: segments that are being copied, and the next ones if there is
  /// room. A segment that no backup can take goes to the end of the queue, so that others have
  /// their turn.
  class Pass {
   public:
    explicit Pass(RepairQueue& queue)
        : queue_(queue), looks_(std::min<size_t>(queue.size(), 2 * queue.concurrent_)) {}
    /// The next segment to drive; null at the end of the pass.
    SegmentReplicas* next() {
      if (looked_ == looks_ || in_progress_ == queue_.concurrent_) return nullptr;
      ++looked_;
      return queue_.queue_[in_progress_];
    }
    /// The segment of next() was driven: keeps it, moves it to the end, or removes it. True: it is
    /// repaired.
    bool driven();
    /// Other segments are in the queue, and no copy in flight will make room for them.
    bool others_wait() const {
      return in_progress_ < queue_.concurrent_ && looks_ < queue_.queue_.size();
    }

   private:
    RepairQueue& queue_;
    const size_t looks_;
    size_t looked_ = 0;
    size_t in_progress_ = 0;  // also the index of the next one
  };
  /// Calls `fn` for those that the next pass may look at.
  template <typename Fn>
  void for_next(Fn fn) {
    const size_t looks = std::min<size_t>(queue_.size(), 2 * concurrent_);
    for (size_t i = 0; i < looks; ++i) fn(*queue_[i]);
  }

 private:
  void put_first(const std::function<bool(const SegmentReplicas*)>& is_first);

  const uint32_t concurrent_;
  std::deque<SegmentReplicas*> queue_;
};

}  // namespace ramcloud
