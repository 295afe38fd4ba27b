// Announces a planned stop before the server ends, so that failure detection is not needed. What
// was acknowledged is on replicas, the lease is ended, and the coordinator is told that this server
// answers nothing more (docs/design/recovery.md#planned-stop).
#pragma once

#include <vector>

#include "runtime/reactor.h"
#include "runtime/task.h"
#include "runtime/turn_round.h"
#include "server/enlistment.h"
#include "server/master.h"
#include "server/server_reactor.h"

namespace ramcloud::server {

class PlannedStop {
 public:
  struct Limits {
    Duration flush = 1s;     // for appended entries to become durable, and replies to leave
    Duration announce = 3s;  // for the coordinator's answer
    Duration linger = 5s;    // for clients to find the next owner
  };
  /// `reactors`: all of the server, the first one first. On the first one's thread. All arguments
  /// outlive this.
  PlannedStop(Master& master, Enlistment& enlistment, std::vector<ServerReactor*> reactors,
              Limits limits);
  PlannedStop(const PlannedStop&) = delete;
  PlannedStop& operator=(const PlannedStop&) = delete;

  /// OK: the coordinator has given the server up, and others recover its data. UNSUPPORTED: the
  /// server has no replicas; nothing has changed. Otherwise the coordinator's error: the server
  /// serves nothing any more, and failure detection will find it.
  Task<Status> run();

 private:
  Task<void> all_turned();
  bool nothing_waits() const;
  Task<void> flush();
  uint64_t refused() const;
  Task<void> linger();

  Master& master_;
  Enlistment& enlistment_;
  std::vector<ServerReactor*> reactors_;
  Limits limits_;
  Reactor& reactor_;
  TurnRound round_;
};

}  // namespace ramcloud::server
