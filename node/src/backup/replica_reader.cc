#include "backup/replica_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "backup/mapped_file.h"
#include "base/hash.h"
#include "base/text.h"

namespace ramcloud {
namespace {

/// The two slots of a superblock or of a frame.
template <typename Slot>
struct SlotPair {
  bool valid = false;
  bool newer_format = false;
  Slot slot{};  // the current slot, if valid
};

/// Reads both slots at `base` and `base + stride`, and checks that the bytes between are zero;
/// damage goes to `problems`.
template <typename Slot>
SlotPair<Slot> read_slots(ByteView file, uint64_t base, uint64_t stride, const char* name,
                          std::vector<ReplicaProblem>& problems) {
  SlotPair<Slot> pair;
  for (int i = 0; i < 2; ++i) {
    const uint64_t at = base + static_cast<uint64_t>(i) * stride;
    const ByteView bytes = file.substr(at, kSlotBytes);
    Slot slot;
    switch (parse_slot(bytes, slot)) {
      case SlotVerdict::kEmpty:
        break;
      case SlotVerdict::kNewer:
        pair.newer_format = true;
        break;
      case SlotVerdict::kCorrupt: {
        const SlotDamage damage = explain_slot(bytes);
        ReplicaProblem problem{at, fmt::format("{} slot {}: {}", name, i, damage.what), {}};
        if (damage.flipped >= 0) problem.flipped_byte = at + static_cast<uint64_t>(damage.flipped);
        problems.push_back(std::move(problem));
        break;
      }
      case SlotVerdict::kValid:
        if (!pair.valid || slot.sequence > pair.slot.sequence) pair.slot = slot;
        pair.valid = true;
        break;
    }
    const uint64_t fill_end = at + stride;
    const size_t nonzero = file.substr(0, fill_end).find_first_not_of('\0', at + kSlotBytes);
    if (nonzero != ByteView::npos) {
      problems.push_back(
          {nonzero, fmt::format("{}: fill behind slot {} is not zero", name, i), nonzero});
    }
  }
  return pair;
}

void read_superblock(const SlotPair<SuperblockSlot>& pair, VolumeDump& volume) {
  volume.superblock_valid = pair.valid;
  if (!pair.valid) return;
  std::memcpy(volume.cluster_uuid.data(), pair.slot.cluster_uuid, volume.cluster_uuid.size());
  volume.server_id = pair.slot.server_id;
  volume.list_term = pair.slot.list_term;
  volume.list_version = pair.slot.list_version;
}

/// Empty, or a message that the file is shorter than it was.
std::string missing_end(const SlotPair<SuperblockSlot>& superblock, uint32_t frames) {
  if (!superblock.valid || superblock.slot.frame_count <= frames) return {};
  return fmt::format("the superblock counts {} frames, the file ends after {}",
                     uint32_t{superblock.slot.frame_count}, frames);
}

/// The number of frames that the file has room for, even if the superblock claims more.
uint32_t frames_in(ByteView file) {
  if (file.size() < kSuperblockBytes) return 0;
  return static_cast<uint32_t>(
      std::min<uint64_t>((file.size() - kSuperblockBytes) / kFrameStride, kMaxFrames));
}

void identify(const SlotPair<FrameSlot>& pair, ByteView data, ReplicaDump& dump) {
  dump.metadata_valid = pair.valid && pair.slot.state != FrameState::kFree;
  if (!dump.metadata_valid) {
    // The metadata is lost: the segment's header tells which master it belongs to.
    dump.capacity = log::kSegmentBytes;
    if (const auto claimed = log::identify_segment(log::SegmentBytes(data))) {
      dump.identity = *claimed;
    }
    return;
  }
  const FrameSlot& slot = pair.slot;
  std::memcpy(dump.identity.cluster_uuid.data(), slot.cluster_uuid,
              dump.identity.cluster_uuid.size());
  dump.identity.master_id = slot.master_id;
  dump.identity.segment_id = slot.segment_id;
  dump.backup_id = slot.backup_id;
  dump.epoch = slot.epoch;
  dump.state = slot.state;
  dump.flags = slot.flags;
  dump.capacity = slot.capacity;
}

log::KnownOfSegment known_of(const FrameSlot& slot) {
  log::KnownOfSegment known;
  if ((slot.flags & FrameSlot::kLengthKnown) == 0) return known;
  if (slot.state == FrameState::kClosed) {
    known.closed_length = slot.length;
    known.durable_up_to = slot.length;
  } else {
    known.bytes_held = slot.length;  // at the last clean stop of its backup
  }
  return known;
}

void scan(const SlotPair<FrameSlot>& pair, ByteView data, ReplicaDump& dump) {
  const log::SegmentBytes bytes(data.substr(0, dump.capacity));
  const auto known = dump.metadata_valid ? known_of(pair.slot) : log::KnownOfSegment{};
  const auto count = [&](const log::GroupView& group) {
    for (auto e = group.first(); e; e = group.next(*e)) ++dump.entries[e->view.type()];
  };
  dump.scan = log::scan_segment(dump.identity, bytes, known, count, log::Locate::kFlippedByte);
  const bool damaged = dump.scan.end == log::ScanEnd::kCorrupt ||
                       // If one changed byte explains the torn tail, the tail was valid before.
                       (dump.scan.end == log::ScanEnd::kTorn && dump.scan.flipped_byte.has_value());
  if (!damaged) return;
  ReplicaProblem problem{dump.file_offset + dump.scan.bad_offset, dump.scan.what, {}};
  if (dump.scan.flipped_byte) problem.flipped_byte = dump.file_offset + *dump.scan.flipped_byte;
  dump.problems.push_back(std::move(problem));
}

std::string frames_path(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) {
    return path + "/" + kFramesFileName;
  }
  return path;
}

}  // namespace

Result<VolumeDump> dump_replicas(const std::string& path, const ReplicaSink& sink) {
  const auto file = MappedFile::open(frames_path(path));
  if (!file) return fail(file.error());
  auto dumped = dump_image(file->bytes(), sink);
  if (!dumped) {
    return fail(dumped.error().code(),
                fmt::format("{}: {}", frames_path(path), dumped.error().message()));
  }
  return dumped;
}

Result<VolumeDump> dump_image(ByteView file, const ReplicaSink& sink) {
  VolumeDump volume;
  if (file.size() < kSuperblockBytes) {
    return fail(StatusCode::kCorrupt,
                fmt::format("{} bytes are too few for a frames file", file.size()));
  }
  const auto superblock =
      read_slots<SuperblockSlot>(file, 0, kSuperblockSlotStride, "superblock", volume.problems);
  if (superblock.newer_format) {
    return fail(StatusCode::kUnsupported,
                fmt::format("the volume's format is newer than {}, which this program reads",
                            kFrameFormatVersion));
  }
  read_superblock(superblock, volume);
  volume.frames_total = frames_in(file);
  if (std::string missing = missing_end(superblock, volume.frames_total); !missing.empty()) {
    volume.problems.push_back({file.size(), std::move(missing), {}});
  }
  for (uint32_t i = 0; i < volume.frames_total; ++i) {
    ReplicaDump dump;
    dump.frame = i;
    dump.file_offset = frame_data_offset(i);
    const auto metadata = read_slots<FrameSlot>(file, frame_metadata_offset(i), kFrameSlotStride,
                                                "metadata", dump.problems);
    const ByteView data = file.substr(dump.file_offset, log::kSegmentBytes);
    const bool in_use = metadata.valid ? metadata.slot.state != FrameState::kFree
                                       : !dump.problems.empty() || metadata.newer_format;
    // One slot says "free", but the damaged one may be newer.
    const bool perhaps = !dump.problems.empty() && log::identify_segment(log::SegmentBytes(data));
    if (!in_use && !perhaps) {
      std::ranges::move(dump.problems, std::back_inserter(volume.problems));
      continue;
    }
    identify(metadata, data, dump);
    scan(metadata, data, dump);
    ++volume.frames_used;
    volume.problems_total += dump.problems.size();
    sink(dump);
  }
  volume.problems_total += volume.problems.size();
  return volume;
}

const char* scan_end_name(log::ScanEnd end) {
  switch (end) {
    case log::ScanEnd::kClosed:
      return "closed";
    case log::ScanEnd::kOpen:
      return "open";
    case log::ScanEnd::kTorn:
      return "torn";
    case log::ScanEnd::kCorrupt:
      return "corrupt";
  }
  return "invalid";
}

std::string entry_type_name(log::EntryType type) {
  switch (type) {
    case log::EntryType::kInvalid:
      break;
    case log::EntryType::kSegmentHeader:
      return "SEGMENT_HEADER";
    case log::EntryType::kLogDigest:
      return "LOG_DIGEST";
    case log::EntryType::kSafeVersion:
      return "SAFE_VERSION";
    case log::EntryType::kFooter:
      return "FOOTER";
    case log::EntryType::kObject:
      return "OBJECT";
    case log::EntryType::kTombstone:
      return "TOMBSTONE";
    case log::EntryType::kOwnedTablets:
      return "OWNED_TABLETS";
    case log::EntryType::kRpcResult:
      return "RPC_RESULT";
    case log::EntryType::kPreparedOp:
      return "PREPARED_OP";
    case log::EntryType::kPreparedOpTombstone:
      return "PREPARED_OP_TOMBSTONE";
    case log::EntryType::kTransactionDecision:
      return "TRANSACTION_DECISION";
    case log::EntryType::kParticipantList:
      return "PARTICIPANT_LIST";
  }
  return fmt::format("UNKNOWN_{}", static_cast<int>(type));
}

// ---- rebuild

namespace {

struct Rebuild {
  RebuildSummary summary;
  bool cluster_known = false;
  std::map<uint64_t, std::unique_ptr<log::Replay>> replays;  // by master
};

Status check_cluster(Rebuild& rebuild, const std::string& name, const wire::Uuid& cluster) {
  if (!rebuild.cluster_known) {
    rebuild.cluster_known = true;
    rebuild.summary.cluster_uuid = cluster;
  }
  if (rebuild.summary.cluster_uuid == cluster) return {};
  return {StatusCode::kWrongCluster,
          fmt::format("{} holds replicas of cluster {}, the others of {}", name,
                      format_uuid(cluster), format_uuid(rebuild.summary.cluster_uuid))};
}

/// Adds every replica of the volume to the replay of its master, unless that master is recovered.
Status add_volume(Rebuild& rebuild, const VolumeImage& volume,
                  const std::set<uint64_t>& recovered) {
  if (volume.bytes.size() < kSuperblockBytes) {
    return {StatusCode::kCorrupt, fmt::format("{}: {} bytes are too few for a frames file",
                                              volume.name, volume.bytes.size())};
  }
  const uint32_t frames = frames_in(volume.bytes);
  std::vector<ReplicaProblem> damage;
  const auto superblock =
      read_slots<SuperblockSlot>(volume.bytes, 0, kSuperblockSlotStride, "superblock", damage);
  const std::string missing = missing_end(superblock, frames);
  if (!missing.empty()) {
    rebuild.summary.warnings.push_back(
        fmt::format("{}: {}: what was behind that is left out", volume.name, missing));
  }
  uint32_t damaged = 0;
  for (uint32_t i = 0; i < frames; ++i) {
    std::vector<ReplicaProblem> problems;
    const auto metadata = read_slots<FrameSlot>(volume.bytes, frame_metadata_offset(i),
                                                kFrameSlotStride, "metadata", problems);
    const ByteView data = volume.bytes.substr(frame_data_offset(i), log::kSegmentBytes);
    if (!problems.empty() || metadata.newer_format) ++damaged;
    if (!problems.empty() || !metadata.valid) continue;  // use another replica
    const FrameSlot& slot = metadata.slot;
    if (slot.state == FrameState::kFree || (slot.flags & FrameSlot::kIncomplete) != 0) continue;
    wire::Uuid cluster;
    std::memcpy(cluster.data(), slot.cluster_uuid, cluster.size());
    const std::string name = fmt::format("{} frame {}", volume.name, i);
    RC_RETURN_IF_ERROR(check_cluster(rebuild, name, cluster));
    const uint64_t master_id = slot.master_id;  // a copy: fields of packed structs are not aligned
    if (recovered.contains(master_id)) {
      ++rebuild.summary.left_out[master_id];
      continue;
    }
    auto& replay = rebuild.replays[master_id];
    if (!replay) replay = std::make_unique<log::Replay>(cluster, master_id);
    log::ReplicaImage image;
    image.segment_id = slot.segment_id;
    image.bytes = data.substr(0, slot.capacity);
    image.known = known_of(slot);
    image.epoch = slot.epoch;
    image.name = name;
    replay->add(std::move(image));
  }
  if (damaged > 0) {
    rebuild.summary.warnings.push_back(fmt::format(
        "{}: {} frames whose metadata is damaged are left out; see `ramcloud replica dump`",
        volume.name, damaged));
  }
  return {};
}

Status run_replays(Rebuild& rebuild) {
  Status first;
  std::string text;
  for (auto& [master_id, replay] : rebuild.replays) {
    RebuiltMaster master;
    master.master_id = master_id;
    master.status = replay->run();
    master.missing_segments = replay->report().missing;
    if (master.status.ok()) {
      master.objects = replay->live_objects();
      master.objects_not_owned = replay->report().objects_not_owned;
    } else {
      if (first.ok()) first = master.status;
      text += fmt::format("{}master {}: {}", text.empty() ? "" : "; ", master_id,
                          master.status.message());
      if (!master.missing_segments.empty()) {
        text += " (missing segments:";
        for (const uint64_t id : master.missing_segments) text += fmt::format(" {}", id);
        text += ")";
      }
    }
    rebuild.summary.masters.push_back(std::move(master));
  }
  return first.ok() ? Status() : Status(first.code(), text);
}

using Key = std::pair<uint64_t, ByteView>;
struct KeyHash {
  size_t operator()(const Key& key) const { return key_hash(key.first, key.second); }
};
/// For each key the highest version of a tombstone in any master's log.
using DeadKeys = std::unordered_map<Key, uint64_t, KeyHash>;

DeadKeys dead_keys(const Rebuild& rebuild) {
  DeadKeys dead;
  for (const auto& [master_id, replay] : rebuild.replays) {
    replay->for_each_dead([&](const log::DeadKey& key) {
      uint64_t& version = dead[{key.table_id, key.key}];
      version = std::max(version, key.version);
    });
  }
  return dead;
}

/// Objects that are live in some master's log and deleted in no other, by table, key and falling
/// version.
std::vector<log::ReplayedObject> live_objects(const Rebuild& rebuild) {
  const DeadKeys dead = dead_keys(rebuild);
  std::vector<log::ReplayedObject> objects;
  for (const auto& [master_id, replay] : rebuild.replays) {
    replay->for_each([&](const log::ReplayedObject& object) {
      const auto found = dead.find({object.table_id, object.key});
      if (found == dead.end() || object.version > found->second) objects.push_back(object);
    });
  }
  std::ranges::sort(objects, [](const auto& a, const auto& b) {
    if (a.table_id != b.table_id) return a.table_id < b.table_id;
    if (a.key != b.key) return a.key < b.key;
    return a.version > b.version;
  });
  return objects;
}

/// Passes the newest object of each key to the sink.
uint64_t give_objects(const Rebuild& rebuild,
                      const std::function<void(const log::ReplayedObject&)>& sink) {
  const std::vector<log::ReplayedObject> objects = live_objects(rebuild);
  uint64_t given = 0;
  for (size_t i = 0; i < objects.size(); ++i) {
    const bool repeated = i > 0 && objects[i - 1].table_id == objects[i].table_id &&
                          objects[i - 1].key == objects[i].key;
    if (repeated) continue;
    sink(objects[i]);
    ++given;
  }
  return given;
}

}  // namespace

Status rebuild_images(const std::vector<VolumeImage>& volumes,
                      const std::function<void(const log::ReplayedObject&)>& sink,
                      RebuildSummary* summary, const KnownOfMasters& known) {
  Rebuild rebuild;
  Status status;
  for (const auto& volume : volumes) {
    status = add_volume(rebuild, volume, known.recovered);
    if (!status.ok()) break;
  }
  for (const auto& [master_id, fence] : known.fences) {
    const auto found = rebuild.replays.find(master_id);
    if (found != rebuild.replays.end()) found->second->set_fence(fence);
  }
  if (status.ok()) status = run_replays(rebuild);
  if (status.ok()) rebuild.summary.objects = give_objects(rebuild, sink);
  if (summary != nullptr) *summary = std::move(rebuild.summary);
  return status;
}

Status rebuild(const std::vector<std::string>& paths,
               const std::function<void(const log::ReplayedObject&)>& sink, RebuildSummary* summary,
               const KnownOfMasters& known) {
  std::vector<MappedFile> files;
  std::vector<VolumeImage> volumes;
  for (const auto& path : paths) {
    auto file = MappedFile::open(frames_path(path));
    if (!file) return file.error();
    volumes.push_back({frames_path(path), file->bytes()});
    files.push_back(std::move(*file));
  }
  return rebuild_images(volumes, sink, summary, known);
}

}  // namespace ramcloud
