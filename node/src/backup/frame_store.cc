#include "backup/frame_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "base/text.h"
#include "log/group_reader.h"

namespace ramcloud {
namespace {

constexpr wire::Uuid kNoCluster{};

Status with_path(const Status& status, const std::string& path) {
  if (status.message().find(path) != std::string::npos) return status;
  return {status.code(), fmt::format("{}: {}", path, status.message())};
}

}  // namespace

Result<std::unique_ptr<FrameStore>> FrameStore::open(Disk& disk, const std::string& directory,
                                                     uint64_t bytes) {
  std::string path = directory;
  uint64_t wanted = std::max<uint64_t>(1, bytes / log::kSegmentBytes);
  if (const uint64_t device = disk.device_bytes(directory); device > 0) {
    const uint64_t room = (std::max(device, kSuperblockBytes) - kSuperblockBytes) / kFrameStride;
    if (room == 0) {
      return fail(StatusCode::kNoSpace,
                  fmt::format("{}: the device has {}; one frame needs {}", path,
                              format_size(device), format_size(frames_file_bytes(1))));
    }
    wanted = std::min(wanted, room);
  } else {
    if (Status made = disk.make_directories(directory); !made.ok()) return fail(made);
    path += std::string("/") + kFramesFileName;
  }
  if (wanted > kMaxFrames) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("{}: backup size {} is {} frames; at most {} are supported", path,
                            format_size(bytes), wanted, kMaxFrames));
  }
  auto file = disk.open(path, frames_file_bytes(static_cast<uint32_t>(wanted)));
  if (!file) return fail(with_path(file.error(), path));
  // Sync the folder, too. Otherwise a power cut could lose the file's name, and with it the synced
  // bytes.
  if (path != directory) {
    if (Status synced = disk.sync_directory(directory); !synced.ok()) {
      return fail(with_path(synced, path));
    }
  }
  std::unique_ptr<FrameStore> store(new FrameStore(std::move(*file), path, disk.boot_id()));
  Status loaded = store->load_superblock();
  if (loaded.ok()) loaded = store->load_frames(static_cast<uint32_t>(wanted));
  if (!loaded.ok()) return fail(with_path(loaded, path));
  return store;
}

Status FrameStore::load_superblock() {
  bool any = false;
  bool damaged = false;
  for (uint8_t slot_index = 0; slot_index < 2; ++slot_index) {
    char bytes[kSlotBytes];
    RC_RETURN_IF_ERROR(file_->read(slot_index * kSuperblockSlotStride, bytes, sizeof bytes));
    SuperblockSlot slot;
    switch (parse_slot(ByteView(bytes, sizeof bytes), slot)) {
      case SlotVerdict::kEmpty:
        break;
      case SlotVerdict::kCorrupt:
        damaged = true;
        break;
      case SlotVerdict::kNewer:
        return {StatusCode::kUnsupported,
                fmt::format("the volume has format version {}; this program reads up to {}",
                            uint16_t{slot.format_version}, kFrameFormatVersion)};
      case SlotVerdict::kValid:
        if (slot.frame_bytes != log::kSegmentBytes) {
          return {StatusCode::kUnsupported,
                  fmt::format("the volume's frames are of {}; this program's are of {}",
                              format_size(slot.frame_bytes), format_size(log::kSegmentBytes))};
        }
        if (any && slot.sequence < superblock_sequence_) break;
        any = true;
        superblock_sequence_ = slot.sequence;
        superblock_next_slot_ = slot_index ^ 1;
        superblock_frames_ = slot.frame_count;
        std::memcpy(cluster_uuid_.data(), slot.cluster_uuid, cluster_uuid_.size());
        former_server_id_ = slot.server_id;
        list_term_ = slot.list_term;
        list_version_ = slot.list_version;
        break;
    }
  }
  if (!any && damaged) {
    return {StatusCode::kCorrupt, "both superblocks are damaged; see `ramcloud replica dump`"};
  }
  if (damaged) log_warn("backup.superblock_damaged", {{"file", path_}});
  return {};
}

Status FrameStore::load_frames(uint32_t wanted) {
  const uint32_t count = std::max(wanted, superblock_frames_);
  if (file_->size() < frames_file_bytes(count)) {
    return {
        StatusCode::kCorrupt,
        fmt::format("the superblock counts {} frames, for which the file's {} bytes are too few",
                    count, file_->size())};
  }
  frames_.resize(count);
  for (uint32_t i = 0; i < count; ++i) RC_RETURN_IF_ERROR(load_frame(i));
  std::ranges::make_heap(free_, std::greater<>());
  if (quarantined_ > 0) {
    log_info("backup.quarantined", {{"file", path_}, {"frames", quarantined_}});
  }
  return {};
}

Status FrameStore::load_frame(uint32_t index) {
  char block[kFrameMetadataBytes];
  RC_RETURN_IF_ERROR(file_->read(frame_metadata_offset(index), block, sizeof block));
  Frame& frame = frames_[index];
  FrameSlot newest{};
  newest.state = FrameState::kFree;
  bool keep = false;
  for (uint8_t slot_index = 0; slot_index < 2; ++slot_index) {
    FrameSlot slot;
    switch (parse_slot(ByteView(block + slot_index * kFrameSlotStride, kSlotBytes), slot)) {
      case SlotVerdict::kEmpty:
        break;
      // The damaged slot may be the newer one, and name a replica in this frame.
      case SlotVerdict::kCorrupt:
      case SlotVerdict::kNewer:
        keep = true;
        break;
      case SlotVerdict::kValid:
        frame.allocated = true;
        if (slot.sequence < frame.sequence) break;
        frame.sequence = slot.sequence;
        frame.next_slot = slot_index ^ 1;
        newest = slot;
        break;
    }
  }
  if (keep || newest.state != FrameState::kFree) {
    ++quarantined_;
    note_former(index, newest, keep);
  } else {
    free_.push_back(index);
  }
  return {};
}

/// The segment's own header also says which segment it is. That is used only for what no metadata
/// tells.
void FrameStore::note_former(uint32_t index, const FrameSlot& slot, bool damaged) {
  FormerFrame former{.frame = index, .damaged = damaged, .content = {}};
  FrameContent& content = former.content;
  wire::Uuid cluster{};
  if (slot.state != FrameState::kFree) {
    std::memcpy(cluster.data(), slot.cluster_uuid, cluster.size());
    content = {.state = slot.state,
               .flags = slot.flags,
               .epoch = slot.epoch,
               .backup_id = slot.backup_id,
               .master_id = slot.master_id,
               .segment_id = slot.segment_id,
               .capacity = slot.capacity,
               .length = slot.length,
               .holders = {},
               .boot_id = {}};
    std::memcpy(content.holders.ids.data(), slot.holders, sizeof slot.holders);
    content.holders.count = slot.holder_count;
    std::memcpy(content.boot_id.data(), slot.boot_id, content.boot_id.size());
  } else {
    char bytes[128];
    if (!read(index, 0, bytes, sizeof bytes).ok()) return;
    const auto claimed = log::identify_segment(log::SegmentBytes(ByteView(bytes, sizeof bytes)));
    if (!claimed) return;
    cluster = claimed->cluster_uuid;
    content.state = FrameState::kOpen;
    content.master_id = claimed->master_id;
    content.segment_id = claimed->segment_id;
    content.capacity = log::kSegmentBytes;
  }
  if (cluster == cluster_uuid_) former_.push_back(std::move(former));
}

Status FrameStore::write_superblock() {
  SuperblockSlot slot{};
  slot.frame_bytes = log::kSegmentBytes;
  slot.sequence = superblock_sequence_ + 1;
  std::memcpy(slot.cluster_uuid, cluster_uuid_.data(), cluster_uuid_.size());
  slot.server_id = server_id_;
  slot.list_term = list_term_;
  slot.list_version = list_version_;
  slot.frame_count = frames_total();
  seal(slot);
  RC_RETURN_IF_ERROR(file_->write(superblock_next_slot_ * kSuperblockSlotStride, bytes_of(slot)));
  superblock_sequence_ = slot.sequence;
  superblock_next_slot_ ^= 1;
  return {};
}

Status FrameStore::adopt(const wire::Uuid& cluster_uuid, uint64_t server_id, uint64_t list_term,
                         uint64_t list_version) {
  if (cluster_uuid_ != kNoCluster && cluster_uuid_ != cluster_uuid) {
    return {
        StatusCode::kWrongCluster,
        fmt::format("{} belongs to cluster {}, and this is cluster {}; give this server another "
                    "--dir, or that cluster its volume back",
                    path_, format_uuid(cluster_uuid_), format_uuid(cluster_uuid))};
  }
  cluster_uuid_ = cluster_uuid;
  server_id_ = server_id;
  // Keep the highest version seen; that of a restarted coordinator may be lower for a moment.
  if (std::pair(list_term, list_version) > std::pair(list_term_, list_version_)) {
    list_term_ = list_term;
    list_version_ = list_version;
  }
  const bool first = superblock_sequence_ == 0;
  RC_RETURN_IF_ERROR(write_superblock());
  // Write both slots at first: a volume with only one superblock would be lost with one sector.
  return first ? write_superblock() : Status();
}

Status FrameStore::note_list(uint64_t list_term, uint64_t list_version) {
  list_term_ = list_term;
  list_version_ = list_version;
  return write_superblock();
}

Status FrameStore::may_take(FrameClass frame_class) const {
  if (frame_class == FrameClass::kCopy && !free_.empty() && free_.size() <= head_reserve()) {
    return {StatusCode::kNoSpace,
            fmt::format("{}: the last {} free frames are kept for new heads", path_, free_.size())};
  }
  if (free_.empty() && ending_ > 0) {
    return {StatusCode::kRetry, path_ + ": a frame becomes free when its last write has ended"};
  }
  if (free_.empty()) {
    return {StatusCode::kNoSpace,
            fmt::format("{}: all {} frames are taken ({} of them quarantined)", path_,
                        frames_total(), quarantined_)};
  }
  return {};
}

void FrameStore::allocate(FrameClass frame_class, std::function<void(Result<uint32_t>)> done) {
  if (Status may = may_take(frame_class); !may.ok()) return done(fail(may));
  const uint32_t index = free_.front();
  std::ranges::pop_heap(free_, std::greater<>());
  free_.pop_back();
  // The metadata block of a frame that was used is not zeroed: its current slot stays valid until
  // describe() writes the other one.
  const bool used = frames_[index].allocated;
  file_->allocate_zeroed(used ? frame_data_offset(index) : frame_metadata_offset(index),
                         used ? log::kSegmentBytes : kFrameStride,
                         [this, index, done = std::move(done)](const Status& allocated) {
                           if (!allocated.ok()) {
                             put_back(index);
                             return done(fail(with_path(allocated, path_)));
                           }
                           frames_[index].allocated = true;
                           done(index);
                         });
}

void FrameStore::put_back(uint32_t index) {
  free_.push_back(index);
  std::ranges::push_heap(free_, std::greater<>());
}

Status FrameStore::describe(uint32_t index, const FrameContent& content) {
  Frame& frame = frames_[index];
  FrameSlot slot{};
  slot.state = content.state;
  slot.flags = content.flags;
  slot.epoch = content.epoch;
  slot.sequence = frame.sequence + 1;
  std::memcpy(slot.cluster_uuid, cluster_uuid_.data(), cluster_uuid_.size());
  slot.backup_id = server_id_;
  slot.master_id = content.master_id;
  slot.segment_id = content.segment_id;
  slot.capacity = content.capacity;
  slot.length = content.has(FrameSlot::kLengthKnown) ? content.length : 0;
  if (content.state != FrameState::kFree) {
    std::memcpy(slot.boot_id, boot_id_.data(), boot_id_.size());
    slot.holder_count = content.holders.count;
    std::memcpy(slot.holders, content.holders.ids.data(), sizeof slot.holders);
  }
  seal(slot);
  RC_RETURN_IF_ERROR(file_->write(frame_metadata_offset(index) + frame.next_slot * kFrameSlotStride,
                                  bytes_of(slot)));
  frame.sequence = slot.sequence;
  frame.next_slot ^= 1;
  return {};
}

Status FrameStore::write(uint32_t index, uint32_t offset, ByteView bytes) {
  return file_->write(frame_data_offset(index) + offset, bytes);
}

void FrameStore::sync(std::function<void(Status)> done) {
  file_->sync([failed = failed_sync_, done = std::move(done)](Status status) {
    if (failed->ok()) {
      *failed = std::move(status);
    } else if (status.ok()) {
      RC_SOMETIMES("backup.sync_after_a_failed_one");
    }
    done(*failed);
  });
}

void FrameStore::write_direct(std::span<const FrameWrite> writes, std::shared_ptr<const void> keep,
                              std::function<void(Status)> done) {
  direct_writes_.clear();
  direct_frames_.clear();
  for (const FrameWrite& write : writes) {
    direct_writes_.push_back({frame_data_offset(write.frame) + write.offset, write.bytes});
    if (!std::exchange(frames_[write.frame].written, true)) direct_frames_.push_back(write.frame);
  }
  file_->write_direct(direct_writes_, std::move(keep),
                      [this, done = std::move(done)](Status status) {
                        written_direct();
                        done(std::move(status));
                      });
}

void FrameStore::written_direct() {
  for (const uint32_t index : direct_frames_) {
    frames_[index].written = false;
    if (!std::exchange(frames_[index].released, false)) continue;
    --ending_;
    put_back(index);
  }
}

Status FrameStore::release(uint32_t index) {
  RC_RETURN_IF_ERROR(describe(index, FrameContent{}));
  if (frames_[index].written) {
    frames_[index].released = true;
    ++ending_;
  } else {
    put_back(index);
  }
  return {};
}

std::vector<uint32_t> FrameStore::take_former(
    uint64_t master_id, const std::function<bool(const FormerFrame&)>& which) {
  std::vector<uint32_t> frames;
  std::erase_if(former_, [&](const FormerFrame& former) {
    const bool taken = former.content.master_id == master_id && !former.damaged && which(former);
    if (taken) frames.push_back(former.frame);
    return taken;
  });
  return frames;
}

const FormerFrame* FrameStore::find_former(uint32_t frame) const {
  const auto former = std::ranges::lower_bound(former_, frame, {}, &FormerFrame::frame);
  return former == former_.end() || former->frame != frame ? nullptr : &*former;
}

void FrameStore::no_longer_former(uint32_t frame) {
  const auto former = std::ranges::lower_bound(former_, frame, {}, &FormerFrame::frame);
  former_.erase(former);
  --quarantined_;
}

Status FrameStore::release_former(uint32_t frame) {
  RC_RETURN_IF_ERROR(release(frame));
  --quarantined_;
  return {};
}

}  // namespace ramcloud
