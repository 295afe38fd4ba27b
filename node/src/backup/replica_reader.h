// Reads frames files without their server: what `ramcloud replica dump` and `ramcloud replica
// rebuild` show. Trusts nothing in the files.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backup/frame_format.h"
#include "base/status.h"
#include "log/group_reader.h"
#include "log/replay.h"

namespace ramcloud {

/// One damaged place.
struct ReplicaProblem {
  uint64_t file_offset = 0;              // of the thing that does not check (slot, group), absolute
  std::string what;                      // for people
  std::optional<uint64_t> flipped_byte;  // absolute offset of the one byte that explains it
};

/// One frame that holds (or may hold) a replica.
struct ReplicaDump {
  uint32_t frame = 0;
  uint64_t file_offset = 0;  // of the segment's bytes
  bool metadata_valid =
      false;  // what follows comes from the metadata; else from the segment itself
  log::SegmentIdentity identity;
  uint64_t backup_id = 0;
  uint32_t epoch = 0;
  FrameState state = FrameState::kFree;
  uint8_t flags = 0;  // FrameSlot::Flag
  uint32_t capacity = 0;
  log::SegmentScan scan;                       // what the bytes say
  std::map<log::EntryType, uint64_t> entries;  // how many of each type in valid groups
  std::vector<ReplicaProblem> problems;

  bool complete() const { return (flags & FrameSlot::kIncomplete) == 0; }
};

/// A whole frames file.
struct VolumeDump {
  bool superblock_valid = false;
  wire::Uuid cluster_uuid{};
  uint64_t server_id = 0;
  uint64_t list_term = 0;
  uint64_t list_version = 0;
  uint32_t frames_total = 0;
  uint32_t frames_used = 0;              // for which the sink was called
  uint64_t problems_total = 0;           // these and the replicas'
  std::vector<ReplicaProblem> problems;  // of the superblock and of free frames' metadata
};

using ReplicaSink = std::function<void(const ReplicaDump&)>;

/// Reads and verifies everything that is in use in a frames file; calls `sink` per replica, by
/// rising frame. `path` may be the file or its directory. Damage is in the results, not in the
/// status: that is not OK only if the file cannot be read or is of a newer format.
Result<VolumeDump> dump_replicas(const std::string& path, const ReplicaSink& sink);
/// The same on bytes in memory.
Result<VolumeDump> dump_image(ByteView file, const ReplicaSink& sink);

const char* scan_end_name(log::ScanEnd end);
/// "OBJECT", "TOMBSTONE", …; "UNKNOWN_17" for types of the future.
std::string entry_type_name(log::EntryType type);

/// What one master's replicas say.
struct RebuiltMaster {
  uint64_t master_id = 0;
  Status status;  // OK: its log is complete
  std::vector<uint64_t> missing_segments;
  uint64_t objects = 0;  // live ones
};
struct RebuildSummary {
  wire::Uuid cluster_uuid{};
  std::vector<RebuiltMaster> masters;     // by id
  std::map<uint64_t, uint64_t> left_out;  // replicas, by master that is recovered
  /// Of volumes that do not hold all they held: replicas were left out.
  std::vector<std::string> warnings;
  uint64_t objects = 0;
};

/// What the coordinator knows of masters.
struct KnownOfMasters {
  std::map<uint64_t, log::ReplicationFence> fences;  // by master; of those that have one
  std::set<uint64_t> recovered;                      // ids; others own their data now
};

/// A frames file (or its image) by name, for messages.
struct VolumeImage {
  std::string name;
  ByteView bytes;
};

/// Rebuilds the data set that the replicas in these directories (or frames files) hold: for each
/// master the newest eligible digest decides which segments belong to its log, and versions which
/// objects live [Ousterhout15 §4.5]. `sink` gets the live objects by table, then key; where two
/// masters' logs hold the same key, the highest version decides, be it an object's or a
/// tombstone's: folders may still hold the log of a master whose data others have recovered.
/// Replicas outside their master's fence do not count; without one, the highest epoch among a
/// segment's open replicas holds. Replicas of `known.recovered` masters are left out: of such a log
/// some segments may be gone already, and what the new owners did since may be cleaned there.
/// Errors, before the sink is called at all:
///   NOT_FOUND      a file is not there; or logs are incomplete: names masters and segments
///   CORRUPT        a segment has no undamaged replica
///   WRONG_CLUSTER  the volumes are of several clusters
/// `summary` (if given) is filled in either case.
Status rebuild(const std::vector<std::string>& paths,
               const std::function<void(const log::ReplayedObject&)>& sink,
               RebuildSummary* summary = nullptr, const KnownOfMasters& known = {});
Status rebuild_images(const std::vector<VolumeImage>& volumes,
                      const std::function<void(const log::ReplayedObject&)>& sink,
                      RebuildSummary* summary = nullptr, const KnownOfMasters& known = {});

}  // namespace ramcloud
