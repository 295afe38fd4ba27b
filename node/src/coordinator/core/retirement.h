// Crashed servers that nobody needs any more leave the server list, or it would grow by each start
// of each server for ever (docs/design/coordinator.md, "Servers that are removed").
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
    Duration after = std::chrono::minutes(10);  // since the crash: people look at it meanwhile
    size_t at_once = 40;                        // in one transaction
  };
  Retirement(Reactor& reactor, ClusterState& state, Ledger& ledger, Changes& changes,
             std::function<void()> on_list_changed, Options options);
  void start() { timer_.start_after(interval()); }

 private:
  Duration interval() const { return options_.after / 10; }
  void remove_unneeded();
  /// Of those that are CRASHED: no table has a tablet there, and every server that is UP knows that
  /// it crashed.
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
