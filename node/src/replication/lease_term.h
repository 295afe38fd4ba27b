// The end of the time in which this master may answer from memory (docs/design/recovery.md#leases).
// All reactors read it without a lock: it is a few atomics.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "base/clock.h"

namespace ramcloud {

/// Times are those of Clock::lease_now(). The term may be shorter than the lease that is known,
/// never longer.
class LeaseTerm {
 public:
  /// `appends_prove`: an acknowledgement from backups after an operation proves that none of them
  /// had given this master up before (R > 0).
  explicit LeaseTerm(bool appends_prove) : appends_prove_(appends_prove) {}
  LeaseTerm(const LeaseTerm&) = delete;
  LeaseTerm& operator=(const LeaseTerm&) = delete;

  /// @name Any thread
  /// @{ `now` was read after the operation was carried out. True: no other server could have
  /// changed the data that the operation saw, even if it was carried out long ago.
  bool holds(Time now) const {
    const int64_t held = held_until_.load(std::memory_order_seq_cst);
    const int64_t until = held != kNoHolder ? held : granted_until_.load(std::memory_order_seq_cst);
    return now.time_since_epoch().count() < until && !ended_.load(std::memory_order_relaxed);
  }
  bool appends_prove() const { return appends_prove_; }
  /// Replies wait for a lease: the listener is called when it lasts longer. Call holds() after
  /// this: then the thread that extends the lease sees this call, or holds() sees the extension.
  void wait() { waited_for_.store(true, std::memory_order_seq_cst); }
  /// There is no open replica whose backup could lease, so the coordinator must.
  bool needs_grant() const {
    return held_until_.load(std::memory_order_relaxed) == kNoHolder &&
           !ended_.load(std::memory_order_relaxed);
  }
  /// The cluster has given this master up: it must not answer any more.
  void end() { ended_.store(true, std::memory_order_relaxed); }
  /// @}

  /// Before any reactor asks. It is called on whichever thread extends the lease.
  void set_listener(std::function<void()> listener) { listener_ = std::move(listener); }

  /// @name For the keeper of the lease (ReadLease or CoordinatorLease), one thread at a time
  /// @{
  void hold_until(Time until) { extend(held_until_, until.time_since_epoch().count()); }
  void no_holder() { extend(held_until_, kNoHolder); }
  void grant_until(Time until) { extend(granted_until_, until.time_since_epoch().count()); }
  /// @}

 private:
  static constexpr int64_t kNoHolder = std::numeric_limits<int64_t>::max();
  void extend(std::atomic<int64_t>& what, int64_t until) {
    what.store(until, std::memory_order_seq_cst);
    if (!waited_for_.load(std::memory_order_seq_cst)) return;
    if (waited_for_.exchange(false, std::memory_order_seq_cst) && listener_) listener_();
  }

  const bool appends_prove_;
  std::atomic<int64_t> held_until_{kNoHolder};
  std::atomic<int64_t> granted_until_{std::numeric_limits<int64_t>::min()};
  std::atomic<bool> ended_{false};
  std::atomic<bool> waited_for_{false};
  std::function<void()> listener_;
};

}  // namespace ramcloud
