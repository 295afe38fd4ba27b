// Where the log of a dead master ends: a pure function of what backups say of its replicas
// (docs/design/recovery.md, "Where a log ends", where its rules have their names and reasons).
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
  uint64_t server_id = 0;  // of the backup that answered, or of whichever incarnation wrote it
  uint64_t segment_id = 0;
  uint32_t epoch = 0;          // the higher one of the metadata's and the groups'
  uint32_t length = 0;         // of the longest valid prefix; if closed: of all
  uint32_t header_length = 0;  // of the first group
  uint32_t durable_up_to = 0;  // the highest in valid groups, those behind a hole included
  bool closed = false;         // says the metadata: so many bytes are on the device
  bool footer = false;         // ends the valid prefix
  bool footer_behind = false;  // behind a hole
  bool clean_end = false;      // nothing but zeros is behind the valid prefix
  bool corrupt = false;        // shorter than the replica certainly was
  bool incomplete = false;     // a copy that was not finished
  bool damaged = false;        // its metadata may be older than it should be
  bool power_safe = false;     // no power cut can have shortened it
  bool scanned = false;        // the fields below, and the prefix's, are from its bytes
  bool is_head = false;
  bool has_data = false;         // groups behind the first one, behind a hole included
  std::vector<uint64_t> digest;  // rising; empty if there is none
  uint64_t safe_version = 0;     // above all versions in it, and what its header says
  std::vector<uint64_t> holders;
};

/// Fills in what a scan tells. `known` is what it was given.
void describe_scan(const SegmentScan& scan, const KnownOfSegment& known, FoundReplica& replica);

/// What an operator gave up of a log: a loss that is no larger than this
/// (docs/design/recovery.md, "Accepted losses").
struct AcceptedLoss {
  /// By segment: the bytes of it that must be there all the same.
  std::map<uint64_t, uint32_t> segments = {};
  /// The log's end: the newest head of which a digest is known must be this one or a later one. 0:
  /// none must be known. Nothing: the end was not given up.
  std::optional<uint64_t> end_after = {};
  /// If the end was given up: segments that were closed later and must be there all the same. No
  /// digest names them.
  std::set<uint64_t> later = {};
  /// Above every version that the master can have assigned; used when the end was given up.
  uint64_t version_floor = 0;

  /// The loss is at most one that was accepted before.
  void add(const AcceptedLoss& other);
  bool operator==(const AcceptedLoss&) const = default;
};

struct LogAnswers {
  ReplicationFence fence;  // the coordinator's
  /// The fence is that of an export, and may have risen since. Then an open head counts only if all
  /// its holders have it.
  bool fence_of_export = false;
  std::vector<FoundReplica> replicas;
  /// Backups whose answers are complete: ids of servers, also the former ids of their volumes.
  std::set<uint64_t> heard;
  /// Backups that may still answer, so that it is worth waiting.
  std::set<uint64_t> expected;
  /// Those of them that are UP. No loss is taken for accepted before they have answered.
  std::set<uint64_t> asked;
  AcceptedLoss accepted;
};

/// The segments that are needed and missing.
struct MissingSegment {
  uint64_t segment_id = 0;
  std::string why;
  std::vector<uint64_t> holders;  // that have not been heard; none: not known
  uint32_t found = 0;             // bytes of it that are still there
  /// It is the log's end that is missing: what followed this segment, or nobody knows which.
  bool end = false;
  uint64_t newest_head = 0;  // if the end is missing: of which a digest is known; 0: of none
  bool operator==(const MissingSegment&) const = default;
};

struct SegmentEnd {
  uint64_t segment_id = 0;
  uint32_t length = 0;
  std::vector<size_t> sources;  // in LogAnswers::replicas: that have all of it
};

struct LogEnd {
  enum class Outcome : uint8_t {
    kComplete,
    kTailLost,  // power cuts took the end of a head: the log ends at the position given
    kWaiting,
    kBlocked,       // nobody can be expected to bring what is missing
    kLossAccepted,  // an operator gave up the missing part: the log ends at the position given
  };
  Outcome outcome = Outcome::kBlocked;
  uint64_t digest_segment = 0;          // whose digest decided; 0: none is eligible
  std::vector<SegmentEnd> segments;     // if the log is known: all that is there, by rising id
  std::vector<MissingSegment> missing;  // waiting or blocked
  /// Above every version that the master ever assigned, if no head is unscanned.
  uint64_t safe_version = 0;
  /// A closed replica of this segment must be scanned for its versions, and asked again: it may be
  /// the head that took data while the digest's was opened.
  std::optional<uint64_t> unscanned;
  /// If the end was given up: segments that are the log's although no digest names them.
  std::set<uint64_t> unnamed;

  /// It may be recovered.
  bool known() const { return outcome != Outcome::kWaiting && outcome != Outcome::kBlocked; }
};

/// By how much versions jump when the tail, or a segment, was lost.
inline constexpr uint64_t kVersionsOfALostTail = uint64_t{1} << 32;

LogEnd decide_log_end(const LogAnswers& answers);

/// What would have to be accepted, beside what is, for a log that is BLOCKED.
struct LossToAccept {
  AcceptedLoss loss;
  std::vector<MissingSegment> missing;  // what the loss consists of
  LogEnd end;                           // with the loss accepted: the log that would be recovered
  bool more = false;                    // it is more than was wanted at most: `end` is BLOCKED
};

/// At most so many missing segments are given up at once.
LossToAccept loss_to_accept(LogAnswers answers, size_t most);

const char* outcome_name(LogEnd::Outcome outcome);

}  // namespace ramcloud::log
