// A server that is asked to stop says so before it ends, so that others need not find out: what is
// acknowledged is on its replicas, its lease ends, and the coordinator hears that it answers
// nothing more (docs/design/recovery.md#planned-stop).
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
  /// `reactors`: all of the server's, the first one first. On the first one's thread. Everything
  /// passed in outlives this.
  PlannedStop(Master& master, Enlistment& enlistment, std::vector<ServerReactor*> reactors,
              Limits limits);
  PlannedStop(const PlannedStop&) = delete;
  PlannedStop& operator=(const PlannedStop&) = delete;

  /// OK: the coordinator has given the server up, and others recover what it has. UNSUPPORTED, and
  /// nothing has changed, if it has no replicas. Else what the coordinator answered; the server
  /// serves nothing any more, and is found dead like any other.
  Task<Status> run();

 private:
  Task<void> all_turned();
  bool settled() const;
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
