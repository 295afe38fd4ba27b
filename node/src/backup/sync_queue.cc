#include "backup/sync_queue.h"

#include <utility>

namespace ramcloud {

void AnswerQueue::add(const ReplyHandle& reply, uint32_t bytes_held, const Status& status) {
  {
    const SpinGuard guard(lock_);
    answers_.push_back({reply, bytes_held, status});
  }
  if (!has_answers_.exchange(true, std::memory_order_acq_rel)) reactor_.nudge();
}

bool AnswerQueue::take(std::vector<Answer>& answers) {
  if (!has_answers_.load(std::memory_order_relaxed)) return false;
  has_answers_.store(false, std::memory_order_relaxed);
  const SpinGuard guard(lock_);
  std::swap(answers_, answers);
  return true;
}

void SyncQueue::add(const Write& write) {
  const SpinGuard guard(lock_);
  writes_.push_back(write);
}

void SyncQueue::taken_elsewhere() {
  const bool was_dirty = dirty_.exchange(true, std::memory_order_acq_rel);
  if (!synced_) {
    // The reactor that set the flag has nudged the first one, and the first one checks the flag
    // after each sync.
    if (!was_dirty) first_.nudge();
  } else if (!added_elsewhere_.exchange(true, std::memory_order_acq_rel)) {
    first_.nudge();
  }
}

bool SyncQueue::take_added_elsewhere() {
  return added_elsewhere_.load(std::memory_order_relaxed) &&
         added_elsewhere_.exchange(false, std::memory_order_acquire);
}

bool SyncQueue::begin_sync(std::vector<Write>& writes) {
  // The sync includes what other reactors took before they set the flag.
  if (!dirty_.exchange(false, std::memory_order_acq_rel)) return false;
  take_all(writes);
  return true;
}

void SyncQueue::take_all(std::vector<Write>& writes) {
  const SpinGuard guard(lock_);
  std::swap(writes_, writes);
}

bool SyncQueue::has_writes() {
  const SpinGuard guard(lock_);
  return !writes_.empty();
}

}  // namespace ramcloud
