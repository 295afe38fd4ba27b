// Bodies of the control operations (coordinator, server list, tablets), in codec.h's encoding.
// A reply whose status is not OK has an ErrorBody (data_messages.h) instead.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ramcloud::wire {

using Uuid = std::array<uint8_t, 16>;

enum class ServerState : uint8_t { kUp = 1, kCrashed = 2, kRemoved = 3 };
enum class TabletState : uint8_t { kNormal = 1, kCreating = 2, kUnavailable = 3 };

/// A request or reply without fields.
struct Empty {
  template <class V>
  void fields(V&) {}
};

// ---- kGetClusterInfo (client -> coordinator): Empty -> ClusterInfo ------------------------------

struct ClusterInfo {
  Uuid cluster_uuid{};
  std::string cluster_name;
  std::string version;
  std::string admin_address;  // host:port of the admin API, for the side the caller came in by
  uint64_t term = 0;
  uint64_t metadata_revision = 0;  // of the last change (no table has a higher one); 0: not told
  template <class V>
  void fields(V& v) {
    v(cluster_uuid, cluster_name, version, admin_address, term);
    v.since(2, metadata_revision);
  }
};

// ---- tables (client -> coordinator)

struct TabletInfo {
  uint64_t start_hash = 0;  // inclusive
  uint64_t end_hash = 0;    // inclusive
  uint64_t server_id = 0;
  TabletState state = TabletState::kNormal;
  std::string locator;  // of the server, for the side the caller came in by; empty if it is dead
  template <class V>
  void fields(V& v) {
    v(start_hash, end_hash, server_id, state, locator);
  }
};

struct TableInfo {
  uint64_t table_id = 0;
  std::string name;
  std::vector<TabletInfo> tablets;  // in hash order, covering the whole range
  template <class V>
  void fields(V& v) {
    v(table_id, name, tablets);
  }
};

/// kCreateTable: CreateTableRequest -> TableInfo. If a table of that name exists, it is returned if
/// its span is the requested one [Ousterhout15, figure 2], otherwise EXISTS.
struct CreateTableRequest {
  std::string name;
  uint32_t span = 1;
  template <class V>
  void fields(V& v) {
    v(name, span);
  }
};

/// kDropTable: DropTableRequest -> Empty; NOT_FOUND if absent.
struct DropTableRequest {
  std::string name;
  template <class V>
  void fields(V& v) {
    v(name);
  }
};

/// kGetTable: GetTableRequest -> TableInfo; NOT_FOUND if absent. By id when name is empty.
struct GetTableRequest {
  std::string name;
  uint64_t table_id = 0;
  template <class V>
  void fields(V& v) {
    v(name, table_id);
  }
};

/// kListTables: ListTablesRequest -> ListTablesReply, ordered by id. Clients of earlier versions
/// send Empty, and get the whole list, if it fits into a message.
struct ListTablesRequest {
  uint64_t first_id = 0;   // 0, then next_id of the previous page
  uint32_t max_bytes = 0;  // of the page's tables; at least one is returned. 0: the whole list
  template <class V>
  void fields(V& v) {
    v.since(2, first_id, max_bytes);
  }
};

struct ListTablesReply {
  std::vector<TableInfo> tables;
  uint64_t next_id = 0;  // 0: there are no more
  template <class V>
  void fields(V& v) {
    v(tables);
    v.since(2, next_id);
  }
};

// ---- membership

struct ServerListEntry {
  uint64_t server_id = 0;
  ServerState state = ServerState::kUp;
  std::string name;
  std::string locator;
  std::string failure_domain;
  uint64_t disk_read_bytes_per_second = 0;  // 0: not measured
  /// It is not UP, and had announced that it stops (kStopServing). False if this leader did not
  /// receive the announcement.
  bool stopped_by_plan = false;
  template <class V>
  void fields(V& v) {
    v(server_id, state, name, locator, failure_domain, disk_read_bytes_per_second);
    v.since(2, stopped_by_plan);
  }
};

/// The whole list of `version`, or, with a base, the changes since: new or different entries, and
/// removed ones with the state REMOVED. Servers refuse a lower (term, version) than they have, and
/// changes since any other version than theirs (WRONG_VERSION).
struct ServerList {
  uint64_t term = 0;
  uint64_t version = 0;
  std::vector<ServerListEntry> servers;
  uint64_t base_version = 0;  // 0: the whole list
  template <class V>
  void fields(V& v) {
    v(term, version, servers);
    v.since(2, base_version);
  }
};

/// kEnlist (server -> coordinator): EnlistRequest -> EnlistReply.
struct EnlistRequest {
  Uuid cluster_uuid{};            // from the backup volume's superblock; all zero: a fresh volume
  uint64_t former_server_id = 0;  // from the superblock; 0: a fresh volume. It becomes CRASHED.
  std::string name;
  std::string version;
  std::string locator;
  std::string locator_outside;
  std::string http_address;
  std::string failure_domain;
  uint64_t log_bytes = 0;
  uint64_t backup_bytes = 0;
  uint64_t disk_read_bytes_per_second = 0;
  uint32_t replicas = 0;       // R, as configured on this master
  uint64_t nonce = 0;          // same in retries of one start: enlisting twice gives the same id
  uint32_t read_lease_ms = 0;  // how long it answers from memory after a confirmation; 0: not told
  template <class V>
  void fields(V& v) {
    v(cluster_uuid, former_server_id, name, version, locator, locator_outside, http_address,
      failure_domain, log_bytes, backup_bytes, disk_read_bytes_per_second, replicas, nonce);
    v.since(2, read_lease_ms);
  }
};

struct EnlistReply {
  uint64_t server_id = 0;
  Uuid cluster_uuid{};
  ServerList list;
  template <class V>
  void fields(V& v) {
    v(server_id, cluster_uuid, list);
  }
};

/// kGetServerList (server -> coordinator): GetServerListRequest -> ServerList. The coordinator
/// sends each new list to servers. A server that has heard nothing for long asks, because a server
/// that was given up gets no messages any more. `server_id` is needed after an import of older
/// metadata, which may not have the server.
struct GetServerListRequest {
  uint64_t server_id = 0;  // 0: not told
  std::string locator;
  template <class V>
  void fields(V& v) {
    v.since(2, server_id, locator);
  }
};

/// kGetRecovered (server -> coordinator): GetRecoveredRequest -> Recovered. Tells which of these
/// masters were recovered, or owned nothing, durably and for ever: their replicas are not needed.
/// About other masters nothing is known. INVALID_ARGUMENT above kMaxIdsAtOnce.
struct GetRecoveredRequest {
  static constexpr size_t kMaxIdsAtOnce = 1024;
  std::vector<uint64_t> master_ids;
  template <class V>
  void fields(V& v) {
    v(master_ids);
  }
};

struct Recovered {
  std::vector<uint64_t> master_ids;
  template <class V>
  void fields(V& v) {
    v(master_ids);
  }
};

/// kRaiseReplicationEpoch (server -> coordinator): RaiseReplicationEpochRequest -> Empty, answered
/// when it is durable. From then on a replica of this master that is not closed counts only if its
/// segment and its epoch are at least these. Idempotent; CRASHED once the server is listed as
/// crashed, STALE_TERM if one of the two is lower than before.
struct RaiseReplicationEpochRequest {
  uint64_t server_id = 0;
  uint64_t lowest_open_segment = 0;
  uint32_t epoch = 0;
  template <class V>
  void fields(V& v) {
    v(server_id, lowest_open_segment, epoch);
  }
};

/// kUpdateServerList (coordinator -> server): ServerList -> Empty.

/// kTakeTablet (coordinator -> server): TakeTabletRequest -> TakeTabletReply. Idempotent.
struct TakeTabletRequest {
  uint64_t term = 0;
  uint64_t revision = 0;  // of the table's metadata; orders with lower ones are refused
  uint64_t table_id = 0;
  uint64_t start_hash = 0;
  uint64_t end_hash = 0;
  std::string table_name = {};  // the server repeats it when it restates what it owns
  template <class V>
  void fields(V& v) {
    v(term, revision, table_id, start_hash, end_hash);
    v.since(2, table_name);
  }
};

/// A server of an earlier version answers with an empty body.
struct TakeTabletReply {
  /// The tablet's first position in the server's log: entries before it do not belong to the
  /// tablet. A repeated order gets the same position. 0: the log's start.
  uint64_t creation_position = 0;
  template <class V>
  void fields(V& v) {
    v.since(2, creation_position);
  }
};

/// kDropTablet (coordinator -> server): DropTabletRequest -> Empty. Idempotent: drops every tablet
/// of the table on this server and its objects.
struct DropTabletRequest {
  uint64_t term = 0;
  uint64_t revision = 0;
  uint64_t table_id = 0;
  template <class V>
  void fields(V& v) {
    v(term, revision, table_id);
  }
};

/// kGetServerStats (coordinator -> server): GetServerStatsRequest -> ServerStats. Also the probe of
/// failure detection; it carries the version of the current list.
struct GetServerStatsRequest {
  uint64_t term = 0;
  uint64_t list_version = 0;
  template <class V>
  void fields(V& v) {
    v(term, list_version);
  }
};

/// The state of a server's cleaner.
enum class CleanerState : uint8_t {
  kNone = 0,  // there is no cleaner, or the server does not tell
  kIdle = 1,
  kCompacting = 2,
  kCombined = 3,
  kEmergency = 4,  // combined cleaning, because no new head can be opened
};

/// The state of a backup's device.
enum class BackupDevice : uint64_t {
  kGood = 0,
  kFull = 1,    // the last replica was refused because there was no space
  kFailed = 2,  // it takes no replicas any more
};

/// Frames of a backup that only new heads may take: one in so many, up to the maximum.
inline constexpr uint32_t kHeadReserveShare = 8;
inline constexpr uint32_t kMostHeadReserve = 8;

struct ServerStats {
  uint64_t list_version = 0;  // the version that this server has
  uint64_t log_bytes_total = 0, log_bytes_used = 0, objects = 0, tablets = 0;
  uint64_t segments = 0, segments_fully_replicated = 0, segments_under_replicated = 0;
  uint64_t unreplicated_bytes = 0, replicas_wanted = 0;
  uint64_t frames_total = 0, frames_used = 0, frames_quarantined = 0;
  uint64_t reads = 0, writes = 0, deletes = 0;
  uint64_t segments_degraded = 0;  // segments that go on with fewer than R replicas
  uint64_t writes_wait = 0;        // 1: too few replicas can be placed
  uint64_t replication_epoch = 0;
  uint64_t backup_device = 0;   // a BackupDevice
  uint64_t log_bytes_live = 0;  // part of log_bytes_used: entries of live objects
  uint64_t hash_table_bytes = 0;
  CleanerState cleaner = CleanerState::kNone;
  std::string cleaner_why;                // for people
  uint64_t cleaner_write_cost_milli = 0;  // of log::CleanerState::write_cost, in thousandths
  // The target of a resize. log_bytes_total, the present limit, moves towards it. 0: not told.
  uint64_t log_bytes_target = 0;
  uint64_t log_bytes_held = 0;  // memory that the log has from the system
  /// True if no resize is in progress, as far as the server tells.
  bool log_resized() const {
    return log_bytes_target == 0 ||
           (log_bytes_total == log_bytes_target && log_bytes_held == log_bytes_target);
  }
  /// The memory that the log will keep: while it shrinks, the present limit is higher.
  uint64_t log_bytes_lasting() const {
    return log_bytes_target != 0 && log_bytes_target < log_bytes_total ? log_bytes_target
                                                                       : log_bytes_total;
  }
  /// Memory that cleaning cannot free. Without cleaning that is all of the used log.
  uint64_t kept_bytes() const {
    return cleaner == CleanerState::kNone ? log_bytes_used : log_bytes_live;
  }
  BackupDevice device() const { return static_cast<BackupDevice>(backup_device); }
  uint64_t frames_free() const {
    return frames_total - std::min(frames_used + frames_quarantined, frames_total);
  }
  /// Free frames that copies of replicas and recovered segments may take.
  uint64_t frames_for_copies() const {
    const uint64_t reserve = std::min<uint64_t>(frames_total / kHeadReserveShare, kMostHeadReserve);
    return frames_free() - std::min(frames_free(), reserve);
  }
  template <class V>
  void fields(V& v) {
    v(list_version, log_bytes_total, log_bytes_used, objects, tablets, segments,
      segments_fully_replicated, segments_under_replicated, unreplicated_bytes, replicas_wanted,
      frames_total, frames_used, frames_quarantined, reads, writes, deletes, segments_degraded,
      writes_wait, replication_epoch, backup_device);
    v.since(2, log_bytes_live, hash_table_bytes, cleaner, cleaner_why, cleaner_write_cost_milli);
    v.since(2, log_bytes_target, log_bytes_held);
  }
};

/// kResizeLog (coordinator -> server): ResizeLogRequest -> ResizeLogReply. Resizes the server's log
/// until its process ends. Answered when the target is accepted; the resize takes time
/// (docs/design/log.md#resize). Idempotent. INVALID_ARGUMENT names the value and what is accepted;
/// UNSUPPORTED from a server of an earlier version, and from one with reserved huge pages.
struct ResizeLogRequest {
  uint64_t term = 0;
  uint64_t log_bytes = 0;  // 0: change nothing, only report
  template <class V>
  void fields(V& v) {
    v(term, log_bytes);
  }
};

/// The resize is done when the first three are equal.
struct ResizeLogReply {
  uint64_t target_bytes = 0;
  uint64_t limit_bytes = 0;                  // the present limit
  uint64_t held_bytes = 0;                   // memory from the system
  uint64_t least_bytes = 0, most_bytes = 0;  // accepted as targets now
  std::vector<std::string> notes;            // for people: resources that are too small for such a
                                             // log
  bool done() const { return limit_bytes == target_bytes && held_bytes == target_bytes; }
  template <class V>
  void fields(V& v) {
    v(target_bytes, limit_bytes, held_bytes, least_bytes, most_bytes, notes);
  }
};

// ---- after an import of metadata (docs/design/coordinator.md, "Imports")

/// kRestate (coordinator -> server): RestateRequest -> Restatement. Asks for facts that an older
/// export may not have. A server of an earlier version answers UNSUPPORTED.
struct RestateRequest {
  uint64_t term = 0;
  template <class V>
  void fields(V& v) {
    v(term);
  }
};

struct RestatedTablet {
  uint64_t start_hash = 0;         // inclusive
  uint64_t end_hash = 0;           // inclusive
  uint64_t creation_position = 0;  // as in TakeTabletReply
  template <class V>
  void fields(V& v) {
    v(start_hash, end_hash);
    v.since(2, creation_position);
  }
};

/// A table about which this server has had orders.
struct RestatedTable {
  uint64_t table_id = 0;
  uint64_t revision = 0;                // of the last order that it followed
  bool dropped = false;                 // the last order was to drop the table
  std::string name;                     // empty: not told, by a coordinator of an earlier version
  std::vector<RestatedTablet> tablets;  // its tablets on this server
  template <class V>
  void fields(V& v) {
    v(table_id, revision, dropped, name, tablets);
  }
};

struct Restatement {
  uint64_t server_id = 0;
  EnlistRequest enlisted;  // its enlist request
  ServerList list;         // its whole list
  std::vector<RestatedTable> tables;
  // The replication epoch that the coordinator has confirmed.
  uint64_t lowest_open_segment = 0;
  uint32_t epoch = 0;
  template <class V>
  void fields(V& v) {
    v(server_id, enlisted, list, tables, lowest_open_segment, epoch);
  }
};

// ---- failure detection (docs/design/coordinator.md, "Failure detection") ------------------------

/// The result of one probe of a server's address.
enum class PeerState : uint8_t {
  kVoid = 0,      // nothing: the observer's own timers ran late, or it does not know the server
  kAnswered = 1,  // the server is alive
  kRefused = 2,   // no process listens at its address
  kStranger = 3,  // another process listens there
  kSilent = 4,    // no answer in time
  kBroken = 5,    // a connection broke: the server may be dead
};

/// kReportServer (server -> coordinator): ReportServerRequest -> Empty. A hint: the coordinator
/// probes the server at once, and decides by its own probes. Reports about servers that are not UP
/// are ignored. A coordinator of an earlier version answers UNSUPPORTED.
struct ReportServerRequest {
  uint64_t reporter_id = 0;
  uint64_t server_id = 0;
  PeerState state = PeerState::kVoid;
  template <class V>
  void fields(V& v) {
    v(reporter_id, server_id, state);
  }
};

/// kProbePeer (coordinator -> server): ProbePeerRequest -> ProbePeerReply. The server pings the
/// peer at the address in its server list (the request has no address), for at most `timeout_ms`,
/// and answers the result. A server of an earlier version answers UNSUPPORTED.
struct ProbePeerRequest {
  uint64_t term = 0;
  uint64_t server_id = 0;
  uint32_t timeout_ms = 0;  // 1 to 10,000
  template <class V>
  void fields(V& v) {
    v(term, server_id, timeout_ms);
  }
};

struct ProbePeerReply {
  PeerState state = PeerState::kVoid;
  template <class V>
  void fields(V& v) {
    v(state);
  }
};

}  // namespace ramcloud::wire
