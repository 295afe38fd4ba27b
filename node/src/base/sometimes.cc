#include "base/sometimes.h"

namespace ramcloud {
namespace {
/// The list of points that were reached. Points live for ever, so none is ever removed.
constinit std::atomic<const SometimesPoint*> first{nullptr};
}  // namespace

void SometimesPoint::enter() {
  next_ = first.load(std::memory_order_relaxed);
  // Release: a thread that follows the list sees next_.
  while (!first.compare_exchange_weak(next_, this, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
}

std::map<std::string_view, uint64_t> sometimes_counts() {
  std::map<std::string_view, uint64_t> counts;
  for (const SometimesPoint* point = first.load(std::memory_order_acquire); point != nullptr;
       point = point->next_) {
    counts[point->name_] += point->count_.load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace ramcloud
