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
  uint64_t server_id = 0;  // 0: not enlisted yet; then only the list is checked
  uint64_t life = 0;       // identifies the process: different after each restart, and for each
                           // server
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
  uint64_t frames_preparing = 0;  // being prepared for replicas
  bool device_failed = false;     // then frames may be lost
};

/// The replicas of a segment, checked when the durable position has risen in it.
struct Backing {
  uint32_t wanted = 0;  // required replicas
  // They must have everything up to the position; if the position has left the segment, all of it,
  // closed.
  uint32_t lacking = 0;  // required replicas that do not have it
  uint32_t holding = 0;  // replicas that count and have it
  uint32_t needed = 0;   // the minimum of `holding`
};

struct ClusterView {
  struct Segment {
    uint64_t id = 0;
    uint32_t published = 0;
    uint32_t entry_bytes = 0;  // appended, headers and bodies of entries
    uint32_t live_bytes = 0;
    bool closed = false;
  };
  /// One replica: its master's state, and the backup's.
  struct Replica {
    uint64_t segment_id = 0;
    uint64_t backup_id = 0;
    bool counts = false;
    bool closed = false;
    uint32_t acked = 0;  // bytes
    uint32_t acked_epoch = 0;
    bool backup_runs = false;  // a process with this id runs
    // The backup's:
    bool found = false;
    bool incomplete = false;
    bool held_closed = false;
    uint32_t bytes_held = 0;
    uint32_t held_epoch = 0;
    std::optional<uint32_t> differs_at = {};  // first byte below `acked` that differs from the
                                              // master's
  };
  struct Tablet {
    uint64_t table_id = 0;
    uint64_t start_hash = 0;
    uint64_t end_hash = 0;
    bool served = false;
    uint64_t objects = 0;
    uint64_t object_bytes = 0;
    bool recovered = false;  // or being recovered, so it may have recovered tombstones
  };
  struct Server {
    ServerNumbers numbers;
    bool fence_holds = true;
    std::vector<Segment> segments;  // by rising id
    std::vector<uint64_t> digest;   // of the one opened last
    std::vector<Replica> replicas;
    std::vector<Tablet> tablets;
    uint64_t live_beside = 0;  // live bytes of segments that are not in the log (yet or any more)
    // Of the hash table: objects, and tombstones of fresh deletes and of recovered tablets.
    uint64_t slots_used = 0;
    uint64_t pending_deletes = 0;
    std::vector<std::pair<uint64_t, wire::ServerState>> listed;  // its server list
    std::string broken;  // the result of the store's own invariants, if they were checked
  };
  const ClusterState* leader = nullptr;  // null: nobody leads
  std::vector<Server> servers;           // servers that run and have enlisted

  const Server* find(uint64_t server_id) const {
    for (const Server& server : servers) {
      if (server.numbers.server_id == server_id) return &server;
    }
    return nullptr;
  }
};

// ---- looking ------------------------------------------------------------------------------------

ServerNumbers numbers_of(const server::ServerNode& server, uint64_t life);
/// Of the segments between the durable position `before` and the present one: the first that lacks
/// something, otherwise the last.
Backing backing_of(const server::ServerNode& server, log::LogPosition before);

/// A running server with its life number.
struct Running {
  const server::ServerNode* server = nullptr;
  uint64_t life = 0;
};

/// Bytes of replicas that were compared already. They never change, so each is read once.
class Compared {
 public:
  uint32_t& upto(uint64_t master, uint64_t segment, uint64_t backup) {
    return upto_[{master, segment, backup}];
  }
  void forget() { upto_.clear(); }

 private:
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint32_t> upto_;
};

/// Takes a snapshot. `deep`: includes checks that read all data of a master.
ClusterView look_at(const std::vector<Running>& running, const ClusterState* leader,
                    Compared& compared, bool deep);

}  // namespace ramcloud::sim
