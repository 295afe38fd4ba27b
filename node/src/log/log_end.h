// Where the log of a dead master ends: a pure function of what backups say of its replicas
// (docs/design/recovery.md#where-a-log-ends names its rules and gives the reasons).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "log/replay.h"

namespace ramcloud::log {

/// One replica, as its backup describes it.
struct FoundReplica {
  uint64_t server_id = 0;  // of the backup that answered, or of the incarnation that wrote it
  uint64_t segment_id = 0;
  uint32_t epoch = 0;          // the highest of those in the metadata and in the groups
  uint32_t length = 0;         // length of the longest valid prefix; if closed: of the whole
                               // replica
  uint32_t header_length = 0;  // length of the first group
  uint32_t durable_up_to = 0;  // the highest value in valid groups, including those after a hole
  bool closed = false;         // the metadata says so: `length` bytes are on the device
  bool footer = false;         // the valid prefix ends with one
  bool footer_after_hole = false;  // there is one after a hole
  bool clean_end = false;          // only zeros follow the valid prefix
  bool corrupt = false;            // the valid prefix is shorter than the replica certainly was
  bool incomplete = false;         // a copy that was not finished
  bool damaged = false;            // its metadata may be older than it should be
  bool power_safe = false;         // no power cut can have shortened it
  // Its bytes were read: the fields below and those of the prefix are known.
  bool scanned = false;
  bool is_head = false;
  bool has_data = false;         // there are groups after the first one, perhaps after a hole
  std::vector<uint64_t> digest;  // rising; empty if there is none
  uint64_t safe_version = 0;     // above all versions in it; at least the value in its header
  std::vector<uint64_t> holders;
};

/// Fills in the results of a scan. `known` is the argument that the scan was given.
void describe_scan(const SegmentScan& scan, const KnownOfSegment& known, FoundReplica& replica);

/// The part of a log that an operator gave up: a loss may be at most this large
/// (docs/design/recovery.md#accepted-losses).
struct AcceptedLoss {
  /// By segment: the bytes of it that must still be there.
  std::map<uint64_t, uint32_t> segments = {};
  /// If the end was given up: the newest head with a known digest must be this one or a later one;
  /// 0: no digest need be known. None: the end was not given up.
  std::optional<uint64_t> end_after = {};
  /// If the end was given up: segments that were closed after `end_after` and must still be there.
  /// No digest names them.
  std::set<uint64_t> later = {};
  /// Above every version that the master can have assigned; used when the end was given up.
  uint64_t version_floor = 0;

  /// Adds another accepted loss to this one.
  void add(const AcceptedLoss& other);
  bool operator==(const AcceptedLoss&) const = default;
};

struct LogAnswers {
  ReplicationFence fence;  // the coordinator's
  /// The fence comes from an export, so it may have risen since. Then an open head counts only if
  /// all its holders have it.
  bool fence_of_export = false;
  std::vector<FoundReplica> replicas;
  /// Backups whose answers are complete: server ids, including earlier ids of the same volumes.
  std::set<uint64_t> heard;
  /// Backups that may still answer, so that it is worth waiting.
  std::set<uint64_t> expected;
  /// Those of them that are UP. An accepted loss is not used before they have answered.
  std::set<uint64_t> asked;
  /// All servers that may have replicas of this log and have not answered, expected or not.
  std::set<uint64_t> unheard = {};
  /// The number of replicas that the master kept of each segment; 0: not known.
  uint32_t replica_count = 0;
  AcceptedLoss accepted;
};

/// The segments that are needed and missing.
struct MissingSegment {
  uint64_t segment_id = 0;
  std::string why;
  std::vector<uint64_t> holders;  // holders that have not answered; empty: not known
  uint32_t found = 0;             // bytes of it that are still there
  /// The log's end is missing: the segments after this one, or it is unknown which segments.
  bool end = false;
  uint64_t newest_head = 0;  // if the end is missing: the newest head with a known digest; 0: none
  bool operator==(const MissingSegment&) const = default;
};

struct SegmentEnd {
  uint64_t segment_id = 0;
  uint32_t length = 0;
  std::vector<size_t> sources;  // indexes in LogAnswers::replicas of those that have all of it
};

struct LogEnd {
  enum class Outcome : uint8_t {
    kComplete,
    kTailLost,  // power cuts took the end of a head: the log ends at the position given
    kWaiting,
    kBlocked,       // no backup can be expected to have what is missing
    kLossAccepted,  // an operator gave up the missing part: the log ends at the position given
  };
  Outcome outcome = Outcome::kBlocked;
  uint64_t digest_segment = 0;          // the head whose digest decided; 0: none is eligible
  std::vector<SegmentEnd> segments;     // if the log is known: its segments, by rising id
  std::vector<MissingSegment> missing;  // waiting or blocked
  /// Above every version that the master ever assigned, unless `unscanned` is set.
  uint64_t safe_version = 0;
  /// A closed replica of this segment must be scanned; then decide again. The segment may be the
  /// head that took data while the deciding head was opened: its versions are needed. Or, if it is
  /// above the deciding head, it may be a head that followed, and that head's tail is not the log's.
  std::optional<uint64_t> unscanned;
  /// If the end was given up: segments that belong to the log although no digest names them.
  std::set<uint64_t> unnamed;

  /// The log may be recovered.
  bool known() const { return outcome != Outcome::kWaiting && outcome != Outcome::kBlocked; }
};

/// Versions jump by this much when the tail, or a segment, was lost.
inline constexpr uint64_t kVersionsOfALostTail = uint64_t{1} << 32;

LogEnd decide_log_end(const LogAnswers& answers);

/// The additional loss that an operator would have to accept for a log that is BLOCKED.
struct LossToAccept {
  AcceptedLoss loss;
  std::vector<MissingSegment> missing;  // the parts of the loss
  LogEnd end;                           // the log that would be recovered if the loss was accepted
  bool more = false;                    // the loss exceeds `most`: `end` is BLOCKED
};

/// `most`: at most so many missing segments are given up.
LossToAccept loss_to_accept(LogAnswers answers, size_t most);

const char* outcome_name(LogEnd::Outcome outcome);

}  // namespace ramcloud::log
