// Where the log of a dead master ends: a pure function of what backups say of its replicas
// (docs/design/recovery.md, "Where a log ends", where its rules have their names and reasons).
#pragma once

#include <cstddef>
#include <cstdint>
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

struct LogAnswers {
  ReplicationFence fence;  // the coordinator's
  std::vector<FoundReplica> replicas;
  /// Backups whose answers are complete: ids of servers, also the former ids of their volumes.
  std::set<uint64_t> heard;
  /// Backups that may still answer, so that it is worth waiting.
  std::set<uint64_t> expected;
};

/// What is needed and not there.
struct MissingSegment {
  uint64_t segment_id = 0;
  std::string why;
  std::vector<uint64_t> holders;  // that have not been heard; none: not known
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
    kTailLost,  // power cuts took the end of a head: what there is ends where it says
    kWaiting,
    kBlocked,  // nobody can be expected to bring what is missing
  };
  Outcome outcome = Outcome::kBlocked;
  uint64_t digest_segment = 0;          // whose digest decided; 0: none is eligible
  std::vector<SegmentEnd> segments;     // complete or tail lost: all of the log, by rising id
  std::vector<MissingSegment> missing;  // waiting or blocked
  /// Above every version that the master ever assigned, if no head is unscanned.
  uint64_t safe_version = 0;
  /// A closed replica of this segment must be scanned for its versions, and asked again: it may be
  /// the head that took data while the digest's was opened.
  std::optional<uint64_t> unscanned;
};

/// By how much versions jump when the tail was lost.
inline constexpr uint64_t kVersionsOfALostTail = uint64_t{1} << 32;

LogEnd decide_log_end(const LogAnswers& answers);

const char* outcome_name(LogEnd::Outcome outcome);

}  // namespace ramcloud::log
