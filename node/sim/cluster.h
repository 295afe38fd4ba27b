// A whole cluster in one thread from one seed: coordinator, servers and clients are the very code
// that the daemons run; only clock, network, disks and metadata store are simulated
// (docs/design/simulation.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/logging.h"
#include "base/metrics.h"
#include "client/core.h"
#include "coordinator/coordinator_node.h"
#include "coordinator/invariants.h"
#include "coordinator/sim_metadata.h"
#include "daemon/server_node.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud::sim {

struct ClusterOptions {
  uint64_t seed = 1;
  uint32_t coordinators = 1;
  uint32_t servers = 4;
  uint32_t replicas = 2;
  uint32_t clients = 1;
  SimNetworkOptions network;
  SimMetadata::Options metadata;
  uint64_t log_bytes = 48u << 20;
  Duration client_timeout = 30s;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  SimScheduler& scheduler() { return scheduler_; }
  SimNetwork& network() { return network_; }
  ClientCore& client(size_t i) { return *clients_.at(i).core; }
  SimNode& client_node(size_t i) { return *clients_.at(i).node; }
  daemon::ServerNode& server(size_t i) { return *servers_.at(i)->role; }
  SimDisk& disk(size_t i) { return servers_.at(i)->node->disk(); }
  size_t coordinators() const { return coordinators_.size(); }
  /// Null while it is dead.
  CoordinatorNode* coordinator_node(size_t i) { return coordinators_.at(i)->role.get(); }
  /// The one that leads, by its own reckoning; null if none does. Its place in `index`.
  Coordinator* coordinator(size_t* index = nullptr);
  SimMetadata& metadata(size_t i) { return *coordinators_.at(i)->metadata; }
  const SimMetadataState& metadata_state() const { return metadata_; }
  SimNode& server_sim_node(size_t i) { return *servers_.at(i)->node; }
  SimNode& coordinator_sim_node(size_t i) { return *coordinators_.at(i)->node; }
  /// Called at every transaction of every coordinator: where it is, and whose it is.
  using MetadataProbe =
      std::function<void(size_t index, SimMetadata::Point, const MetadataTransaction&)>;
  void set_metadata_probe(MetadataProbe probe);

  /// Runs until all servers are enlisted; false if that takes longer than `limit` of virtual time.
  bool wait_ready(Duration limit = 30s);
  /// Runs a client's task to its end. The test fails (abort) if it does not end within `limit`.
  template <typename T>
  T run(size_t client_index, Task<T> task, Duration limit = 120s);
  /// Starts a task on a client's node; it ends with the cluster at the latest.
  void spawn(size_t client_index, Task<void> task);
  size_t running_tasks() const;

  /// A coordinator's process dies; the metadata stays.
  void kill_coordinator(size_t i = 0);
  void restart_coordinator(size_t i = 0);
  /// A server's process dies, its disk keeps what was written; it starts again as a new server.
  void kill_server(size_t i);
  void restart_server(size_t i);

  /// What is broken, one text a line; empty when all is well. Between steps only.
  std::string check_invariants();
  /// Of the coordinator that leads only: cheap enough for every step.
  std::string check_coordinators();
  /// Why a role asked to be ended, one text a line.
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
  struct ServerRole {
    SimNode* node = nullptr;
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<MetricsRegistry> metrics;
    std::unique_ptr<daemon::ServerNode> role;
  };
  struct ClientRole {
    SimNode* node = nullptr;
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<ClientCore> core;
    std::unique_ptr<TaskScope> tasks;
  };
  std::vector<Locator> coordinator_locators() const;
  void start_coordinator(size_t i);
  void start_server(ServerRole& server);

  ClusterOptions options_;
  SimScheduler scheduler_;
  SimNetwork network_;
  SimMetadataState metadata_;
  Invariants coordinator_invariants_;
  MetadataProbe probe_;
  std::vector<std::unique_ptr<CoordinatorRole>> coordinators_;
  std::vector<std::unique_ptr<ServerRole>> servers_;
  std::vector<ClientRole> clients_;
  std::string failures_;
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
