// A master without a backup that could lease asks the coordinator (docs/design/recovery.md,
// "Leases"): with R = 0, and before its first head is on its way to the backups.
#pragma once

#include <functional>

#include "base/clock.h"
#include "base/status.h"
#include "replication/lease_term.h"
#include "runtime/reactor.h"
#include "runtime/task.h"

namespace ramcloud::server {

/// On one reactor.
class CoordinatorLease {
 public:
  /// Asks once, and gives what the coordinator said, or that nobody did before the deadline.
  using Ask = std::function<Task<Status>(Time deadline)>;
  /// The server is not this one's any more, by what the coordinator says.
  using Condemned = std::function<void(Status)>;

  /// Both outlive this. `length`: L.
  CoordinatorLease(Reactor& reactor, LeaseTerm& term, Duration length, Ask ask,
                   Condemned condemned);
  CoordinatorLease(const CoordinatorLease&) = delete;
  CoordinatorLease& operator=(const CoordinatorLease&) = delete;

 private:
  Task<void> ask_while_needed();

  Reactor& reactor_;
  LeaseTerm& term_;
  const Duration length_;
  Ask ask_;
  Condemned condemned_;
  TaskScope tasks_;  // last: flows end before what they use
};

}  // namespace ramcloud::server
