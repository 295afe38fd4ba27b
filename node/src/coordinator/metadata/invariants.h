// Re-verifies everything that must hold of the coordinator's state: at every start over what was
// loaded, and after every step in tests and simulations.
#pragma once

#include "coordinator/metadata/cluster_state.h"

namespace ramcloud {

class Invariants {
 public:
  /// INTERNAL naming what is broken. Also compares with what was seen by earlier calls: ids are not
  /// reused, (term, list version) never falls, a crashed server never comes back, replication
  /// epochs never fall, what changes of a tablet raises its revision.
  Status check(const ClusterState& state);
  /// Older metadata were imported: they do not know of later attempts to recover a tablet.
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
  std::map<uint64_t, std::vector<TabletRecord>> tablets_;  // of those that there are
};

}  // namespace ramcloud
