// The invariants of a whole cluster under all faults. They are checked on plain snapshots (view.h),
// so that each rule has a test that breaks it. The cluster simulation checks them after every step
// (docs/design/simulation.md).
#pragma once

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>

#include "coordinator/metadata/invariants.h"
#include "sim/view.h"

namespace ramcloud::sim {

class Invariants {
 public:
  /// Each function returns the broken invariants, one text on each line; empty if there are none.
  /// They compare with earlier calls, so one object belongs to one cluster.

  /// After a turn of a server:
  /// - an id belongs to one process only, ever
  /// - the durable position, the end of the log, the replication epoch and the (term, version) of
  ///   the server list never fall; the durable position is at most the end of the log
  /// - every frame is free, in quarantine, a replica's, or on its way to one
  std::string after_turn(const ServerNumbers& server);
  /// When the durable position has risen: at least --min-replicas replicas, and all required ones,
  /// have everything up to it.
  std::string after_rise(const ServerNumbers& server, const Backing& backing);
  /// When the leading coordinator's state has changed: ramcloud::Invariants.
  std::string after_change(const ClusterState& leader);
  /// Tells that older metadata were imported.
  void imported() { coordinator_.imported(); }

  /// All servers together:
  /// - a table that is there is served by exactly the servers that the coordinator names, without
  ///   gap or overlap; no server serves a tablet that the coordinator did not give it (of the
  ///   servers that it lists as UP: one that was given up may not know it yet)
  /// - a replica that counts is at its backup: its acknowledged bytes are there, of no older
  ///   epoch, visible, closed if that was acknowledged; and it has all durable bytes of its segment
  /// - the newest digest names exactly the segments of the log; durable <= published
  /// - the coordinator knows of no higher replication epoch than its master, and of no lower one
  ///   where the fence holds
  /// - a server that was listed as CRASHED is not listed as UP again, by any observer
  /// - accounting: live <= appended <= published bytes of each segment; the hash table holds the
  ///   objects that the tablets count, and fresh deletes
  std::string check(const ClusterView& view);

 private:
  struct Seen {
    uint64_t life = 0;
    log::LogPosition durable;
    log::LogPosition appended;
    uint32_t epoch = 0;
  };
  struct List {
    uint64_t term = 0;
    uint64_t version = 0;
  };
  template <typename... Args>
  void require(bool holds, fmt::format_string<Args...> text, Args&&... args) {
    if (!holds) broken_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
  }
  void note_given_up(const ClusterView& view);
  void check_owners(const ClusterView& view);
  void check_served(const ClusterView& view, const ClusterView::Server& server);
  void check_log(const ClusterView::Server& server);
  void check_replicas(const ClusterView::Server& server);
  void check_epochs(const ClusterView& view, const ClusterView::Server& server);
  void check_listed(const ClusterView::Server& server);
  void check_accounting(const ClusterView::Server& server);

  std::string broken_;  // found by the present check
  ramcloud::Invariants coordinator_;
  std::map<uint64_t, Seen> servers_;                                   // by id
  std::map<uint64_t, List> lists_;                                     // by life
  std::set<uint64_t> given_up_;                                        // servers that some leader
                                                                       // gave up
  std::map<std::pair<uint64_t, uint64_t>, wire::ServerState> listed_;  // by observer's life and id
};

}  // namespace ramcloud::sim
