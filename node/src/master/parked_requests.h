// Changes that come while the log switches heads: they wait here, before they take any lock, and
// the one that found the head full waits, too. A client that was told to retry could not know when.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>

#include "base/metrics.h"
#include "log/log.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"

namespace ramcloud::master {

/// Belongs to one reactor. A switch takes a round trip to the backups, so few requests are parked,
/// and not for long. One that waits for kLongest, because replication is stuck, is let through: if
/// the log has no room for it even then, it is answered RETRY, so that its sender knows that
/// nothing was done. Requests leave in the order they came, as many in a turn as its budget allows.
class ParkedRequests {
 public:
  static constexpr Duration kLongest = std::chrono::milliseconds(5);
  /// Bytes of all parked requests. Above this, requests are let through, and answered RETRY.
  static constexpr uint64_t kMaxBytes = 16u << 20;

  /// Stands before the handlers of `registry`.
  ParkedRequests(Reactor& reactor, ServiceRegistry& registry, MetricsRegistry& metrics);
  ParkedRequests(const ParkedRequests&) = delete;
  ParkedRequests& operator=(const ParkedRequests&) = delete;

  void attach(const log::Log& log) { log_ = &log; }
  /// For a handler whose change found no room in the head. True: the request waits for the next
  /// head, and will be handled again. The handler has changed nothing, and does not answer.
  bool wait_for_head(const Request& request);
  /// A step of the turn: true if anything was done.
  bool on_turn();
  size_t size() const { return parked_.size(); }
  /// True while requests are parked. Any thread; as HeldReplies::waiting(), with the look at
  /// whether the log takes data.
  bool waiting() const { return waiting_.load(std::memory_order_seq_cst); }

 private:
  struct Parked {
    ReplyHandle handle;
    wire::MessageHeader header;
    std::string body;
    Time since{};
  };
  static bool gate(void* object, const Request& request);
  bool park(const Request& request);
  bool is_late(const Parked& parked) const { return reactor_.now() - parked.since >= kLongest; }
  void release();
  void serve(Parked one);

  Reactor& reactor_;
  ServiceRegistry& registry_;
  const log::Log* log_ = nullptr;
  std::deque<Parked> parked_;
  uint64_t bytes_ = 0;
  enum class Serving {
    kNone,
    kOnTime,  // one that may wait once more
    kLate,    // one that is answered now
    kWaits,   // one that does wait once more
  };
  Serving serving_ = Serving::kNone;
  std::atomic<bool> waiting_{false};
  Timer timer_;
  Histogram& delay_;
};

}  // namespace ramcloud::master
