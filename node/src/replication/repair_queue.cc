#include "replication/repair_queue.h"

namespace ramcloud {

bool RepairQueue::Pass::driven() {
  auto& queue = queue_.queue_;
  SegmentReplicas& replicas = *queue[in_progress_];
  const auto rests = [](const ReplicaSlot& slot) { return slot.closed() || !slot.placed(); };
  if (!replicas.all(rests)) {
    ++in_progress_;
    return false;
  }
  queue.erase(queue.begin() + static_cast<ptrdiff_t>(in_progress_));
  if (!replicas.all_closed()) {
    queue.push_back(&replicas);
    return false;
  }
  replicas.repairing = false;
  return true;
}

}  // namespace ramcloud
