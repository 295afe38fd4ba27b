// A master asks the coordinator for a lease if no backup can give one
// (docs/design/recovery.md#leases): with R = 0, and before its first head is sent to backups.
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
  /// Asks once. Returns the coordinator's answer, or an error if there was none before the
  /// deadline.
  using Ask = std::function<Task<Status>(Time deadline)>;
  /// Called when the coordinator answers that the server was given up.
  using Condemned = std::function<void(Status)>;

  /// `reactor` and `term` outlive this. `length`: L.
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
  TaskScope tasks_;  // last member: tasks end before what they use
};

}  // namespace ramcloud::server
