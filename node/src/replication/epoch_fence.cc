#include "replication/epoch_fence.h"

#include <utility>

namespace ramcloud {

EpochFence::EpochFence(Reactor& reactor, Raise raise, std::function<void(const Status&)> done)
    : raise_(std::move(raise)), done_(std::move(done)), scope_(reactor) {}

void EpochFence::confirm(uint64_t lowest_open_segment) {
  if (holds() || telling_) return;
  telling_ = true;
  scope_.spawn(tell(lowest_open_segment, epoch_));
}

Task<void> EpochFence::tell(uint64_t lowest_open_segment, uint32_t epoch) {
  Status status;
  if (raise_) status = co_await raise_(lowest_open_segment, epoch);
  telling_ = false;
  if (status.ok()) confirmed_ = epoch;
  done_(status);
}

}  // namespace ramcloud
