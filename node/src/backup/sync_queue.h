// The group commit of a backup (docs/design/replication.md#reactors-of-a-backup): bytes that wait
// for the next sync, and the writes that are answered after it. Any reactor takes bytes; the first
// reactor syncs them.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/spin_lock.h"
#include "base/status.h"
#include "runtime/reactor.h"
#include "transport/transport.h"

namespace ramcloud {

/// Answers to writes that one reactor took and the first reactor synced. That reactor sends them.
class AnswerQueue {
 public:
  struct Answer {
    ReplyHandle reply;
    uint32_t bytes_held = 0;
    Status status;
  };
  /// It may be constructed on another thread than the reactor's.
  explicit AnswerQueue(Reactor& reactor) : reactor_(reactor) {}
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  /// On the first reactor.
  void add(const ReplyHandle& reply, uint32_t bytes_held, const Status& status);
  /// On its own reactor: moves all answers into `answers`, which is empty. False: there are none.
  bool take(std::vector<Answer>& answers);

 private:
  Reactor& reactor_;
  SpinLock lock_;
  std::vector<Answer> answers_ RC_GUARDED_BY(lock_);
  std::atomic<bool> has_answers_{false};
};

class SyncQueue {
 public:
  /// A write whose bytes were taken.
  struct Write {
    ReplyHandle reply;
    uint32_t bytes_held = 0;
    AnswerQueue* answers = nullptr;  // of the reactor that answers; null: the first one
  };

  /// `synced`: a write is answered after the sync of its bytes; otherwise at once.
  SyncQueue(Reactor& first, bool synced) : first_(first), synced_(synced) {}
  SyncQueue(const SyncQueue&) = delete;
  SyncQueue& operator=(const SyncQueue&) = delete;

  /// @name Any reactor
  /// @{
  bool synced() const { return synced_; }
  /// The write is answered after the next sync that begins. Only with `synced`.
  void add(const Write& write);
  /// A reactor other than the first took bytes. With `synced`, call it after add().
  void taken_elsewhere();
  /// @}

  /// @name The first reactor
  /// @{
  /// There are bytes, or metadata, to sync.
  void mark_dirty() { dirty_.store(true, std::memory_order_relaxed); }
  bool dirty() const { return dirty_.load(std::memory_order_relaxed); }
  /// True once after writes of other reactors were added.
  bool take_added_elsewhere();
  /// A sync begins: moves the writes that wait into `writes`, which is empty. False: nothing was
  /// taken since the last sync began, so none is needed.
  bool begin_sync(std::vector<Write>& writes);
  /// Moves the writes that wait into `writes`, which is empty: their sync will not happen.
  void take_all(std::vector<Write>& writes);
  bool has_writes();
  /// @}

 private:
  Reactor& first_;
  const bool synced_;
  SpinLock lock_;
  std::vector<Write> writes_ RC_GUARDED_BY(lock_);
  std::atomic<bool> added_elsewhere_{false};  // writes_ has writes of other reactors
  std::atomic<bool> dirty_{false};            // bytes were taken since the last sync began
};

}  // namespace ramcloud
