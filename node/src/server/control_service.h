// The coordinator's requests to a server as a whole: probes, statistics, owned tablets, the
// replicas that its log needs of a backup, the size of its memory, and new server lists. (Orders
// about tablets: master/tablet_service.h.) Everything runs on the first reactor.
#pragma once

#include <cstdint>
#include <vector>

#include "backup/frame_store.h"
#include "master/tablet_service.h"
#include "replication/reactor_role.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/turn_round.h"
#include "server/enlistment.h"
#include "server/log_resize.h"
#include "server/master.h"
#include "server/server_statistics.h"

namespace ramcloud::server {

class ControlService {
 public:
  /// Answers from now on. `others`: the server's other reactors. All arguments outlive this.
  ControlService(ServiceRegistry& registry, Reactor& reactor, std::vector<Reactor*> others,
                 ServerList& servers, Enlistment& enlistment, const ServerStatistics& statistics,
                 const master::TabletService& tablets);
  ControlService(const ControlService&) = delete;
  ControlService& operator=(const ControlService&) = delete;

  /// Called when the server has its id. The arguments outlive this.
  void attach(Master& master, FrameStore& frames, LogResize& resize);

 private:
  void ping(const Request& request);
  void update_list(const Request& request);
  void get_stats(const Request& request);
  void restate(const Request& request);
  void get_replicas_on(const Request& request);
  void resize_log(const Request& request);
  /// Parses a request of the coordinator and checks its term. False: it was answered with an error.
  template <typename Message>
  bool take(const Request& request, Message& asked, const char* unreadable);
  void refuse(const ReplyHandle& handle, const Status& status);

  Transport& transport_;
  ServerList& servers_;
  Enlistment& enlistment_;
  const ServerStatistics& statistics_;
  const master::TabletService& tablets_;
  TurnRound all_reactors_;
  ReactorRole first_;
  Master* master_ RC_GUARDED_BY(first_) = nullptr;
  FrameStore* frames_ RC_GUARDED_BY(first_) = nullptr;
  LogResize* resize_ RC_GUARDED_BY(first_) = nullptr;
};

}  // namespace ramcloud::server
