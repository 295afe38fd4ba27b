// Changes that come while the log switches heads (engine.md §4): they wait here, before they take
// any lock, instead of being sent away to come again after a time that nobody can know well.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "log/log.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"

namespace ramcloud::master {

/// Belongs to one reactor. A switch takes a round trip to the backups, so what is parked is little
/// and soon gone; what waits for longer, because replication is stuck, is let through and answered
/// RETRY, so that its sender knows that nothing was done.
class ParkedRequests final : public TurnHook {
 public:
  static constexpr Duration kLongest = std::chrono::milliseconds(5);
  /// Of all that is parked. Above, requests are let through, and answered RETRY.
  static constexpr uint64_t kMaxBytes = 16u << 20;

  /// Stands before the handlers of `registry`.
  ParkedRequests(Reactor& reactor, ServiceRegistry& registry, MetricsRegistry& metrics);
  ~ParkedRequests() override;

  void attach(const log::Log& log) { log_ = &log; }
  bool on_turn() override;
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
  void release();

  Reactor& reactor_;
  ServiceRegistry& registry_;
  const log::Log* log_ = nullptr;
  std::vector<Parked> parked_;
  uint64_t bytes_ = 0;
  bool releasing_ = false;
  std::atomic<bool> waiting_{false};
  Timer timer_;
  Histogram& delay_;
};

}  // namespace ramcloud::master
