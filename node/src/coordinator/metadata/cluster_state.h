// The coordinator's state in memory: the durable records, and the facts that servers have reported
// since it started. Records change only after the ledger has committed the change.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "coordinator/metadata/records.h"
#include "transport/transport.h"

namespace ramcloud {

/// The prefix of the reason of a server that crashed after the export, until live servers have
/// restated what they own. By it a later leader knows that the server outlived the export.
inline constexpr std::string_view kFoundAtImport = "found when the metadata was imported: ";

struct ServerEntry {
  ServerRecord record;
  // Not durable:
  wire::ServerStats stats;          // from the last answered probe
  bool answered = false;            // a probe of this id was answered under this leadership
  bool enlisted_now = false;        // it enlisted under this leadership
  bool restated = false;            // after an import: it restated what it owns
  Time heard{};                     // its last sign of life, if there was one
  bool suspected = false;           // probes go unanswered, no verdict yet
  bool refuses_term = false;        // it knows a higher term, and refuses our orders
  uint64_t changed = 0;             // list version of its last change
  bool answers_nothing = false;     // it announced a planned stop: recovery need not wait for its
                                    // lease
  Time crashed_since{};             // when this leader saw the crash; only for a crashed server
  uint64_t list_version_acked = 0;  // it has this version of the list
  bool needs_whole_list = false;    // it could not apply changes
  bool pushing = false;             // a task is sending it the list
  bool probing = false;             // a task is probing it

  bool up() const { return record.state == wire::ServerState::kUp; }
};

/// The state of failure detection (docs/design/coordinator.md#failure-detection).
struct Detection {
  bool suspect = false;  // silence condemns no server at present
  uint32_t accounted = 0, expected = 0;
  std::vector<std::string> waits_for;  // for people; a few of them
  bool operator==(const Detection&) const = default;
};

/// The outcome for a server without replicas: its tablets come back empty.
inline constexpr const char* kAllLost = "ALL_LOST";

/// The progress of the recovery of a crashed server (docs/design/recovery.md).
struct RecoveryProgress {
  enum class Phase : uint8_t {
    kQuerying = 1,     // backups are asked which replicas of its log they have
    kWaiting = 2,      // for backups or recovery masters
    kBlocked = 3,      // no server can be expected to have what is missing
    kReplaying = 4,    // recovery masters read its log
    kHandingOver = 5,  // at least one has recovered its whole part
  };
  /// A needed segment of the log that is missing.
  struct Missing {
    uint64_t segment_id = 0;  // 0: it is unknown which
    std::string why;
    std::vector<uint64_t> holders;  // servers that have it and have not answered
    bool operator==(const Missing&) const = default;
  };
  Phase phase = Phase::kQuerying;
  std::string waits_for;  // for people; empty if it does not wait
  std::vector<Missing> missing;
  uint64_t attempt = 0;  // the latest; 0: none began
  uint32_t parts = 0, parts_done = 0;
  uint64_t bytes_total = 0, bytes_done = 0;  // bytes of the log; bytes of entries that were fetched
  uint64_t begun_at_ms = 0;                  // Unix time at which this leader saw the verdict
  std::string outcome;                       // that of its log, or kAllLost; empty: not known yet
  std::string reason;                        // why the server was given up
  bool done = false;                         // it ended
  uint64_t crashed_at_ms = 0;  // Unix time of its last sign of life, or of the verdict
  /// Milliseconds since then; none: not reached.
  struct Timeline {
    using Moment = std::optional<uint64_t>;
    Moment verdict, queried, planned, first_key, half, served, replicated;
    bool operator==(const Timeline&) const = default;
  };
  Timeline timeline;
  uint64_t entries = 0;  // objects that recovery masters have replayed
  /// The part of one recovery master in the latest attempt.
  struct Partition {
    uint64_t id = 0;  // within the attempt, from 1
    uint64_t recovery_master = 0;
    std::string state;                       // "REPLAYING", "HANDING_OVER", "DONE", "FAILED"
    uint64_t bytes = 0, bytes_replayed = 0;  // planned; fetched
    bool operator==(const Partition&) const = default;
  };
  std::vector<Partition> partitions;
  uint64_t needed_bytes = 0, free_bytes = 0;  // memory that the log needs; free memory of servers
                                              // that could take it
  bool operator==(const RecoveryProgress&) const = default;
};

/// A recovery that ended.
struct EndedRecovery {
  uint64_t server_id = 0;  // the crashed one
  std::string name;
  RecoveryProgress progress;
};
/// How many ended recoveries are kept.
inline constexpr size_t kEndedRecoveries = 20;

struct ClusterState {
  wire::Uuid uuid{};
  std::string name;
  uint16_t format = kMetadataFormatMax;  // of the records that are written
  uint64_t term = 0;
  uint64_t list_version = 0;        // revision of the last change of the server list
  uint64_t first_list_version = 0;  // first version of this leadership; changes since older
                                    // versions are not known
  uint64_t first_revision = 0;      // of the admin API, in this leadership
  RevisionsRecord revisions;
  IdsRecord ids;
  std::map<uint64_t, ServerEntry> servers;  // entries are not moved
  std::map<uint64_t, TableRecord> tables;
  std::map<uint64_t, ReplicationEpochRecord> replication_epochs;  // by master
  /// By crashed server, the oldest first. Never withdrawn.
  std::map<uint64_t, std::vector<AcceptedLossRecord>> accepted_losses;
  /// Set after an import, until live servers have restated what they own. Until then no order is
  /// sent.
  std::optional<RestateRecord> restate;
  Time no_verdict_before{};                         // not durable: after an import
  Detection detection;                              // not durable
  std::map<uint64_t, RecoveryProgress> recoveries;  // not durable; by crashed server
  std::deque<EndedRecovery> ended_recoveries;       // not durable; the oldest first
  struct NotThere {
    uint64_t server_id = 0;
    uint64_t table_id = 0;
    uint64_t attempt = 0;  // the attempt that gave the server tablets of the table
    auto operator<=>(const NotThere&) const = default;
  };
  /// Tablets whose owner in the metadata answered that it does not have them. Not durable: the next
  /// leader asks again.
  std::set<NotThere> not_there;

  /// Null if the server does not exist or is not UP.
  ServerEntry* up_server(uint64_t id);
  uint32_t servers_up() const;
  /// By name, without those being dropped; null if absent.
  const TableRecord* find_table(const std::string& table_name) const;
  wire::TabletState tablet_state(const TableRecord& table, const TabletRecord& tablet) const;
  /// Tablets of each server, without dropped tables and tablets that are not placed.
  std::map<uint64_t, uint32_t> tablets_by_server() const;

  /// For clients of `side`.
  wire::TableInfo table_info(const TableRecord& table, Side side) const;
  wire::ListTablesReply all_tables(Side side) const { return list_tables({}, side); }
  /// A page of them, ordered by id.
  wire::ListTablesReply list_tables(const wire::ListTablesRequest& wanted, Side side) const;
  /// The whole list without removed servers; or the changes since `base`, if that is a version of
  /// this leadership.
  wire::ServerList server_list(uint64_t base = 0) const;
  /// Which of these masters left for ever and owned nothing then: their replicas are not needed.
  std::vector<uint64_t> recovered(const std::vector<uint64_t>& master_ids) const;
};

}  // namespace ramcloud
