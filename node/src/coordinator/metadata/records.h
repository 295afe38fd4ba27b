// The records of the metadata store, in codec.h's encoding, and their keys. See docs/formats.md
// ("Metadata").
//
// There are three formats of records. In format 1 they are in version 1 of the encoding. In format
// 2 they are extensible: a mark, then version 2 of the encoding. Format 3 has more fields (those
// marked `since(3, …)`) and records of its own: tablets in chunks. Every reader accepts all of
// them, record by record. The record '/cluster' names the format that a leader writes
// (docs/design/coordinator.md). Fields that a newer coordinator added to a record are kept in
// `unknown`, and written back.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "wire/codec.h"
#include "wire/control_messages.h"

namespace ramcloud {

inline constexpr const char* kTermKey = "/term";
inline constexpr const char* kTermOffsetKey = "/term_offset";
/// Exists while an import runs.
inline constexpr const char* kImportKey = "/import";
/// Exists after an import until live servers have restated what they own.
inline constexpr const char* kRestateKey = "/restate";
inline constexpr const char* kClusterKey = "/cluster";
inline constexpr const char* kIdsKey = "/ids";
inline constexpr const char* kRevisionsKey = "/revisions";
inline constexpr const char* kServerPrefix = "/servers/";
inline constexpr const char* kTablePrefix = "/tables/";
inline constexpr const char* kReplicationEpochPrefix = "/replication-epochs/";
inline constexpr const char* kAcceptedLossPrefix = "/accepted-losses/";

// Ids are padded so that keys sort like ids.
inline std::string server_key(uint64_t id) {
  return fmt::format("{}{:020}", kServerPrefix, id);
}
inline std::string table_key(uint64_t id) {
  return fmt::format("{}{:020}", kTablePrefix, id);
}

/// The key of a chunk of a table's tablets, by its first hash.
inline std::string tablet_chunk_key(uint64_t table_id, uint64_t layout, uint64_t start_hash) {
  return fmt::format("{}/{:020}/{:016x}", table_key(table_id), layout, start_hash);
}
/// `key` begins with kTablePrefix. True: it is a chunk's key, not that of the table itself.
inline bool is_tablet_chunk_key(std::string_view key) {
  return key.find('/', std::string_view(kTablePrefix).size()) != std::string_view::npos;
}

inline std::string replication_epoch_key(uint64_t server_id) {
  return fmt::format("{}{:020}", kReplicationEpochPrefix, server_id);
}

/// The key of a loss of this server's log that an operator accepted in the transaction `revision`.
inline std::string accepted_loss_key(uint64_t server_id, uint64_t revision) {
  return fmt::format("{}{:020}/{:020}", kAcceptedLossPrefix, server_id, revision);
}

/// Formats of records that this version reads and writes.
inline constexpr uint16_t kMetadataFormatMin = 1;
inline constexpr uint16_t kMetadataFormatMax = 3;
/// The first format with tablets in chunks, and with their status.
inline constexpr uint16_t kTabletsInChunks = 3;

/// The prefix of each record of formats 2 and 3. No record of format 1 begins with it: those begin
/// with an id or a term below 2^63, with the length of a text, or ('/cluster') with 1 or 2.
inline constexpr std::string_view kRecordMark("\xffRCMETA\xff", 8);

/// A record's bytes in this format. '/cluster' is the same in all formats, so that every version
/// can tell whether it can read the rest.
template <typename Record>
std::string encode_record(const Record& record, uint16_t format) {
  if (format < 2 || requires { Record::kSameInAllFormats; }) return wire::encode(record, 1);
  std::string bytes(kRecordMark);
  wire::encode(record, format, bytes);
  return bytes;
}

/// False if the bytes are not such a record in any format.
template <typename Record>
[[nodiscard]] bool decode_record(std::string_view bytes, Record& record) {
  if (!bytes.starts_with(kRecordMark)) return wire::decode(bytes, 1, record);
  if (requires { Record::kSameInAllFormats; }) return false;
  return wire::decode(bytes.substr(kRecordMark.size()), kMetadataFormatMax, record);
}

/// The leadership, and the number of the last transaction. Every transaction is conditional on the
/// value that its leader knows, and writes the next one. So a former leader changes nothing, and no
/// transaction is applied twice.
struct TermRecord {
  uint64_t term = 0;
  uint64_t revision = 0;
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(term, revision);
    v.unknown(unknown);
  }
};

/// Terms are the numbers of leaderships plus this offset. Absent (0) unless the records came from
/// another store, where numbers were higher.
struct TermOffsetRecord {
  uint64_t offset = 0;
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(offset);
    v.unknown(unknown);
  }
};

/// The addresses of the leader, for callers that ask a standby. Empty if there is no such address.
struct LeaderRecord {
  std::string locator;
  std::string locator_outside;
  std::string admin_address;
  std::string admin_address_outside;
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(locator, locator_outside, admin_address, admin_address_outside);
    v.unknown(unknown);
  }
};

struct ClusterRecord {
  static constexpr bool kSameInAllFormats = true;
  uint16_t format = kMetadataFormatMax;  // of the other records that leaders write
  wire::Uuid uuid{};
  std::string name;
  template <class V>
  void fields(V& v) {
    v(format, uuid, name);
  }
};

/// How many revisions of the admin API a leader reserves at a time.
constexpr uint64_t kRevisionsReserved = uint64_t{1} << 24;

/// The first revision of the admin API for the next leader: above all that were used.
struct RevisionsRecord {
  uint64_t next = 0;
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(next);
    v.unknown(unknown);
  }
};

/// Values of the imported export before the gap was added.
struct RestateRecord {
  uint64_t revision = 0;  // revision of the last change
  uint64_t last_server_id = 0;
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(revision, last_server_id);
    v.unknown(unknown);
  }
};

/// The last assigned ids, which are never reused.
struct IdsRecord {
  uint64_t last_server_id = 0;
  uint64_t last_table_id = 0;
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(last_server_id, last_table_id);
    v.unknown(unknown);
  }
};

struct ServerRecord {
  uint64_t id = 0;
  wire::ServerState state = wire::ServerState::kUp;
  std::string state_reason;  // why it is not UP
  uint64_t enlisted_at_ms = 0;
  uint64_t nonce = 0;
  std::string name;
  std::string version;
  std::string locator;
  std::string locator_outside;
  std::string http_address;
  std::string failure_domain;
  uint64_t log_bytes = 0;
  uint64_t backup_bytes = 0;
  uint64_t disk_read_bytes_per_second = 0;
  uint32_t replicas = 0;
  // Its volume, identified by the first server that had it (coordinator/core/volumes.h). 0: not
  // recorded, by an earlier version or in format 1.
  uint64_t volume = 0;
  uint64_t released_until_ms = 0;  // a token to wipe the volume holds until then; Unix time
  // True if the metadata name every tablet that it ever got: they have had its record since it
  // enlisted, and after any import of older metadata it restated itself. False if an earlier
  // version or format did not record this.
  bool accounted = false;
  uint32_t read_lease_ms = 0;  // from its enlist request; 0: not told, or an earlier format
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(id, state, state_reason, enlisted_at_ms, nonce, name, version, locator, locator_outside,
      http_address, failure_domain, log_bytes, backup_bytes, disk_read_bytes_per_second, replicas);
    v.since(2, volume, released_until_ms);
    v.since(3, accounted, read_lease_ms);
    v.unknown(unknown);
  }
};

/// The fence of a master that lost a replica of an open segment: it decides which replicas that are
/// not closed still count (docs/design/replication.md). Both numbers only rise.
struct ReplicationEpochRecord {
  uint64_t server_id = 0;
  uint64_t lowest_open_segment = 0;
  uint32_t epoch = 0;
  // The value comes from an export. A higher one may have been confirmed before the import, and the
  // master died before it could restate it.
  bool of_export = false;
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(server_id, lowest_open_segment, epoch);
    v.since(3, of_export);
    v.unknown(unknown);
  }
};

/// A segment of a dead master's log whose missing part an operator gave up.
struct GivenUpSegment {
  uint64_t segment_id = 0;
  uint32_t found_bytes = 0;  // bytes that were still there
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(segment_id, found_bytes);
    v.unknown(unknown);
  }
  bool operator==(const GivenUpSegment&) const = default;
};

/// The part of a crashed server's log that an operator gave up, so that the rest can be recovered
/// (docs/design/recovery.md#accepted-losses). It is written once and never removed, so it is the
/// audit record as well.
struct AcceptedLossRecord {
  uint64_t server_id = 0;
  uint64_t revision = 0;  // of the transaction that wrote it
  std::vector<GivenUpSegment> segments;
  bool end_given_up = false;    // the log's end, after the newest known head, was given up
  uint64_t newest_head = 0;     // the newest head with a known digest at that time; 0: none
  uint64_t version_floor = 0;   // above every version that the server can have assigned
  uint64_t accepted_at_ms = 0;  // Unix time
  std::string by;               // the person, as given in the command
  std::string reason;
  std::string token;    // of the preview that was accepted
  std::string summary;  // of the preview, for people
  // If the end was given up: segments that were closed after the newest head and were still there.
  // No digest names them. Earlier versions did not record them.
  std::vector<uint64_t> later;
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(server_id, revision, segments, end_given_up, newest_head, version_floor, accepted_at_ms, by,
      reason, token, summary);
    v.since(3, later);
    v.unknown(unknown);
  }
};

enum class TableState : uint8_t {
  kCreating = 1,  // some servers may not have taken their tablets yet
  kNormal = 2,
  kDropping = 3,  // not visible to users; some servers may not have dropped their tablets yet
};

/// The most tablets of all tables together, so that the list of all tables fits into one message.
inline constexpr size_t kMaxTablets = 16'384;

enum class TabletStatus : uint8_t {
  kNormal = 1,
  kRecovering = 2,  // its server is not UP, and an attempt to recover it has begun
};

/// The creation position of a tablet whose last owner was not known after an import. It is recorded
/// as a crashed server's, so that it does not count as empty, but no log is read for it.
inline constexpr uint64_t kNobodysPosition = ~uint64_t{0};

struct TabletRecord {
  uint64_t start_hash = 0;  // inclusive
  uint64_t end_hash = 0;    // inclusive
  uint64_t server_id = 0;   // 0: not placed yet; only of a table being created
  TabletStatus status = TabletStatus::kNormal;
  /// Its first position in its server's log: entries before it do not belong to the tablet. 0: not
  /// told.
  uint64_t creation_position = 0;
  uint64_t revision = 0;  // of the transaction that changed it last
  uint64_t attempt = 0;   // the last recovery attempt; 0: none
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(start_hash, end_hash, server_id);
    v.since(3, status, creation_position, revision, attempt);
    v.unknown(unknown);
  }
};

/// Adjacent tablets of a table, at tablet_chunk_key(). Since format 3.
struct TabletChunkRecord {
  uint64_t table_id = 0;
  uint64_t layout = 0;
  std::vector<TabletRecord> tablets;  // in hash order, without a gap
  std::string unknown = {};
  template <class V>
  void fields(V& v) {
    v(table_id, layout, tablets);
    v.unknown(unknown);
  }
};

/// Identifies a chunk of a table.
struct TabletChunkName {
  uint64_t layout = 0;
  uint64_t start_hash = 0;
  auto operator<=>(const TabletChunkName&) const = default;
};

struct TableRecord {
  uint64_t id = 0;
  std::string name;
  TableState state = TableState::kCreating;
  uint64_t revision = 0;  // of the transaction that wrote this record
  /// In hash order, covering the whole range (docs/design/coordinator.md, "Tablets"). They are
  /// encoded here only if `layout` is 0.
  std::vector<TabletRecord> tablets;
  uint32_t span = 0;    // the number of tablets that its creator asked for
  uint64_t layout = 0;  // its chunks have the tablets; 0: this record has them, or they are not
                        // placed yet
  std::string unknown = {};
  // Not in this record:
  std::map<uint64_t, std::string> chunks = {};  // chunks of the layout, by first hash, with their
                                                // `unknown`
  std::vector<TabletChunkName> strays = {};     // chunks of unused layouts

  template <class V>
  void fields(V& v) {
    v(id, name, state, revision, tablets);
    v.since(3, span, layout);
    v.unknown(unknown);
  }
  bool has_tablet_on(uint64_t server_id) const {
    return std::ranges::any_of(
        tablets, [server_id](const TabletRecord& t) { return t.server_id == server_id; });
  }
  /// False for a table being created for which no order was sent.
  bool placed() const { return !has_tablet_on(0); }
  /// Sent with every order about this table, for any tablet.
  uint64_t latest_revision() const {
    uint64_t latest = revision;
    for (const TabletRecord& tablet : tablets) latest = std::max(latest, tablet.revision);
    return latest;
  }
};

}  // namespace ramcloud
