// The statistics of a server: for the coordinator's probe, and as gauges.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backup/frame_store.h"
#include "backup/replica_service.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "master/data_plane.h"
#include "replication/reactor_role.h"
#include "rpc/server_list.h"
#include "runtime/epoch.h"
#include "runtime/reactor.h"
#include "server/cleaning.h"
#include "server/master.h"
#include "wire/control_messages.h"

namespace ramcloud::server {

class ServerStatistics {
 public:
  /// The statistics of one reactor.
  struct Part {
    const Reactor* reactor;
    const master::DataService* data;
  };
  /// On the first reactor. `parts`: all reactors, the first one's first. Registers the gauges,
  /// which must not be read after this is destroyed. All arguments outlive it.
  ServerStatistics(Reactor& reactor, MetricsRegistry& metrics, const ServerList& servers,
                   const Epochs& epochs, std::vector<Part> parts, uint32_t replicas_wanted);
  ServerStatistics(const ServerStatistics&) = delete;
  ServerStatistics& operator=(const ServerStatistics&) = delete;

  /// Called when the server has its id; before that all statistics are 0. The arguments outlive
  /// this. `cleaning`: null if cleaning is off.
  void attach(Master& master, const FrameStore& frames, const ReplicaService& backup,
              const Cleaning* cleaning);

  /// The present values. On the first reactor.
  wire::ServerStats collect() const;
  /// The values of the last half second; all 0 before attach(). Any thread.
  wire::ServerStats published() const;

 private:
  void register_gauges(MetricsRegistry& metrics, const Epochs& epochs);
  void publish();
  void add_log(wire::ServerStats& stats) const RC_REQUIRES(first_);
  void add_cleaning(wire::ServerStats& stats) const RC_REQUIRES(first_);
  void add_backup(wire::ServerStats& stats) const RC_REQUIRES(first_);

  Reactor& reactor_;
  const ServerList& servers_;
  std::vector<Part> parts_;
  uint32_t replicas_wanted_;
  ReactorRole first_;
  Master* master_ RC_GUARDED_BY(first_) = nullptr;
  const FrameStore* frames_ RC_GUARDED_BY(first_) = nullptr;
  const ReplicaService* backup_ RC_GUARDED_BY(first_) = nullptr;
  const Cleaning* cleaning_ RC_GUARDED_BY(first_) = nullptr;
  mutable Mutex mutex_;
  wire::ServerStats published_ RC_GUARDED_BY(mutex_);
  Timer timer_;
};

}  // namespace ramcloud::server
