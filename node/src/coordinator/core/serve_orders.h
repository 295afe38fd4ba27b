// The last word to recovery masters: serve what the metadata names you the owner of, and give up
// the rest. docs/design/recovery.md, "Recovery of one server".
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "coordinator/core/changes.h"
#include "coordinator/core/recovery_calls.h"

namespace ramcloud {

/// Tablets of one table that one attempt gave to one server.
struct ServedRanges {
  uint64_t server_id = 0;
  uint64_t table_id = 0;
  uint64_t attempt = 0;
  std::vector<wire::HashRange> ranges;
};

class ServeOrders {
 public:
  struct Options {
    Duration timeout = 1s;  // of one try
    Duration retry_min = 50ms;
    Duration retry_max = 1s;
  };
  ServeOrders(Reactor& reactor, ClusterState& state, RecoveryCalls& calls, Changes& changes,
              const Options& options)
      : reactor_(reactor),
        state_(state),
        calls_(calls),
        changes_(changes),
        options_(options),
        scope_(reactor) {}

  /// Tells the owners of all recovered tablets: an earlier leader may not have told them.
  void tell_all();
  /// Until it is acknowledged, or the metadata do not say it any more; returns at once.
  void serve(ServedRanges served) { scope_.spawn(serve_until_heard(std::move(served))); }
  /// Has the server give up what it recovered of this dead master, up to this attempt; returns at
  /// once. What the server has to serve is acknowledged first, or it would be given up as well.
  void abort(uint64_t server_id, uint64_t master_id, uint64_t attempt);

 private:
  /// Which of the ranges still are the server's, by this attempt.
  std::vector<wire::HashRange> still_its(const ServedRanges& served) const;
  void show(const ServedRanges& served, bool not_there);
  Task<void> serve_until_heard(ServedRanges served);
  Task<void> abort_until_heard(uint64_t server_id, uint64_t master_id, uint64_t attempt);

  Reactor& reactor_;
  ClusterState& state_;
  RecoveryCalls& calls_;
  Changes& changes_;
  const Options& options_;
  std::multimap<uint64_t, uint64_t> serving_;  // server, table
  TaskScope scope_;
};

}  // namespace ramcloud
