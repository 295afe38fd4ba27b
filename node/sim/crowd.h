// Clients of a simulated cluster: some have private keys and know the expected results
// (workload.h), others share keys and record a history (history.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "sim/cluster.h"
#include "sim/history.h"
#include "sim/scenario.h"
#include "sim/workload.h"

namespace ramcloud::sim {

class Crowd {
 public:
  /// `outcome.clients` of the first kind and at most three of the second, with
  /// `outcome.operations_of_each`. The cluster has three clients.
  Crowd(Cluster& cluster, Random& random, Outcome& outcome)
      : cluster_(cluster), random_(random), outcome_(outcome) {}

  /// Creates their tables; false: `outcome.wrong` has the error.
  bool make_tables(uint32_t span);
  const wire::TableInfo& own_keys() const { return own_; }
  const wire::TableInfo& shared_keys() const { return shared_; }
  void begin(uint32_t most_value_bytes);
  /// Reads everything once more and compares it with the possible values.
  void judge();
  /// Adds the history to the outcome; call it once, at the end.
  void leave_history();

 private:
  Cluster& cluster_;
  Random& random_;
  Outcome& outcome_;
  wire::TableInfo own_, shared_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<HistoryWorker>> sharing_;
  History history_;
};

/// True if every tablet is on a server that is UP, by the leader's metadata.
bool everything_is_served(Cluster& cluster);

}  // namespace ramcloud::sim
