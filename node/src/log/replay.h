// Rebuilds what a master's log says from replicas of its segments [Ousterhout15 §4.5, §7.4],
// offline or in recovery: chooses for each segment the replica to trust, checks by the digest
// that the log is complete, and lets versions decide between objects and tombstones, in whatever
// order they come.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "log/group_reader.h"

namespace ramcloud::log {

/// One replica of one segment, as a backup holds it.
struct ReplicaImage {
  uint64_t segment_id = 0;
  ByteView bytes;        // from the start of the segment; must outlive the replay
  KnownOfSegment known;  // from the replica's metadata; defaults when there is none
  std::string name;      // where it comes from, for messages: a path, a server
  uint32_t epoch = 0;    // replication epoch, from the metadata
};

/// What the coordinator says of a master: replicas that are not closed count only if their segment
/// and their epoch are at least these. Others may miss writes that were acknowledged after they
/// were lost.
struct ReplicationFence {
  uint64_t lowest_open_segment = 0;
  uint32_t epoch = 0;
};

/// What became of one replica.
struct ReplicaReport {
  uint64_t segment_id = 0;
  std::string name;
  SegmentScan scan;
  bool stale = false;  // open, and of a replication epoch that is over
  bool chosen = false;
};

struct ReplayReport {
  std::vector<ReplicaReport> replicas;  // by segment, then in the order they were added
  std::vector<uint64_t> missing;        // in the digest, no usable replica
  std::vector<uint64_t> not_in_digest;  // segments found that the log no longer (or not yet) holds
  uint64_t digest_segment = 0;          // whose digest decided; 0 if none was eligible
  uint64_t safe_version = 0;            // above every version in the log
  uint64_t objects_seen = 0;
  uint64_t tombstones_seen = 0;
};

/// A live object; views point into the images.
struct ReplayedObject {
  uint64_t table_id = 0;
  uint64_t version = 0;
  uint32_t timestamp_s = 0;
  ByteView key;
  ByteView value;
};

/// A key of which every version up to `version` is dead; the view points into the images.
struct DeadKey {
  uint64_t table_id = 0;
  uint64_t version = 0;
  ByteView key;
};

class Replay {
 public:
  /// Of one master's log.
  Replay(std::array<uint8_t, 16> cluster_uuid, uint64_t master_id);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// Without it only the replicas tell: of those of one open segment the highest epoch holds.
  void set_fence(const ReplicationFence& fence);
  /// Scans the replica at once (all checksums). Several of one segment are what it is for. Any
  /// order.
  void add(ReplicaImage image);

  /// Chooses replicas, checks completeness, and replays. report() is filled in either case.
  ///   NOT_FOUND  no open segment's digest is among the replicas, or segments it lists are missing:
  ///              the log is not known to be complete, and nothing is replayed
  ///   CORRUPT    a segment has replicas, but every one is corrupt, stale, or shorter than what was
  ///              durable
  ///   UNSUPPORTED  an entry of a type this version does not know
  Status run();
  const ReplayReport& report() const;

  /// After run() was OK: the live objects by table, then key.
  void for_each(const std::function<void(const ReplayedObject&)>& sink) const;
  uint64_t live_objects() const;
  /// After run() was OK: the newest tombstone of each key that has one. Any order.
  void for_each_dead(const std::function<void(const DeadKey&)>& sink) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramcloud::log
