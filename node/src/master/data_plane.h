// One reactor's part of serving data from the store that all reactors of a server share: its
// services, the replies it holds and the requests it has parked. A server with several reactors has
// one for each (docs/design/runtime.md). Only functions marked "any thread" may be called by other
// threads. The server decides when in a turn the steps run (server/server_reactor.h).
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/metrics.h"
#include "master/data_service.h"
#include "master/held_replies.h"
#include "master/multi_service.h"
#include "master/parked_requests.h"
#include "rpc/rpc.h"

namespace ramcloud::master {

class DataPlane {
 public:
  DataPlane(Reactor& reactor, Transport& transport, MetricsRegistry& metrics);
  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  ServiceRegistry& registry() { return registry_; }
  HeldReplies& replies() { return replies_; }
  const DataService& data() const { return data_; }

  /// Serves this store from now on. On this reactor's thread. `lease`: see HeldReplies::attach().
  void attach(store::ObjectStore& store, LeaseTerm* lease = nullptr);
  /// From now on data operations are answered UNKNOWN_TABLET, so that clients ask the coordinator
  /// for the next owner. (After RETRY they would call this server again.) On this reactor's thread.
  void refuse_operations();
  /// How many operations were refused. Any thread.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  /// The log's durable position rose, a new head takes data, or the lease lasts longer: wakes this
  /// reactor if replies or requests wait for it. Any thread. Held replies need no wake by their own
  /// thread in the part of its turn that reply() ends.
  void on_log_progress() {
    if ((replies_.waiting() && replies_next_ != this) || parked_.waiting()) reactor_.nudge();
  }

  /// @name Steps of a turn. True if anything was done.
  /// @{
  /// Requests that waited for the log's next head, and the next slices of multi-operations.
  bool serve();
  /// From now on until reply(), which follows in this turn, progress of the log wakes this reactor
  /// for no reply.
  void reply_follows() { replies_next_ = this; }
  /// Sends replies whose dependency is durable now.
  bool reply() {
    replies_next_ = nullptr;
    return replies_.on_turn();
  }
  /// @}
  /// True if the log has grown since the last call, and a reply or a multi-operation here waits for
  /// it. (The log does not say which reactor appended.)
  bool wants_replication();

 private:
  Reactor& reactor_;
  ServiceRegistry registry_;
  HeldReplies replies_;
  ParkedRequests parked_;
  DataService data_;
  MultiService multi_;
  Atomic<uint64_t> refused_{0};
  /// Set between reply_follows() and reply(). One for each thread: on_log_progress() runs on any.
  static inline thread_local const DataPlane* replies_next_ = nullptr;
  log::Log* log_ = nullptr;
  log::LogPosition seen_;  // end of the log at the last wants_replication()
};

}  // namespace ramcloud::master
