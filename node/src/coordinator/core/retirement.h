// Removes crashed servers that are not needed any more from the server list. Otherwise the list
// would grow with every start of a server (docs/design/coordinator.md#servers).
#pragma once

#include <set>
#include <vector>

#include "coordinator/core/changes.h"
#include "coordinator/metadata/cluster_state.h"
#include "coordinator/metadata/ledger.h"

namespace ramcloud {

class Retirement {
 public:
  struct Options {
    /// Since the crash, so that people can see it in the status. At least as long as recoveries may
    /// wait for its volume: of a removed server nobody expects any.
    Duration after = std::chrono::minutes(10);
    size_t at_once = 40;  // in one transaction
  };
  Retirement(Reactor& reactor, ClusterState& state, Ledger& ledger, Changes& changes,
             std::function<void()> on_list_changed, Options options);
  void start() { timer_.start_after(interval()); }

 private:
  Duration interval() const { return options_.after / 10; }
  void remove_unneeded();
  /// CRASHED servers that own no tablet and that every server that is UP knows to be crashed. While
  /// the tablets of any crashed server wait for its recovery, only those whose volume another server
  /// has now: the others may have replicas of that log, so it may not end without them.
  std::vector<uint64_t> unneeded() const;
  Task<void> remove();

  Reactor& reactor_;
  ClusterState& state_;
  Ledger& ledger_;
  Changes& changes_;
  std::function<void()> on_list_changed_;
  Options options_;
  bool removing_ = false;
  Timer timer_;
  TaskScope scope_;
};

}  // namespace ramcloud
