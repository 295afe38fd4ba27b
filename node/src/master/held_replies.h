// Replies that wait until the log is durable as far as they depend on
// (docs/design/log.md#replies: every reply carries the largest log position it depends on).
// Nothing of the request is kept but its handle. Each reactor holds its own.
//
// What is held is charged to the request's connection (Transport::charge). Replies of closed
// connections are dropped, and those whose deadline has passed are answered DEADLINE_EXCEEDED, so
// that a log which is not replicated for long does not keep memory for nobody. Both are found by a
// sweep over all that is held, some of it a turn.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/metrics.h"
#include "base/ring_buffer.h"
#include "log/entry_view.h"
#include "log/log.h"
#include "runtime/reactor.h"
#include "transport/transport.h"

namespace ramcloud::master {

/// An answer in pieces: a fixed part, then either bytes of a log entry (sent from where they lie)
/// or bytes of its own.
struct Reply {
  static constexpr size_t kMaxFixedBytes = 24;
  ReplyHandle handle;
  StatusCode status = StatusCode::kOk;
  log::LogPosition depends_on;
  uint8_t fixed_size = 0;
  char fixed[kMaxFixedBytes];
  log::EntryView entry;  // entry_size bytes from entry_offset of its body
  log::Pin pin;          // of the entry, while it is held
  uint32_t entry_offset = 0;
  uint32_t entry_size = 0;
  std::string owned;  // pages, results of multi-operations; empty for single objects
  Time held_since{};

  template <typename T>
  void set_fixed(const T& value) {
    static_assert(sizeof(T) <= kMaxFixedBytes);
    std::memcpy(fixed, &value, sizeof value);
    fixed_size = sizeof value;
  }
};

class HeldReplies {
 public:
  /// Looked at in a turn by a sweep. One begins when connections were closed, and after
  /// kSweepInterval.
  static constexpr size_t kSweptPerTurn = 128;
  static constexpr Duration kSweepInterval = std::chrono::seconds(1);

  HeldReplies(Reactor& reactor, Transport& transport, MetricsRegistry& metrics);
  HeldReplies(const HeldReplies&) = delete;
  HeldReplies& operator=(const HeldReplies&) = delete;

  /// The log whose durability counts; none until the server is enlisted.
  void attach(log::Log& log) { log_ = &log; }
  /// Sends the reply now if the log is durable that far, even if others are held: what depends on
  /// nothing fresh passes what does. Those that are held leave in the order they came: one that
  /// depends on less may wait for an earlier one that depends on more, which is at most one
  /// replication round trip.
  void send(Reply& reply);
  /// The reply may keep what it owns if it was sent at once.
  void send(Reply&& reply);
  /// A step of the turn: as many as its budget allows, and a part of a sweep. True if anything was
  /// done.
  bool on_turn();
  /// Held, those included that a sweep which is not done yet has dropped.
  size_t size() const { return queue_.size(); }
  /// True while replies are held. Any thread; sequentially consistent with the look at the log's
  /// durable position that every turn ends with, so whoever raised that position either sees this,
  /// or the turn saw the position.
  bool waiting() const { return waiting_.load(std::memory_order_seq_cst); }

 private:
  bool send_at_once(Reply& reply);
  Reply& hold();
  void transmit(Reply& reply, Time arrived);
  void keep(Reply& kept);
  void let_go(Reply& held);
  bool release();
  void pop();
  void begin_sweep();
  void sweep();
  bool drop_if_nobody_waits(Reply& held);
  /// Of the operation with this opcode, from its arrival to its reply.
  Histogram& time_of(uint16_t opcode) { return *times_[opcode < times_.size() ? opcode : 0]; }
  Reactor& reactor_;
  Transport& transport_;
  log::Log* log_ = nullptr;
  RingBuffer<Reply> queue_;
  // Replies are numbered as they come. A sweep goes from the newest to the oldest and moves what it
  // keeps towards the newest: those from swept_to_ to kept_from_ are holes, and new ones come in
  // behind undisturbed.
  uint64_t first_ = 0;  // the front's number
  uint64_t swept_to_ = 0;
  uint64_t kept_from_ = 0;
  bool sweeping_ = false;
  uint64_t closed_seen_ = 0;  // connections, when the last sweep began
  Timer sweep_timer_;
  std::atomic<bool> waiting_{false};  // for other threads: queue_ is not empty
  Counter& sent_at_once_;
  Counter& held_;
  Counter& dropped_;
  Histogram& delay_;
  std::array<Histogram*, 64> times_;  // by opcode: data operations have the lowest
};

}  // namespace ramcloud::master
