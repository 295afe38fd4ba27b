// Quiescent-state epochs (docs/design/runtime.md#several-reactors-in-a-server): they tell when no
// thread reads shared data any more that was unlinked. Readers pay one store in each turn.
//
// Every thread that reads shared data without locks is a participant. A reactor calls pass() once a
// turn, between handlers, where it holds no pointer to shared data. A thread that made a change
// advances the epoch and waits until every participant has passed since, or is offline: a grace
// period. After that, data that was unlinked before can be freed, and all participants have seen
// state that was set before.
//
// Memory order. pass() loads the epoch (acquire) and stores it as seen (release): what was read
// before the store happened before the grace period's end, and what is read after the load sees
// every change made before advance(). For participants that go offline: the waiter reads `seen`
// after it advanced, the participant reads the epoch after it stored `seen`, all four sequentially
// consistent. So either the waiter sees it online and waits, or it sees the new epoch, and with it
// the change. See docs/design/runtime.md; node/model/epoch_model.cc explores the interleavings.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/spin_lock.h"
#include "runtime/task.h"

namespace ramcloud {

class Reactor;

class Epochs {
 public:
  /// One thread (or simulated node) that reads shared data. It is online from the beginning, and
  /// must go offline before its thread stops running. Only that thread calls its functions;
  /// construction and destruction may be elsewhere while the thread does not run.
  class alignas(kCacheLineBytes) Participant {
   public:
    explicit Participant(Epochs& epochs);
    ~Participant();
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

    /// A quiescent point: no pointer to shared data is held here. Only while online.
    void pass() {
      seen_.store(epochs_.current_.load(std::memory_order_acquire), std::memory_order_release);
    }
    /// Call it before sleeping: nobody waits for this participant, and it must not touch shared
    /// data until go_online(). Check the queues once more after this call, and only then sleep.
    void go_offline() { seen_.store(kOffline, std::memory_order_seq_cst); }
    /// Call it before touching shared data again.
    void go_online();
    bool online() const { return seen_.load(std::memory_order_relaxed) != kOffline; }

   private:
    friend class Epochs;
    Epochs& epochs_;
    Atomic<uint64_t> seen_;
  };

  Epochs() = default;
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;

  uint64_t current() const { return current_.load(std::memory_order_acquire); }
  /// Begins an epoch: changes made before it are seen by all once passed() says so of the result.
  /// `now` is for oldest_age(). Any thread.
  uint64_t advance(Time now);
  /// The earliest epoch that an online participant may still be in; current() if there is none. Any
  /// thread.
  uint64_t oldest() const;
  bool passed(uint64_t epoch) const { return oldest() >= epoch; }
  /// How long the oldest grace period has been waiting; 0 if none waits. Any thread; takes no lock,
  /// because its callers must not block.
  Duration oldest_age(Time now) const;
  /// Removes epochs that all participants have passed. Called at the end of a grace period.
  void forget_passed();

  /// Returns when every participant has passed, or was offline, since the call. Call it on a
  /// participant's reactor, which must keep running. Never returns at once, not even with one
  /// participant.
  Task<void> grace_period(Reactor& reactor);

 private:
  static constexpr uint64_t kOffline = 0;
  static constexpr int64_t kNobody = -1;
  struct Begun {
    uint64_t epoch = 0;
    Time at{};
  };

  alignas(kCacheLineBytes) Atomic<uint64_t> current_{1};
  alignas(kCacheLineBytes) mutable SpinLock lock_;
  std::vector<Participant*> participants_ RC_GUARDED_BY(lock_);
  std::deque<Begun> begun_ RC_GUARDED_BY(lock_);  // epochs that some participant may not have
                                                  // passed
  Atomic<int64_t> waiting_since_{kNobody};        // of begun_'s first
};

}  // namespace ramcloud
