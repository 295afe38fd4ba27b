// Reads frames files without their server: for `ramcloud replica dump` and `ramcloud replica
// rebuild`. Verifies everything in the files.
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
  uint64_t file_offset = 0;              // absolute offset of the damaged slot or group
  std::string what;                      // for people
  std::optional<uint64_t> flipped_byte;  // absolute offset of the one byte that explains it
};

/// One frame that holds (or may hold) a replica.
struct ReplicaDump {
  uint32_t frame = 0;
  uint64_t file_offset = 0;  // of the segment's bytes
  bool metadata_valid =
      false;  // the fields below come from the metadata; otherwise from the segment's header
  log::SegmentIdentity identity;
  uint64_t backup_id = 0;
  uint32_t epoch = 0;
  FrameState state = FrameState::kFree;
  uint8_t flags = 0;  // FrameSlot::Flag
  uint32_t capacity = 0;
  log::SegmentScan scan;                       // the result of scanning the bytes
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
  uint32_t frames_used = 0;              // frames for which the sink was called
  uint64_t problems_total = 0;           // includes problems of replicas
  std::vector<ReplicaProblem> problems;  // of the superblock and of free frames' metadata
};

using ReplicaSink = std::function<void(const ReplicaDump&)>;

/// Reads and verifies everything in use in a frames file; calls `sink` for each replica, by rising
/// frame. `path` may be the file or its directory. Damage is reported in the results. The status is
/// an error only if the file cannot be read or has a newer format.
Result<VolumeDump> dump_replicas(const std::string& path, const ReplicaSink& sink);
/// The same on bytes in memory.
Result<VolumeDump> dump_image(ByteView file, const ReplicaSink& sink);

const char* scan_end_name(log::ScanEnd end);
/// "OBJECT", "TOMBSTONE", …; "UNKNOWN_17" for types of the future.
std::string entry_type_name(log::EntryType type);

/// The result for one master's replicas.
struct RebuiltMaster {
  uint64_t master_id = 0;
  Status status;  // OK: its log is complete
  std::vector<uint64_t> missing_segments;
  uint64_t objects = 0;  // live objects
  uint64_t objects_not_owned =
      0;  // left out, whether or not they were dead: of tablets that it did
          // not own any more
};
struct RebuildSummary {
  wire::Uuid cluster_uuid{};
  std::vector<RebuiltMaster> masters;     // by id
  std::map<uint64_t, uint64_t> left_out;  // replicas left out, by recovered master
  /// About volumes that lack replicas that they had: these were left out.
  std::vector<std::string> warnings;
  uint64_t objects = 0;
};

/// Facts about masters that the coordinator knows.
struct KnownOfMasters {
  std::map<uint64_t, log::ReplicationFence> fences;  // by master; only masters that have one
  std::set<uint64_t> recovered;                      // ids; others own their data now
};

/// A frames file (or its image) with its name for messages.
struct VolumeImage {
  std::string name;
  ByteView bytes;
};

/// Rebuilds the data set that the replicas in these directories (or frames files) hold: for each
/// master the newest eligible digest decides which segments belong to its log, and versions which
/// objects live [Ousterhout15 §4.5]. `sink` gets the live objects by table, then key; if two
/// masters' logs have the same key, the highest version wins, of objects and tombstones: folders
/// may still hold the log of a master that others have recovered. Replicas outside their master's
/// fence do not count; without a fence, those with the highest epoch among a segment's open
/// replicas count. Replicas of `known.recovered` masters are left out: some segments of such a log
/// may be freed already, and later deletes by the new owners may be cleaned from their logs. Objects
/// of tablets that the newest head of their log does not list are left out, too
/// (docs/design/log.md#owned-tablets): cleaning may have dropped the tombstones of a dropped table.
/// Errors are returned before the sink is called:
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
