// A whole cluster in one thread from one seed: coordinator, servers and clients run the same code
// as the daemons; only clock, network, disks and metadata store are simulated
// (docs/design/simulation.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/metrics.h"
#include "client/core.h"
#include "coordinator/core/coordinator_node.h"
#include "coordinator/metadata/sim_metadata.h"
#include "runtime/sim/sim_scheduler.h"
#include "server/server_node.h"
#include "sim/invariants.h"
#include "sim/view.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud::sim {

struct ClusterOptions {
  uint64_t seed = 1;
  uint32_t coordinators = 1;
  uint32_t servers = 4;
  uint32_t replicas = 2;
  bool synced = false;  // durability
  Duration backup_silence = std::chrono::seconds(1);
  uint32_t reactors = 1;  // of each server; every reactor is a simulated node
  uint32_t clients = 1;
  uint32_t former_servers = 0;  // so many of them speak version 2 of the protocol
  SimNetworkOptions network = {};
  SimMetadata::Options metadata = {};
  server::CleaningLevels cleaning = server::CleaningLevels::kOne;  // in turns of the first reactor
  size_t operations_at_once = kOperationsAtOnce;  // operations in one transaction that writes a
                                                  // table
  uint64_t log_bytes = 48u << 20;
  uint32_t recovery_fetches = master::RecoveryLimits().fetches;
  uint64_t log_bytes_most = 0;  // logs may be resized up to this; 0: not above log_bytes
  uint32_t volume = 2;  // volume of each server, as a multiple of the bytes of R replicas of its
                        // log
  Duration client_timeout = 30s;
  /// A server that was given up starts again as a new one, as ramcloudd does. If false, that is a
  /// failure.
  bool condemned_start_again = false;
  /// Steps between two checks of the whole cluster, and which share of the checks (one in so many)
  /// reads all data. 0: chosen by the seed.
  uint32_t steps_between_looks = 0;
  uint32_t looks_between_deep_ones = 0;
};

/// Clusters made from now on log with virtual time and node, and log every message (level debug).
void set_tracing(bool tracing);

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  SimScheduler& scheduler() { return scheduler_; }
  SimNetwork& network() { return network_; }
  ClientCore& client(size_t i) { return *clients_.at(i).core; }
  SimNode& client_node(size_t i) { return *clients_.at(i).node; }
  size_t servers() const { return servers_.size(); }
  server::ServerNode& server(size_t i) { return *servers_.at(i)->role; }
  /// Messages to backups sent by reactors other than the first.
  uint64_t messages_of_other_reactors() const;
  /// Writes to replicas served by reactors other than the first.
  uint64_t replica_writes_of_other_reactors() const;
  SimDisk& disk(size_t i) { return servers_.at(i)->node->disk(); }
  size_t coordinators() const { return coordinators_.size(); }
  /// Null while it is dead.
  CoordinatorNode* coordinator_node(size_t i) { return coordinators_.at(i)->role.get(); }
  /// The coordinator that considers itself the leader; null if none does. `index` gets its index.
  Coordinator* coordinator(size_t* index = nullptr);
  SimMetadata& metadata(size_t i) { return *coordinators_.at(i)->metadata; }
  const SimMetadataState& metadata_state() const { return metadata_; }
  /// Cuts the network between all reactors of these two servers until it heals.
  void cut_off(size_t i, size_t j);
  /// Drops all messages from `from` to `to`.
  void cut_off_one_way(size_t from, size_t to);
  /// Adds this latency between two servers; 0 ends it.
  void slow_link(size_t i, size_t j, Duration more);
  /// The node of every reactor of a server, the first one's first.
  std::vector<SimNode*> nodes_of_server(size_t i);
  SimNode& server_sim_node(size_t i) { return *servers_.at(i)->node; }
  SimNode& coordinator_sim_node(size_t i) { return *coordinators_.at(i)->node; }
  /// Called at every transaction of every coordinator, with the point and the coordinator.
  using MetadataProbe =
      std::function<void(size_t index, SimMetadata::Point, const MetadataTransaction&)>;
  void set_metadata_probe(MetadataProbe probe);

  /// Sets the target of a server's log memory. False: the server does not run, or refuses.
  bool resize_log(size_t i, uint64_t bytes);
  /// Runs until all servers are enlisted; false if that takes longer than `limit` of virtual time.
  bool wait_ready(Duration limit = 30s);
  /// Runs a client's task until it is done. Aborts the test if it takes longer than `limit`.
  template <typename T>
  T run(size_t client_index, Task<T> task, Duration limit = 120s);
  /// Starts a task on a client's node; it ends with the cluster at the latest.
  void spawn(size_t client_index, Task<void> task);
  size_t running_tasks() const;

  /// A coordinator's process dies; the metadata stays.
  void kill_coordinator(size_t i = 0);
  void restart_coordinator(size_t i = 0);
  /// Replaces the store's content by an import of these records, like `ramcloudd metadata import`.
  /// Precondition: no coordinator runs.
  void import_metadata(MetadataStore::Records exported);
  /// A server's process dies, its disk keeps all writes; it starts again as a new server.
  void kill_server(size_t i);
  void restart_server(size_t i);
  /// Like SIGTERM: the server announces its stop, and ends. False: it did not finish in time.
  bool stop_server(size_t i);
  /// All of them at once.
  void stop_all_servers();
  bool server_runs(size_t i) const { return servers_.at(i)->role != nullptr; }
  /// Its machine loses power, and a part of the unsynced bytes; restart_server() starts it again.
  void reboot_server(size_t i);
  /// Like SIGSTOP, and SIGCONT after `length`.
  void pause_server(size_t i, Duration length);
  /// Ends a pause of a server.
  void resume_server(size_t i);
  void pause_coordinator(size_t i, Duration length);

  /// A process of the cluster.
  struct Role {
    bool coordinator = false;  // or a server
    size_t index = 0;
  };
  /// Called when a coordinator or server passes a failpoint (its index in kFailpoints). It may
  /// pause or kill that process. Active until the cluster is destroyed; only one cluster at a time
  /// may have a probe.
  using FailpointProbe = std::function<void(size_t number, const Role& role)>;
  void set_failpoint_probe(FailpointProbe probe);
  /// For a probe: stops this role at the failpoint; it is killed before the next turn of any node.
  void die_here(const Role& role);

  /// The first invariant that was found broken after a step, with seed, step and time; empty when
  /// all is well. fatal() ends a test that does not call this at its end.
  const std::string& broken();
  /// Checks everything once more now; then as broken(). Between steps only.
  const std::string& check_invariants();
  /// Why roles called on_fatal, one text on each line.
  const std::string& failures() const { return failures_; }

 private:
  struct CoordinatorRole {
    SimNode* node = nullptr;
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<RpcClient> rpc;
    std::unique_ptr<SimMetadata> metadata;
    std::unique_ptr<MetricsRegistry> metrics;
    std::unique_ptr<CoordinatorNode> role;
  };
  class More;
  class Spread;
  struct ServerRole {
    SimNode* node = nullptr;
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<MetricsRegistry> metrics;
    uint16_t highest_version = wire::kVersionMax;
    std::vector<SimNode*> more_nodes;         // of the reactors other than the first
    std::vector<std::unique_ptr<More>> more;  // their transports
    std::unique_ptr<Spread> spread;           // distributes requests to them
    std::unique_ptr<server::ServerNode> role;
    log::LogPosition durable;  // at the last step
    uint32_t epoch = 0;        // of replication, at the last step
    ServerRole();
    ~ServerRole();
  };
  struct ClientRole {
    SimNode* node = nullptr;
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<ClientCore> core;
    std::unique_ptr<TaskScope> tasks;
  };
  uint64_t sum_of_others(const char* counter) const;
  std::vector<server::ReactorResources> make_more(ServerRole& server);
  std::vector<Locator> coordinator_locators() const;
  void start_coordinator(size_t i);
  void start_server(ServerRole& server);
  std::optional<Role> role_of(const SimNode* node) const;
  void end_server(ServerRole& server);
  void server_failed(ServerRole& server, const Status& why);
  // Observers; they change nothing.
  static uint64_t life_of(const SimNode& node);
  void after_step(SimNode* turned);
  void after_turn(ServerRole& server);
  void check_leader();
  void check_all(bool deep);
  void found(std::string what);

  ClusterOptions options_;
  SimScheduler scheduler_;
  SimNetwork network_;
  SimMetadataState metadata_;
  MetadataProbe probe_;
  bool has_failpoint_probe_ = false;
  std::vector<std::unique_ptr<CoordinatorRole>> coordinators_;
  std::vector<std::unique_ptr<ServerRole>> servers_;
  std::vector<ClientRole> clients_;
  std::string failures_;
  Invariants invariants_;
  Compared compared_;
  uint64_t looks_ = 0;
  uint64_t leader_fingerprint_ = 0;  // fingerprint of its state at the last check
  std::string broken_;
  bool told_ = false;
};

template <typename T>
T Cluster::run(size_t client_index, Task<T> task, Duration limit) {
  std::optional<T> result;
  const auto keep = [](Task<T> inner, std::optional<T>& out) -> Task<void> {
    out.emplace(co_await std::move(inner));
  };
  spawn(client_index, keep(std::move(task), result));
  if (!scheduler_.run_until([&] { return result.has_value(); }, limit)) {
    fatal("a client's task did not end", {{"virtual_seconds", limit / 1s}});
  }
  return std::move(*result);
}

}  // namespace ramcloud::sim
