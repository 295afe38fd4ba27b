// Replies that wait until the log is durable as far as they depend on (engine.md §4: every reply
// carries the largest log position it depends on). Nothing of the request is kept but its handle.
// Each reactor holds its own.
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

class HeldReplies final : public TurnHook {
 public:
  HeldReplies(Reactor& reactor, Transport& transport, MetricsRegistry& metrics);
  ~HeldReplies() override;

  /// The log whose durability counts; none until the server is enlisted.
  void attach(log::Log& log) { log_ = &log; }
  /// Sends the reply now if the log is durable that far, even if others are held: what depends on
  /// nothing fresh passes what does. Those that are held leave in the order they came: one that
  /// depends on less may wait for an earlier one that depends on more, which is at most one
  /// replication round trip.
  void send(const Reply& reply);
  /// The reply keeps what it owns if it was sent at once.
  void send(Reply&& reply);
  bool on_turn() override;
  size_t size() const { return queue_.size(); }
  /// True while replies are held. Any thread; sequentially consistent with the look at the log's
  /// durable position that every turn ends with, so whoever raised that position either sees this,
  /// or the turn saw the position.
  bool waiting() const { return waiting_.load(std::memory_order_seq_cst); }

 private:
  bool send_at_once(const Reply& reply);
  Reply& hold();
  void transmit(const Reply& reply, Time arrived);
  /// Of the operation with this opcode, from its arrival to its reply.
  Histogram& time_of(uint16_t opcode) { return *times_[opcode < times_.size() ? opcode : 0]; }
  Reactor& reactor_;
  Transport& transport_;
  log::Log* log_ = nullptr;
  RingBuffer<Reply> queue_;
  std::atomic<bool> waiting_{false};  // for other threads: queue_ is not empty
  Counter& sent_at_once_;
  Counter& held_;
  Histogram& delay_;
  std::array<Histogram*, 64> times_;  // by opcode: data operations have the lowest
};

}  // namespace ramcloud::master
