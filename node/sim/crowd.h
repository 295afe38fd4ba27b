// Clients of a simulated cluster: some have keys of their own and know what they must read
// (workload.h), some share keys and leave a history (history.h).
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

  /// Makes their tables; false: `outcome.wrong` says why not.
  bool make_tables(uint32_t span);
  const wire::TableInfo& own_keys() const { return own_; }
  const wire::TableInfo& shared_keys() const { return shared_; }
  void begin(uint32_t most_value_bytes);
  /// Reads everything once more and compares it with what may be there.
  void judge();
  /// Notes the history in the outcome; once, at the end.
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

/// By the metadata of the coordinator that leads: every tablet is on a server that is UP.
bool everything_is_served(Cluster& cluster);

}  // namespace ramcloud::sim
