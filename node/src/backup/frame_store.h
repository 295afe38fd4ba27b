// The frames file of a backup: the content of each frame, and the superblock. It does not know
// which masters are alive: the caller of release() must have proof that the replica is not needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backup/frame_format.h"
#include "base/status.h"
#include "runtime/disk.h"

namespace ramcloud {

/// The content of a frame's metadata, without sequence and checksum of the slots.
struct FrameContent {
  FrameState state = FrameState::kFree;
  uint8_t flags = 0;  // FrameSlot::Flag
  uint32_t epoch = 0;
  uint64_t backup_id = 0;
  uint64_t master_id = 0;
  uint64_t segment_id = 0;
  uint32_t capacity = 0;
  uint32_t length = 0;
  wire::Holders holders;
  BootId boot_id{};  // zero: not known

  bool has(FrameSlot::Flag flag) const { return (flags & flag) != 0; }
};

/// A frame with a replica that an earlier incarnation of the backup wrote.
struct FormerFrame {
  uint32_t frame = 0;
  /// One of the metadata's slots is damaged, and may have been the newer one. The content is then
  /// from the other slot, or if that is empty, from the segment's own header.
  bool damaged = false;
  FrameContent content;
};

/// The use of a frame. Copies of closed segments must not take the last frames, because without a
/// frame for a new head no master can write.
enum class FrameClass : uint8_t { kHead, kCopy };

/// A direct write to a frame, in whole blocks.
struct FrameWrite {
  uint32_t frame = 0;
  uint32_t offset = 0;  // offset in the segment's bytes
  ByteView bytes;
};

class FrameStore {
 public:
  /// Opens or creates DIR/frames with frames for `bytes` (at least one). A volume with more frames
  /// keeps them. If `directory` is a block device, the device is used as the file, with as many
  /// frames as fit on it, at most for `bytes`. Errors name the file: UNSUPPORTED for a newer
  /// format, CORRUPT if neither superblock is valid, UNAVAILABLE if another process has it open.
  /// (adopt() answers WRONG_CLUSTER.)
  static Result<std::unique_ptr<FrameStore>> open(Disk& disk, const std::string& directory,
                                                  uint64_t bytes);

  /// From the superblock; zero on a fresh volume.
  const wire::Uuid& cluster_uuid() const { return cluster_uuid_; }
  uint64_t former_server_id() const { return former_server_id_; }
  /// The id of this incarnation, after adopt().
  uint64_t server_id() const { return server_id_; }
  uint64_t list_term() const { return list_term_; }
  uint64_t list_version() const { return list_version_; }

  /// Takes over the volume for this incarnation of the server. WRONG_CLUSTER if it belongs to
  /// another cluster: the message names both, and nothing changes. Durable after the next sync().
  Status adopt(const wire::Uuid& cluster_uuid, uint64_t server_id, uint64_t list_term,
               uint64_t list_version);
  /// Remembers the highest server list seen. Durable after the next sync(). It requests none,
  /// because no decision depends on it.
  Status note_list(uint64_t list_term, uint64_t list_version);

  /// Takes a free frame, and calls `done` with its index when its space is allocated and zeroed. A
  /// busy disk may need seconds for that. NO_SPACE: no frame is free for this class (`done` is
  /// called at once), or the disk is full (the frame is free again).
  void allocate(FrameClass frame_class, std::function<void(Result<uint32_t>)> done);
  /// The next frame of this class is free, and has its space: taking it needs none of the disk.
  bool has_room(FrameClass frame_class) const {
    return may_take(frame_class).ok() && frames_[free_.front()].allocated;
  }
  /// Writes the frame's metadata; backup_id, boot id and cluster are those of this incarnation.
  Status describe(uint32_t frame, const FrameContent& content);
  /// Writes segment bytes. Precondition: offset + size <= kSegmentBytes.
  Status write(uint32_t frame, uint32_t offset, ByteView bytes);
  /// Direct writes must be multiples of this; 0: direct writes are not supported.
  uint32_t direct_block() const { return file_->direct_block(); }
  /// Writes past the page cache; calls `done` when everything is on the device
  /// (File::write_direct). `writes` are sorted by frame and offset; one batch at a time.
  void write_direct(std::span<const FrameWrite> writes, std::shared_ptr<const void> keep,
                    std::function<void(Status)> done);
  /// Reads segment bytes that were written. Bytes that are still in UnsyncedTails are not included.
  Status read(uint32_t frame, uint32_t offset, char* to, size_t size) const {
    return file_->read(frame_data_offset(frame) + offset, to, size);
  }
  /// The same without blocking the reactor (File::read_beside).
  void read_beside(uint32_t frame, uint32_t offset, std::span<char> to, std::shared_ptr<void> keep,
                   std::function<void(Status)> done) {
    file_->read_beside(frame_data_offset(frame) + offset, to, std::move(keep), std::move(done));
  }
  /// Frees a frame. Precondition: proof that its replica is obsolete. A direct write in flight to
  /// it ends before the frame is reused.
  Status release(uint32_t frame);
  /// Calls `done` when everything written before this call is on the device. What a sync that failed
  /// should have written may never be written, and the kernel reports that once. So after a failure
  /// every sync fails, with the first error.
  void sync(std::function<void(Status)> done);

  uint32_t frames_total() const { return static_cast<uint32_t>(frames_.size()); }
  uint32_t frames_free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t frames_used() const { return frames_total() - frames_free() - quarantined_; }
  /// Frames found at start with replicas of earlier incarnations or damaged metadata. They are kept
  /// until release_former().
  uint32_t frames_quarantined() const { return quarantined_; }
  /// Quarantined frames with a replica of this cluster, by rising frame.
  const std::vector<FormerFrame>& former() const { return former_; }
  /// Removes the master's frames for which `which` is true from former(), for release_former().
  /// Frames with damaged metadata stay, because they may hold something else.
  std::vector<uint32_t> take_former(uint64_t master_id,
                                    const std::function<bool(const FormerFrame&)>& which);
  /// As release().
  Status release_former(uint32_t frame);
  /// Null if this frame is not one of former(). Valid until former() changes.
  const FormerFrame* find_former(uint32_t frame) const;
  /// The frame is used by this incarnation from now on. Precondition: describe().
  void no_longer_former(uint32_t frame);
  /// Frames released while a direct write to them was in flight; they are free when it ends.
  uint32_t frames_ending() const { return ending_; }
  /// Free frames that only heads may take.
  uint32_t head_reserve() const {
    return std::min(frames_total() / wire::kHeadReserveShare, wire::kMostHeadReserve);
  }
  const std::string& path() const { return path_; }
  /// The boot id of this host now.
  const BootId& boot_id() const { return boot_id_; }

 private:
  struct Frame {
    uint64_t sequence = 0;   // sequence of the newest slot
    uint8_t next_slot = 0;   // the one to write next
    bool allocated = false;  // space was taken before
    bool written = false;    // the direct write in flight writes to it
    bool released = false;   // released during that write
  };
  FrameStore(std::unique_ptr<File> file, std::string path, const BootId& boot_id)
      : file_(std::move(file)), path_(std::move(path)), boot_id_(boot_id) {}
  Status load_superblock();
  Status write_superblock();
  Status load_frames(uint32_t wanted);
  Status load_frame(uint32_t index);
  Status may_take(FrameClass frame_class) const;
  void note_former(uint32_t index, const FrameSlot& slot, bool damaged);
  void put_back(uint32_t index);
  void written_direct();

  std::unique_ptr<File> file_;
  std::shared_ptr<Status> failed_sync_ = std::make_shared<Status>();  // of the first that failed
  std::string path_;
  BootId boot_id_;
  wire::Uuid cluster_uuid_{};
  uint64_t former_server_id_ = 0;
  uint64_t server_id_ = 0;
  uint64_t list_term_ = 0;
  uint64_t list_version_ = 0;
  uint64_t superblock_sequence_ = 0;
  uint8_t superblock_next_slot_ = 0;
  uint32_t superblock_frames_ = 0;  // frames in the superblock when it was loaded
  std::vector<Frame> frames_;
  std::vector<uint32_t> free_;  // a heap: the lowest first, so that the file stays dense
  uint32_t quarantined_ = 0;
  std::vector<FormerFrame> former_;
  uint32_t ending_ = 0;
  std::vector<DirectWrite> direct_writes_;  // of the batch in flight
  std::vector<uint32_t> direct_frames_;     // frames of the batch in flight
};

}  // namespace ramcloud
