#include "coordinator/core/cluster_view.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/text.h"
#include "coordinator/core/checks.h"

namespace ramcloud {
namespace {

/// "server 3 (demo-server-2)".
std::string label(const ServerRecord& server) {
  return server.name.empty() ? fmt::format("server {}", server.id)
                             : fmt::format("server {} ({})", server.id, server.name);
}

void add_tables(const ClusterState& state, ClusterStatus& status) {
  for (const auto& [id, table] : state.tables) {
    if (table.state == TableState::kDropping) continue;
    ++status.tables;
    status.tablets += static_cast<uint32_t>(table.tablets.size());
    for (const auto& tablet : table.tablets) {
      const bool lost = state.tablet_state(table, tablet) == wire::TabletState::kUnavailable;
      status.tablets_unavailable += lost ? 1 : 0;
    }
  }
}

void add_stats(const wire::ServerStats& stats, ClusterStatus& status) {
  ReplicationSummary& sum = status.replication;
  sum.replicas_wanted = std::max(sum.replicas_wanted, static_cast<uint32_t>(stats.replicas_wanted));
  sum.segments += stats.segments;
  sum.segments_fully_replicated += stats.segments_fully_replicated;
  sum.segments_under_replicated += stats.segments_under_replicated;
  sum.unreplicated_bytes += stats.unreplicated_bytes;
  sum.segments_degraded += stats.segments_degraded;
  sum.masters_waiting += stats.writes_wait != 0 ? 1 : 0;
  status.objects += stats.objects;
  status.memory.add(stats);
  if (stats.cleaner <= status.cleaner.state) return;
  status.cleaner = {stats.cleaner, stats.cleaner_why, stats.cleaner_write_cost_milli};
}

/// Collects reasons; health is the worst of them.
class Diagnosis {
 public:
  void add(Health severity, std::string reason) {
    health_ = std::max(health_, severity);
    (severity == Health::kUnavailable ? unavailable_ : others_).push_back(std::move(reason));
  }
  void write(ClusterStatus& status) {
    status.health = health_name(health_);
    status.reasons = std::move(unavailable_);
    status.reasons.insert(status.reasons.end(), others_.begin(), others_.end());
  }

 private:
  Health health_ = Health::kHealthy;
  std::vector<std::string> unavailable_, others_;
};

void diagnose_servers(const ClusterState& state, Diagnosis& diagnosis) {
  const auto tablets = state.tablets_by_server();
  for (const auto& [id, server] : state.servers) {
    const auto owned = tablets.find(id);
    if (server.suspected) {
      diagnosis.add(Health::kDegraded, label(server.record) + " does not answer");
    }
    if (server.up() && server.stats.device() != wire::BackupDevice::kGood) {
      diagnosis.add(
          Health::kDegraded,
          fmt::format(
              "{}: its backup takes no replicas, the device {}", label(server.record),
              server.stats.device() == wire::BackupDevice::kFull ? "is full" : "has failed"));
    }
    if (server.up() && server.stats.writes_wait != 0) {
      diagnosis.add(Health::kDegraded, label(server.record) +
                                           ": writes wait, too few other failure domains can take "
                                           "replicas");
    }
    if (!server.up() && owned != tablets.end()) {
      diagnosis.add(Health::kUnavailable,
                    fmt::format("{} is crashed and has {} tablets: {}", label(server.record),
                                owned->second, server.record.state_reason));
    }
  }
}

void diagnose_recoveries(const ClusterState& state, Diagnosis& diagnosis) {
  for (const auto& [id, progress] : state.recoveries) {
    if (progress.waits_for.empty()) continue;
    diagnosis.add(Health::kUnavailable,
                  fmt::format("the recovery of {} is {}: {}", label(state.servers.at(id).record),
                              recovery_phase_name(progress.phase), progress.waits_for));
  }
}

/// Tablets that no server serves and no recovery will restore, although the metadata is consistent.
void diagnose_owners(const ClusterState& state, Diagnosis& diagnosis) {
  for (const ClusterState::NotThere& one : state.not_there) {
    const auto server = state.servers.find(one.server_id);
    const auto table = state.tables.find(one.table_id);
    if (server == state.servers.end() || table == state.tables.end()) continue;
    diagnosis.add(
        Health::kUnavailable,
        fmt::format("{} says that it does not have the tablets of table {} that attempt "
                    "{} of a recovery gave to it",
                    label(server->second.record), quoted(table->second.name), one.attempt));
  }
}

void diagnose_detection(const Detection& detection, Diagnosis& diagnosis) {
  if (!detection.suspect) return;
  std::string names;
  for (const std::string& name : detection.waits_for) names += (names.empty() ? "" : ", ") + name;
  diagnosis.add(Health::kDegraded,
                fmt::format("failure detection is SUSPECT, so no silent server is marked CRASHED: "
                            "{} of {} servers are accounted for; waiting for {}",
                            detection.accounted, detection.expected, names));
}

void diagnose_import(const ClusterState& state, Diagnosis& diagnosis) {
  if (!state.restate) return;
  std::string names;
  for (const auto& [id, server] : state.servers) {
    if (!server.up() || server.restated) continue;
    names += (names.empty() ? "" : ", ") + label(server.record);
  }
  diagnosis.add(Health::kDegraded,
                "the metadata was imported: no table is created, dropped or looked up until live "
                "servers have said what they own" +
                    (names.empty() ? names : "; waiting for " + names));
}

void diagnose(const ClusterState& state, const ClusterStatus& status, Diagnosis& diagnosis) {
  if (status.servers_up == 0) diagnosis.add(Health::kUnavailable, "no server is up");
  diagnose_servers(state, diagnosis);
  diagnose_recoveries(state, diagnosis);
  diagnose_owners(state, diagnosis);
  diagnose_detection(state.detection, diagnosis);
  diagnose_import(state, diagnosis);
  const ReplicationSummary& sum = status.replication;
  if (sum.segments_under_replicated > 0) {
    diagnosis.add(
        Health::kDegraded,
        fmt::format("{} segments have fewer than {} replicas{}", sum.segments_under_replicated,
                    sum.replicas_wanted, sum.segments_degraded > 0 ? ", and writes go on" : ""));
  }
  uint32_t wanted = 0;
  for (const auto& [id, server] : state.servers) {
    if (server.up()) wanted = std::max(wanted, server.record.replicas);
  }
  if (status.servers_up > 0 && status.servers_up < wanted + 1) {
    diagnosis.add(Health::kDegraded, fmt::format("{} replicas need {} servers, {} are up", wanted,
                                                 wanted + 1, status.servers_up));
  }
}

/// Memory that a server has for recovered data. Cleaning needs a tenth of a log to be free.
uint64_t room_of(const wire::ServerStats& stats) {
  const bool cleans = stats.cleaner != wire::CleanerState::kNone;
  return stats.log_bytes_lasting() - (cleans ? stats.log_bytes_lasting() / 10 : 0);
}

/// How many servers may fail so that the remaining ones have memory for all data.
uint32_t memory_survives(std::vector<wire::ServerStats> servers) {
  std::ranges::sort(servers, {}, &wire::ServerStats::log_bytes_lasting);
  uint64_t used = 0, left = 0;
  for (const wire::ServerStats& one : servers) used += one.kept_bytes();
  for (size_t kept = 1; kept <= servers.size(); ++kept) {
    left += room_of(servers[kept - 1]);
    if (left >= used) return static_cast<uint32_t>(servers.size() - kept);
  }
  return 0;
}

/// How many servers may fail so that the remaining ones can hold the replicas of what they recover.
/// They must be in at least --min-replicas + 1 failure domains (default: R - 1, at least 1).
uint32_t domains_survive(std::map<std::string, uint32_t> servers_by_domain, uint32_t replicas) {
  const size_t needed = replicas == 0 ? 1 : std::max(1u, replicas - 1) + 1;
  if (servers_by_domain.size() < needed) return 0;
  std::vector<uint32_t> sizes;
  for (const auto& [domain, servers] : servers_by_domain) sizes.push_back(servers);
  std::ranges::sort(sizes);
  // Assume that the smallest domains fail first. One more domain than allowed is lost when its last
  // server fails.
  const auto gone = sizes.begin() + static_cast<ptrdiff_t>(sizes.size() - needed + 1);
  return std::accumulate(sizes.begin(), gone, 0u) - 1;
}

/// How many more servers, in any combination, may fail so that all data is served again without
/// help. Computed from the masters' last statistics, which do not tell how many replicas a degraded
/// segment has. At least half of the servers must remain, so that silence is still enough for
/// verdicts.
uint32_t survives(const ClusterState& state, const ClusterStatus& status) {
  if (status.tablets_unavailable > 0 || !state.recoveries.empty() || state.restate) return 0;
  std::vector<wire::ServerStats> up;
  std::map<std::string, uint32_t> domains;
  uint64_t copies = ~uint64_t{0};
  uint32_t most_replicas = 0;
  for (const auto& [id, server] : state.servers) {
    if (!server.up()) continue;
    const wire::ServerStats& stats = server.stats;
    if (!server.answered || stats.segments_under_replicated > 0) return 0;
    const std::string& domain = server.record.failure_domain;
    ++domains[domain.empty() ? fmt::format("server:{}", id) : domain];
    most_replicas = std::max(most_replicas, server.record.replicas);
    copies = std::min<uint64_t>(copies,
                                std::min<uint64_t>(server.record.replicas, stats.replicas_wanted));
    up.push_back(stats);
  }
  if (up.empty()) return 0;
  return static_cast<uint32_t>(
      std::min({copies, uint64_t{domains_survive(std::move(domains), most_replicas)},
                uint64_t{memory_survives(std::move(up))}}));
}

}  // namespace

void MemorySummary::add(const wire::ServerStats& stats) {
  total_bytes += stats.log_bytes_total;
  used_bytes += stats.log_bytes_used;
  live_bytes += std::min(stats.log_bytes_live, stats.log_bytes_used);
  hash_table_bytes += stats.hash_table_bytes;
  const bool told = stats.log_bytes_target != 0;
  target_bytes += told ? stats.log_bytes_target : stats.log_bytes_total;
  held_bytes += told ? stats.log_bytes_held : stats.log_bytes_total;
}

std::string cleaner_state_name(wire::CleanerState state) {
  switch (state) {
    case wire::CleanerState::kNone:
      return "OFF";
    case wire::CleanerState::kIdle:
      return "IDLE";
    case wire::CleanerState::kCompacting:
      return "COMPACTING";
    case wire::CleanerState::kCombined:
      return "COMBINED";
    case wire::CleanerState::kEmergency:
      return "EMERGENCY";
  }
  return "UNKNOWN";
}

std::string health_name(Health health) {
  switch (health) {
    case Health::kHealthy:
      return "HEALTHY";
    case Health::kDegraded:
      return "DEGRADED";
    case Health::kUnavailable:
      break;
  }
  return "UNAVAILABLE";
}

std::string detection_name(const Detection& detection) {
  return detection.suspect ? "SUSPECT" : "SOUND";
}

std::string recovery_phase_name(RecoveryProgress::Phase phase) {
  using Phase = RecoveryProgress::Phase;
  switch (phase) {
    case Phase::kQuerying:
      return "QUERYING";
    case Phase::kWaiting:
      return "WAITING";
    case Phase::kBlocked:
      return "BLOCKED";
    case Phase::kReplaying:
      return "REPLAYING";
    case Phase::kHandingOver:
      return "HANDING_OVER";
  }
  return "invalid";
}

RecoveryProgress::Phase recovery_phase(const std::string& name) {
  using Phase = RecoveryProgress::Phase;
  for (const Phase phase :
       {Phase::kQuerying, Phase::kBlocked, Phase::kReplaying, Phase::kHandingOver}) {
    if (name == recovery_phase_name(phase)) return phase;
  }
  return Phase::kWaiting;
}

std::string recovery_state_name(const RecoveryProgress& progress) {
  using Phase = RecoveryProgress::Phase;
  if (progress.done) return "DONE";
  switch (progress.phase) {
    case Phase::kQuerying:
      return progress.timeline.queried ? "PLANNING" : "DETECTED";
    case Phase::kWaiting:
      return "WAITING";
    case Phase::kBlocked:
      return "BLOCKED";
    case Phase::kReplaying:
    case Phase::kHandingOver:
      break;
  }
  return "REPLAYING";
}

ClusterStatus cluster_status(const ClusterState& state, const std::string& version) {
  ClusterStatus status;
  status.cluster_name = state.name;
  status.cluster_uuid = format_uuid(state.uuid);
  status.version = version;
  status.term = state.term;
  status.detection = state.detection;
  for (const auto& [id, progress] : state.recoveries) {
    status.recoveries.push_back({id, state.servers.at(id).record.name, progress});
  }
  for (const EndedRecovery& ended : state.ended_recoveries) {
    status.recoveries_ended.push_back({ended.server_id, ended.name, ended.progress});
  }
  add_tables(state, status);
  const auto tablets = state.tablets_by_server();
  for (const auto& [id, server] : state.servers) {
    if (server.record.state == wire::ServerState::kCrashed) ++status.servers_crashed;
    if (!server.up()) continue;
    ++status.servers_up;
    if (tablets.contains(id)) ++status.masters_with_tablets;
    add_stats(server.stats, status);
  }
  status.survives_servers = survives(state, status);
  Diagnosis diagnosis;
  diagnose(state, status, diagnosis);
  diagnosis.write(status);
  return status;
}

ServerView server_view(const ClusterState& state, const ServerEntry& server) {
  const ServerRecord& record = server.record;
  ServerView view;
  view.id = record.id;
  view.name = record.name;
  view.state = record.state;
  view.state_reason = record.state_reason;
  if (server.suspected) view.state_reason = "does not answer probes; no verdict yet";
  view.locator = record.locator;
  view.locator_outside = record.locator_outside;
  view.http_address = record.http_address;
  view.failure_domain = record.failure_domain;
  view.version = record.version;
  view.enlisted_at_ms = record.enlisted_at_ms;
  view.stats = server.stats;
  if (const auto fence = state.replication_epochs.find(record.id);
      fence != state.replication_epochs.end()) {
    view.fence_segment = fence->second.lowest_open_segment;
    view.fence_epoch = fence->second.epoch;
  }
  return view;
}

}  // namespace ramcloud
