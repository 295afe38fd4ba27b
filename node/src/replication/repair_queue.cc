#include "replication/repair_queue.h"

#include <iterator>

#include "base/sometimes.h"

namespace ramcloud {

void RepairQueue::put_first(const std::function<bool(const SegmentReplicas*)>& is_first) {
  RC_SOMETIMES("replication.copy_is_hurried");
  std::deque<SegmentReplicas*> ordered;
  std::ranges::copy_if(queue_, std::back_inserter(ordered), is_first);
  std::ranges::remove_copy_if(queue_, std::back_inserter(ordered), is_first);
  queue_.swap(ordered);
}

bool RepairQueue::Pass::driven() {
  auto& queue = queue_.queue_;
  SegmentReplicas& replicas = *queue[in_progress_];
  const auto rests = [](const ReplicaSlot& slot) {
    return slot.closed() || !slot.placed() || slot.adopting();
  };
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
