// Changes that arrive while the log switches heads wait here, before they take any lock, as does
// the change that found the head full. Waiting is better than RETRY, because a client could not
// know when to retry.
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
/// and not for long. A request that waits for kLongest, because replication is stuck, is handled
/// anyway. If the log still has no room, it is answered RETRY, so that its sender knows that
/// nothing was done. Requests are handled in order of arrival, as many in a turn as its budget
/// allows.
class ParkedRequests {
 public:
  static constexpr Duration kLongest = std::chrono::milliseconds(5);
  /// Bytes of all parked requests. Above this, requests are not parked but answered RETRY.
  static constexpr uint64_t kMaxBytes = 16u << 20;

  /// Intercepts requests before the handlers of `registry`.
  ParkedRequests(Reactor& reactor, ServiceRegistry& registry, MetricsRegistry& metrics);
  ParkedRequests(const ParkedRequests&) = delete;
  ParkedRequests& operator=(const ParkedRequests&) = delete;

  void attach(const log::Log& log) { log_ = &log; }
  /// For a handler whose change found no room in the head. True: the request waits for the next
  /// head, and will be handled again; the handler must not answer. Precondition: the handler has
  /// changed nothing.
  bool wait_for_head(const Request& request);
  /// A step of the turn: true if anything was done.
  bool on_turn();
  size_t size() const { return parked_.size(); }
  /// True while requests are parked. Any thread; ordered as HeldReplies::waiting(), with
  /// Log::takes_data().
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
    kOnTime,  // the request may be parked again
    kLate,    // the request must be answered now
    kWaits,   // the request was parked again
  };
  Serving serving_ = Serving::kNone;
  std::atomic<bool> waiting_{false};
  Timer timer_;
  Histogram& delay_;
};

}  // namespace ramcloud::master
