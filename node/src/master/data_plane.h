// One reactor's part of serving data from the store that all reactors of a server share: its
// services, the replies it holds and the requests it has parked. Several of them make a server with
// several reactors (docs/design/runtime.md); nothing in here is touched by another thread, except
// as said. When in a turn its steps are taken is for the server to say (server/server_reactor.h).
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

  /// From now on this store is served; on this reactor's thread. `lease`: HeldReplies'.
  void attach(store::ObjectStore& store, LeaseTerm* lease = nullptr);
  /// From now on data operations are told UNKNOWN_TABLET: their clients ask the coordinator for
  /// the next owner. (After RETRY they would call this server again.) On this reactor's thread.
  void refuse_operations();
  /// How many were told so. Any thread.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  /// The log's durable position rose, a new head takes data, or the lease lasts longer: wakes this
  /// reactor if replies or requests wait for it. Any thread.
  void on_log_progress() {
    if (replies_.waiting() || parked_.waiting()) reactor_.nudge();
  }

  /// @name Steps of a turn. True if anything was done.
  /// @{
  /// Requests that waited for the log's next head, and the next slices of multi-operations.
  bool serve();
  /// Replies that are durable now leave.
  bool reply() { return replies_.on_turn(); }
  /// @}
  /// True if the log has grown since the last call, and something here waits for it. (Whether it
  /// was this reactor that appended, one position cannot tell.)
  bool has_appended();

 private:
  Reactor& reactor_;
  ServiceRegistry registry_;
  HeldReplies replies_;
  ParkedRequests parked_;
  DataService data_;
  MultiService multi_;
  Atomic<uint64_t> refused_{0};
  log::Log* log_ = nullptr;
  log::LogPosition seen_;  // end of the log at the last has_appended()
};

}  // namespace ramcloud::master
