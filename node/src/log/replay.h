// Rebuilds the objects of a master's log from replicas of its segments [Ousterhout15 §4.5, §7.4],
// offline or in recovery. Chooses a replica for each segment, checks with the digest that the log
// is complete, and replays objects and tombstones in any order: the higher version wins. Objects of
// tablets that the master did not own any more are left out, if the log says so
// (docs/design/log.md#owned-tablets).
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
  std::string name;      // its origin, for messages: a path or a server
  uint32_t epoch = 0;    // replication epoch, from the metadata
};

/// The coordinator's fence of a master: a replica that is not closed counts only if its segment and
/// its epoch are at least these. Other replicas may lack writes that were acknowledged after they
/// were lost.
struct ReplicationFence {
  uint64_t lowest_open_segment = 0;
  uint32_t epoch = 0;
};

/// The finding about one replica.
struct ReplicaReport {
  uint64_t segment_id = 0;
  std::string name;
  SegmentScan scan;
  bool stale = false;  // open, with an old replication epoch
  bool chosen = false;
};

struct ReplayReport {
  std::vector<ReplicaReport> replicas;  // by segment, then in the order they were added
  std::vector<uint64_t> missing;        // in the digest, no usable replica
  std::vector<uint64_t> not_in_digest;  // segments that were found but left the log, or have not
                                        // entered it
  uint64_t digest_segment = 0;          // the segment whose digest decided; 0 if none was eligible
  uint64_t safe_version = 0;            // above every version in the log
  uint64_t objects_seen = 0;
  uint64_t objects_not_owned = 0;  // of them, by the tablets that the digest's head lists
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

/// A key and the version up to which all its objects are dead; the view points into the images.
struct DeadKey {
  uint64_t table_id = 0;
  uint64_t version = 0;
  ByteView key;
};

class Replay {
 public:
  /// Replays the log of one master.
  Replay(std::array<uint8_t, 16> cluster_uuid, uint64_t master_id);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// Without a fence only the replicas decide: among the replicas of an open segment those with the
  /// highest epoch count.
  void set_fence(const ReplicationFence& fence);
  /// Scans the replica at once (all checksums). Any number of replicas of a segment, in any order.
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
