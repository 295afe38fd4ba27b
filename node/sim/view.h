// A snapshot of a simulated cluster between two steps: plain data, which Invariants checks and
// which tests can make up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "coordinator/metadata/cluster_state.h"
#include "log/format.h"
#include "server/server_node.h"

namespace ramcloud::sim {

/// The state that is checked after every turn of a server: a few numbers, no allocation.
struct ServerNumbers {
  uint64_t server_id = 0;  // 0: not enlisted yet; then only the list counts
  uint64_t life = 0;       // of its process: another after a restart, and for another server
  log::LogPosition durable;
  log::LogPosition appended;  // the end of the log
  uint32_t epoch = 0;         // replication epoch of this master
  uint64_t list_term = 0;     // of the server list it has
  uint64_t list_version = 0;
  // Frames of its backup.
  uint64_t frames = 0;
  uint64_t frames_free = 0;
  uint64_t frames_quarantined = 0;
  uint64_t frames_held = 0;       // by replicas
  uint64_t frames_preparing = 0;  // on their way to replicas
  bool device_failed = false;     // then frames may be lost
};

/// The replicas of a segment that the durable position was in, or is in, when that has risen.
struct Backing {
  uint32_t wanted = 0;  // replicas that the segment does not go on without
  // What they must have: everything up to the position; if that has left the segment, all of it,
  // closed.
  uint32_t lacking = 0;  // of these, the ones that do not have it
  uint32_t holding = 0;  // replicas that count and have it
  uint32_t needed = 0;   // fewer must not do
};

struct ClusterView {
  struct Segment {
    uint64_t id = 0;
    uint32_t published = 0;
    uint32_t entry_bytes = 0;  // appended, headers and bodies of entries
    uint32_t live_bytes = 0;
    bool closed = false;
  };
  /// One replica: what its master knows of it, and what the backup has.
  struct Replica {
    uint64_t segment_id = 0;
    uint64_t backup_id = 0;
    bool counts = false;
    bool closed = false;
    uint32_t acked = 0;  // bytes
    uint32_t acked_epoch = 0;
    bool backup_runs = false;  // a process of this id is there
    // The backup's:
    bool found = false;
    bool incomplete = false;
    bool held_closed = false;
    uint32_t held = 0;
    uint32_t held_epoch = 0;
    std::optional<uint32_t> differs_at = {};  // first byte below `acked` that is not the master's
  };
  struct Tablet {
    uint64_t table_id = 0;
    uint64_t start_hash = 0;
    uint64_t end_hash = 0;
    bool served = false;
    uint64_t objects = 0;
    uint64_t object_bytes = 0;
    bool recovered = false;  // or being recovered: it may have brought tombstones
  };
  struct Server {
    ServerNumbers numbers;
    bool fence_holds = true;
    std::vector<Segment> segments;  // by rising id
    std::vector<uint64_t> digest;   // of the one opened last
    std::vector<Replica> replicas;
    std::vector<Tablet> tablets;
    uint64_t live_beside = 0;  // bytes of segments that are not in the log, or not any more
    // Of the hash table: objects, and tombstones of fresh deletes and of recovered tablets.
    uint64_t slots_used = 0;
    uint64_t pending_deletes = 0;
    std::vector<std::pair<uint64_t, wire::ServerState>> listed;  // its server list
    std::string broken;  // what the store's own invariants say, if they were asked
  };
  const ClusterState* leader = nullptr;  // null: nobody leads
  std::vector<Server> servers;           // whose processes run and have enlisted

  const Server* find(uint64_t server_id) const {
    for (const Server& server : servers) {
      if (server.numbers.server_id == server_id) return &server;
    }
    return nullptr;
  }
};

// ---- looking ------------------------------------------------------------------------------------

ServerNumbers numbers_of(const server::ServerNode& server, uint64_t life);
/// The first that lacks something, of the segments between the durable position `before` and the
/// present one; else that of the present one.
Backing backing_of(const server::ServerNode& server, log::LogPosition before);

/// A running server, with the life that its numbers are to have.
struct Running {
  const server::ServerNode* server = nullptr;
  uint64_t life = 0;
};

/// Bytes of replicas that were compared before, so that each is read once: they never change.
class Compared {
 public:
  uint32_t& upto(uint64_t master, uint64_t segment, uint64_t backup) {
    return upto_[{master, segment, backup}];
  }
  void forget() { upto_.clear(); }

 private:
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint32_t> upto_;
};

/// Everything about them. `deep`: also checks that read all data of a master.
ClusterView look_at(const std::vector<Running>& running, const ClusterState* leader,
                    Compared& compared, bool deep);

}  // namespace ramcloud::sim
