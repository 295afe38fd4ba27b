// Checks all invariants of the coordinator's state: at every start for the loaded state, and after
// every step in tests and simulations.
#pragma once

#include "coordinator/metadata/cluster_state.h"

namespace ramcloud {

class Invariants {
 public:
  /// INTERNAL names the broken invariant. Also compares with earlier calls: ids are not reused,
  /// (term, list version) and replication epochs never fall, a crashed server never comes back, and
  /// every change of a tablet raises its revision.
  Status check(const ClusterState& state);
  /// Older metadata were imported, which do not have later recovery attempts.
  void imported();

 private:
  Status check_servers(const ClusterState& state);
  Status check_tables(const ClusterState& state);
  Status check_history(const ClusterState& state);
  Status check_tablets_since(const TableRecord& table);
  uint64_t term_ = 0;
  uint64_t list_version_ = 0;
  IdsRecord ids_;
  struct SeenServer {
    wire::ServerState state;
    uint64_t nonce;
  };
  std::map<uint64_t, SeenServer> servers_;
  std::map<uint64_t, ReplicationEpochRecord> replication_epochs_;
  std::map<uint64_t, std::string> tables_;                 // every id ever seen, with its name
  std::map<uint64_t, std::vector<TabletRecord>> tablets_;  // tablets of the present tables
  std::set<uint64_t> of_former_;  // tables whose tablets_ are of metadata from before an import
};

}  // namespace ramcloud
