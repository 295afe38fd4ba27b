// The status of a cluster for people and programs, as plain values: computed from the coordinator's
// state, sent by the admin API, read by the CLI.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/metadata/cluster_state.h"

namespace ramcloud {

/// Sums over the statistics that live masters report about their logs.
struct ReplicationSummary {
  uint32_t replicas_wanted = 0;  // R, the largest over masters
  uint64_t segments = 0;
  uint64_t segments_fully_replicated = 0;
  uint64_t segments_under_replicated = 0;
  uint64_t unreplicated_bytes = 0;
  uint64_t segments_degraded = 0;  // go on with fewer than R replicas
  uint32_t masters_waiting = 0;    // masters whose writes wait for replicas
  bool operator==(const ReplicationSummary&) const = default;
};

/// Memory of all servers that are UP, or of one.
struct MemorySummary {
  uint64_t total_bytes = 0, used_bytes = 0;  // of logs
  uint64_t live_bytes = 0;                   // part of used_bytes
  uint64_t hash_table_bytes = 0;
  // The target size of logs, and the memory that they have from the system. Both equal total_bytes,
  // unless a log is being resized.
  uint64_t target_bytes = 0, held_bytes = 0;
  void add(const wire::ServerStats& stats);
  bool operator==(const MemorySummary&) const = default;
};

/// The state of the cleaner that is in the worst state.
struct CleanerSummary {
  wire::CleanerState state = wire::CleanerState::kNone;
  std::string why;
  uint64_t write_cost_milli = 0;
  bool operator==(const CleanerSummary&) const = default;
};
/// "IDLE", "COMPACTING", "COMBINED", "EMERGENCY"; "OFF" if cleaning is off.
std::string cleaner_state_name(wire::CleanerState state);

enum class Health : uint8_t { kHealthy, kDegraded, kUnavailable };
/// "HEALTHY", "DEGRADED", "UNAVAILABLE".
std::string health_name(Health health);

/// "SOUND", "SUSPECT".
std::string detection_name(const Detection& detection);

/// "QUERYING", "WAITING", "BLOCKED", "REPLAYING", "HANDING_OVER".
std::string recovery_phase_name(RecoveryProgress::Phase phase);
/// The phase with this name; kWaiting for unknown names, which a newer coordinator may send.
RecoveryProgress::Phase recovery_phase(const std::string& name);
/// "DETECTED", "PLANNING", "REPLAYING", "WAITING", "BLOCKED", "DONE": for commands.
std::string recovery_state_name(const RecoveryProgress& progress);

struct RecoveryView {
  uint64_t server_id = 0;  // the crashed one
  std::string name;
  RecoveryProgress progress;
  /// False: sent by a coordinator of an earlier version, without state, outcome, reason, times,
  /// partitions and memory.
  bool told_whole = true;
  bool operator==(const RecoveryView&) const = default;
};

struct ClusterStatus {
  std::string cluster_name;
  std::string cluster_uuid;  // 8-4-4-4-12 text
  std::string version;       // of the coordinator
  uint64_t term = 0;
  uint64_t revision = 0;
  uint32_t servers_up = 0;
  uint32_t servers_crashed = 0;
  uint32_t tables = 0;
  uint32_t tablets = 0;
  uint32_t tablets_unavailable = 0;
  uint32_t masters_with_tablets = 0;  // masters that are UP and have tablets
  ReplicationSummary replication;
  uint64_t objects = 0;
  MemorySummary memory;
  CleanerSummary cleaner;
  std::string health;                // of health_name()
  std::vector<std::string> reasons;  // why it is not HEALTHY
  Detection detection;
  std::vector<RecoveryView> recoveries;
  std::vector<RecoveryView> recoveries_ended;  // the oldest first
  /// How many more servers, in any combination, may fail so that all data is served again without
  /// help. A lower bound.
  uint32_t survives_servers = 0;
  bool operator==(const ClusterStatus&) const = default;
};

struct ServerView {
  uint64_t id = 0;
  std::string name;
  wire::ServerState state = wire::ServerState::kUp;
  std::string state_reason;
  std::string locator;
  std::string locator_outside;
  std::string http_address;
  std::string failure_domain;
  std::string version;
  uint64_t enlisted_at_ms = 0;  // Unix time
  wire::ServerStats stats;      // from the last answered probe
  // The epoch fence: replicas of its log that are not closed count only from this segment and epoch
  // on; 0: all count.
  uint64_t fence_segment = 0;
  uint32_t fence_epoch = 0;
};

/// `revision` is left 0: it belongs to the event or answer that carries the status.
ClusterStatus cluster_status(const ClusterState& state, const std::string& version);
ServerView server_view(const ClusterState& state, const ServerEntry& server);

}  // namespace ramcloud
