// A segment of the log in memory: 8 MiB in seglets [Ousterhout15 §4.1], and the progress of its
// replicas. docs/design/log.md#segments describes its states.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/atomic.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/spin_lock.h"
#include "log/format.h"
#include "log/segment_bytes.h"

namespace ramcloud::log {

/// The seed of a group's checksum, so that a group is valid only in its own segment and place.
struct SegmentIdentity {
  std::array<uint8_t, 16> cluster_uuid{};
  uint64_t master_id = 0;
  uint64_t segment_id = 0;
  bool operator==(const SegmentIdentity&) const = default;

  /// The checksum so far, before the offset of the group is added.
  uint32_t checksum_seed() const {
    uint32_t crc =
        crc32c(ByteView(reinterpret_cast<const char*>(cluster_uuid.data()), cluster_uuid.size()));
    crc = crc32c(bytes_of(master_id), crc);
    return crc32c(bytes_of(segment_id), crc);
  }
};

/// A head takes new writes, one head after the other; its header has the digest. A side segment is
/// filled in parallel with older data (survivors of cleaning, data of a crashed master), and enters
/// the log when it is complete [Ousterhout15 §4.3, §7.4].
enum class SegmentKind : uint8_t { kHead, kSide };

/// The log or a SideLog writes it, a Replicator reads the published bytes and reports what is
/// durable.
class Segment {
 public:
  uint64_t id() const { return identity_.segment_id; }
  const SegmentIdentity& identity() const { return identity_; }
  SegmentKind kind() const { return kind_; }
  bool side() const { return kind_ == SegmentKind::kSide; }
  LogPosition position(uint32_t offset) const { return {id(), offset}; }
  /// The position that must be durable before a reply may show bytes before this offset. For a side
  /// segment it is durable already: nobody can see its bytes before they are.
  LogPosition dependency(uint32_t offset) const { return {head_id_, offset}; }

  /// Bytes from the start that are complete and never change again. Replication may send them.
  /// Always the end of a group.
  uint32_t published() const { return published_.load(std::memory_order_acquire); }
  /// True once the footer is published: no more bytes follow, and published() is the final length.
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// End of the first group (segment header, digest, safe version): what opening a replica sends.
  uint32_t header_length() const { return header_length_; }
  /// It was opened ahead, but another head is used instead. It is closed empty, perhaps earlier
  /// than the heads before it.
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  /// It was opened from the reserve and takes only deletes, or it is an emergency head and takes
  /// nothing.
  bool from_reserve() const { return takes_.load(std::memory_order_relaxed) != Takes::kAll; }
  /// A number below Log::most_segments(), unique among the segments that have memory.
  uint32_t number() const { return number_; }
  /// The memory that it takes.
  uint32_t memory_bytes() const { return seglet_count_ * kSegletBytes; }

  /// How often it was compacted (CompactedSegment). If not 0, it lacks entries that the original
  /// had.
  uint32_t compactions() const { return compactions_; }
  /// The entries that compaction left out were dead because of what was appended until here. No
  /// replica may be made from this segment before the log is synced up to here. Zero: nothing was
  /// left out.
  LogPosition judged() const { return judged_; }

  /// The published bytes; grows, so take a new view to see more.
  SegmentBytes bytes() const { return {seglets_.data(), published()}; }
  /// The pieces of [offset, offset + length) of the published bytes, in order; returns how many.
  /// `out` needs room for length / kSegletBytes + 2.
  int slices(uint32_t offset, uint32_t length, Slice out[]) const {
    return bytes().slices(offset, length, out);
  }
  /// How far one message from `from` (a group's start) should go: the last end of a group within
  /// max_bytes, or the end of the first group if that alone is larger. `from` if nothing is there.
  /// So what a replica acknowledges is always the end of a group, as Log::set_durable requires.
  uint32_t chunk_end(uint32_t from, uint32_t max_bytes) const;

  /// @name Replication's side. Then call Log::on_replication_progress().
  /// @{
  /// The header group (digest) is on all replicas.
  void mark_opened_durable() { opened_durable_.store(true, std::memory_order_release); }
  /// All its replicas are lost: only by Log::withdraw_opened().
  void unmark_opened_durable() { opened_durable_.store(false, std::memory_order_release); }
  /// All bytes and the footer are on all replicas, which are closed.
  void mark_closed_durable() { closed_durable_.store(true, std::memory_order_release); }
  bool opened_durable() const { return opened_durable_.load(std::memory_order_acquire); }
  bool closed_durable() const { return closed_durable_.load(std::memory_order_acquire); }
  /// Written into the groups that follow. Rises when a replica of an open segment was lost. A new
  /// segment begins with the epoch of the one before.
  uint32_t replication_epoch() const { return epoch_.load(std::memory_order_relaxed); }
  void set_replication_epoch(uint32_t epoch) { epoch_.store(epoch, std::memory_order_relaxed); }
  /// Replication does not use its memory any more. Called after Replicator::segment_removed().
  void mark_released() { released_.store(true, std::memory_order_release); }
  bool released() const { return released_.load(std::memory_order_acquire); }
  /// @}

  /// @name References that outlive a turn. See Pin.
  /// @{
  void pin() { pins_.fetch_add(1, std::memory_order_relaxed); }
  void unpin() { pins_.fetch_sub(1, std::memory_order_release); }
  uint32_t pins() const { return pins_.load(std::memory_order_acquire); }
  /// @}

  /// Bytes of appended entries (headers and bodies), and of those that are live. Tombstones count
  /// as live here; the cleaner finds out which of them are dead (store/segment_judge.h).
  uint32_t entry_bytes() const { return entry_bytes_.load(std::memory_order_relaxed); }
  uint32_t live_bytes() const {
    // Read in this order, so that dead bytes never exceed appended bytes.
    const uint32_t dead = dead_bytes_.load(std::memory_order_acquire);
    return entry_bytes() - dead;
  }
  /// True if its utilisation fell by one step: the cleaner should look at it again.
  bool add_dead(uint32_t bytes) {
    const uint32_t before = dead_bytes_.fetch_add(bytes, std::memory_order_release);
    return before / kUtilisationStep != (before + bytes) / kUtilisationStep;
  }
  static constexpr uint32_t kUtilisationStep = kSegmentBytes / 256;

 private:
  friend class Log;
  friend class Arena;
  friend class SegmentPool;
  friend class SegmentWriter;
  friend class SideLog;
  friend class CompactedSegment;
  /// Which entries may be appended to a head.
  enum class Takes : uint8_t { kAll, kDeletes, kNothing };
  void reset();
  char* address(uint32_t offset) { return seglets_[offset / kSegletBytes] + offset % kSegletBytes; }

  SegmentIdentity identity_;
  uint64_t head_id_ = 0;  // 0: a side segment
  uint32_t checksum_seed_ = 0;
  uint32_t header_length_ = 0;
  SegmentKind kind_ = SegmentKind::kHead;
  Atomic<Takes> takes_{Takes::kAll};
  uint32_t compactions_ = 0;
  LogPosition judged_;
  /// False: the replicas of its id belong to another Segment. This one was compacted, or it is a
  /// copy that is not finished.
  bool has_replicas_ = true;
  uint32_t number_ = 0;        // never changes
  uint32_t seglet_count_ = 0;  // the first so many places of seglets_ are used
  std::array<char*, kSegletsPerSegment> seglets_{};

  // Each append writes these, so they share no cache line with fields that other threads only read.
  alignas(kCacheLineBytes) uint32_t reserved_ = 0;  // bytes given to groups; >= published
  uint32_t footer_crc_ = 0;                         // checksum of the groups' crc fields so far
  Atomic<uint32_t> published_{0};
  Atomic<uint32_t> epoch_{0};
  Atomic<uint32_t> entry_bytes_{0};  // guarded like reserved_ and footer_crc_ by the log's head
                                     // lock
  Atomic<bool> closed_{false};
  Atomic<bool> opened_durable_{false};
  Atomic<bool> closed_durable_{false};
  Atomic<bool> abandoned_{false};
  Atomic<bool> released_{false};

  alignas(kCacheLineBytes) Atomic<uint32_t> dead_bytes_{0};  // bytes of dead entries; added by any
                                                             // thread
  Atomic<uint32_t> pins_{0};
};

/// Keeps the memory of a segment while an object refers to it across turns: a reply that is held, a
/// message that a network card still sends. Within a turn the grace period of epochs is enough
/// (runtime/epoch.h): take a pin in the turn in which the reference was found.
class Pin {
 public:
  Pin() = default;
  explicit Pin(Segment& segment) : segment_(&segment) { segment.pin(); }
  Pin(const Pin& other) : segment_(other.segment_) {
    if (segment_ != nullptr) segment_->pin();
  }
  Pin& operator=(const Pin& other) { return *this = Pin(other); }
  Pin(Pin&& other) noexcept : segment_(std::exchange(other.segment_, nullptr)) {}
  Pin& operator=(Pin&& other) noexcept {
    if (this != &other) {
      release();
      segment_ = std::exchange(other.segment_, nullptr);
    }
    return *this;
  }
  ~Pin() { release(); }
  void release() {
    if (Segment* segment = std::exchange(segment_, nullptr)) segment->unpin();
  }
  explicit operator bool() const { return segment_ != nullptr; }

 private:
  Segment* segment_ = nullptr;
};

}  // namespace ramcloud::log
