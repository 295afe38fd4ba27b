// Replies that wait until the log is durable up to the position that they depend on
// (docs/design/log.md#replies), or for a lease (docs/design/recovery.md#leases). Only the request's
// handle is kept. Each reactor holds its own replies.
//
// Held replies are charged to the request's connection (Transport::charge). Replies of closed
// connections are dropped, and those whose deadline has passed are answered DEADLINE_EXCEEDED, so
// that they take no memory while replication is stuck. A sweep over all held replies finds both, a
// few in each turn.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/metrics.h"
#include "log/log.h"
#include "master/held_queue.h"
#include "master/reply.h"
#include "replication/lease_term.h"
#include "runtime/reactor.h"
#include "transport/transport.h"

namespace ramcloud::master {

class HeldReplies {
 public:
  /// Replies that a sweep looks at in one turn. A sweep begins when connections were closed, and
  /// after kSweepInterval.
  static constexpr size_t kSweptPerTurn = 128;
  static constexpr Duration kSweepInterval = std::chrono::seconds(1);

  HeldReplies(Reactor& reactor, Transport& transport, MetricsRegistry& metrics);
  HeldReplies(const HeldReplies&) = delete;
  HeldReplies& operator=(const HeldReplies&) = delete;

  /// The log whose durability counts; none until the server is enlisted. `lease`: replies that tell
  /// data from memory need it; it outlives this. Null (tests of single parts): no reply does.
  void attach(log::Log& log, LeaseTerm* lease = nullptr) {
    log_ = &log;
    lease_ = lease;
  }
  /// Sends the reply now if the log is durable that far, and there is a lease if it needs one, even
  /// if other replies are held. Replies held for the log leave in order of arrival, so a reply may
  /// wait for an earlier one with a higher position: at most one replication round trip. Replies
  /// held for the lease leave in order of arrival, too. Precondition: the operation was carried
  /// out.
  void send(Reply& reply);
  /// The same; if the reply is held, what it owns is moved instead of copied.
  void send(Reply&& reply);
  /// A step of the turn: sends as many replies as its budget allows, and does a part of a sweep.
  /// True if anything was done.
  bool on_turn();
  /// Before the log is destroyed: held replies point into it. No client is answered.
  void drop_all();
  /// Some held replies wait for the log.
  bool waits_for_log() const { return !for_log_.empty(); }
  /// The number of held replies, including those that an unfinished sweep has dropped.
  size_t size() const { return for_log_.size() + for_lease_.size(); }
  /// True while replies are held. Any thread; sequentially consistent: every turn ends by reading
  /// the log's durable position and the lease. So either the thread that raised the position sees
  /// this flag, or the turn saw the position.
  bool waiting() const { return waiting_.load(std::memory_order_seq_cst); }

 private:
  enum class Waits : uint8_t { kForNothing, kForLog, kForLease };
  bool needs_lease(const Reply& reply) const {
    return lease_ != nullptr && tells_from_memory(reply, lease_->appends_prove());
  }
  Waits send_at_once(Reply& reply);
  Reply& hold(Waits waits);
  void transmit(Reply& reply, Time arrived, Time lease_now);
  void keep(Reply& kept);
  void let_go(Reply& held);
  bool release_durable();
  bool release_leased();
  void leave(Reply& held, Time lease_now);
  void say_whether_any_wait();
  void begin_sweep();
  void sweep();
  bool drop_if_nobody_waits(Reply& held);
  Time reactors_time(Time lease_now);
  /// The time of operations with this opcode, from arrival to reply.
  Histogram& time_of(uint16_t opcode) { return *times_[opcode < times_.size() ? opcode : 0]; }
  Reactor& reactor_;
  Transport& transport_;
  log::Log* log_ = nullptr;
  LeaseTerm* lease_ = nullptr;
  HeldQueue for_log_;
  HeldQueue for_lease_;
  uint64_t closed_seen_ = 0;  // closed connections at the start of the last sweep
  Timer sweep_timer_;
  std::atomic<bool> waiting_{false};  // for other threads: replies are held
  Duration lease_ahead_{};            // how far the lease clock is ahead of the reactor's
  Time measured_until_{};
  Counter& sent_at_once_;
  Counter& held_;
  Counter& dropped_;
  Counter& without_lease_;
  Histogram& delay_;
  std::array<Histogram*, 64> times_;  // by opcode: data operations have the lowest
};

}  // namespace ramcloud::master
