// Bodies of the replication operations (master -> backup): packed structs, then segment bytes.
// Aligned, as are their fields, so that a field can be passed by reference.
// [Ousterhout15 §4.2, §4.5]. See docs/formats.md ("Wire").
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace ramcloud::wire {

/// In `flags` of a request, from protocol version 2 on: directly after the struct follow a 32-bit
/// length and that many bytes of an extensible struct (codec.h).
inline constexpr uint32_t kExtended = uint32_t{1} << 31;

/// Removes the extension from the front of the bytes after a struct with these flags. False if it
/// is cut off.
[[nodiscard]] inline bool take_extension(uint32_t flags, std::string_view& rest,
                                         std::string_view& extension) {
  extension = {};
  if ((flags & kExtended) == 0) return true;
  uint32_t length = 0;
  if (rest.size() < sizeof length) return false;
  std::memcpy(&length, rest.data(), sizeof length);
  if (length > rest.size() - sizeof length) return false;
  extension = rest.substr(0, sizeof length + length);  // including its length, as codec.h expects
  rest.remove_prefix(sizeof length + length);
  return true;
}

/// The most replicas of a segment.
inline constexpr size_t kMaxHolders = 8;

/// The ids of the backups that have replicas of a segment.
struct Holders {
  std::array<uint64_t, kMaxHolders> ids{};  // the first `count`
  uint8_t count = 0;
  std::span<const uint64_t> all() const { return std::span(ids).first(count); }
  bool empty() const { return count == 0; }
  /// False if there are too many; then nothing changes.
  [[nodiscard]] bool assign(std::span<const uint64_t> servers) {
    if (servers.size() > kMaxHolders) return false;
    *this = {};
    std::ranges::copy(servers, ids.begin());
    count = static_cast<uint8_t>(servers.size());
    return true;
  }
  /// True if this includes all of `others`.
  bool covers(const Holders& others) const {
    return std::ranges::all_of(
        others.all(), [this](uint64_t id) { return std::ranges::find(all(), id) != all().end(); });
  }
  bool operator==(const Holders&) const = default;
};

/// The extension of a ReplicaOpenRequest and a ReplicaWriteRequest, in codec.h's encoding of
/// version
/// 2. The backup keeps the holders in the frame's metadata, on the device before it answers.
struct ReplicaExtension {
  std::vector<uint64_t> holders;  // ids of all backups of the segment; empty: unchanged
  template <class V>
  void fields(V& v) {
    v.since(2, holders);
  }
};

/// kReplicaOpen: takes a frame for a segment and stores its first bytes (segment header, digest).
/// Answered when these are synced to the device. Idempotent for the same master, segment, epoch.
/// Errors: NO_SPACE (no free frame), CRASHED (the master is listed as crashed), STALE_TERM (a
/// higher epoch of this replica exists). Followed by `length` bytes, from offset 0.
struct __attribute__((packed, aligned(8))) ReplicaOpenRequest {
  enum Flag : uint32_t {
    kPrimary = 1,     // the replica that recovery reads first
    kRecreation = 2,  // a copy of other replicas: invisible until kWriteComplete
  };
  uint64_t master_id;
  uint64_t segment_id;
  uint32_t epoch;  // replication epoch of the segment
  uint32_t flags;
  uint32_t capacity;  // segment bytes
  uint32_t length;
  uint64_t list_version;  // server-list version the master acts on
};
static_assert(sizeof(ReplicaOpenRequest) == 40);

/// kReplicaWrite: appends to an open replica; offset must be at most the bytes that it holds (bytes
/// that it has already are ignored, so a repeated message is harmless). Followed by `length` bytes.
/// Without bytes it only raises the epoch. A raised epoch and kWriteComplete are synced before the
/// answer.
struct __attribute__((packed, aligned(8))) ReplicaWriteRequest {
  enum Flag : uint32_t {
    kClose = 1,          // the bytes include the footer: no more bytes follow
    kWriteComplete = 2,  // completes a copy: it has all bytes so far, and becomes visible
  };
  uint64_t master_id;
  uint64_t segment_id;
  uint32_t epoch;
  uint32_t offset;
  uint32_t length;
  uint32_t flags;
};
static_assert(sizeof(ReplicaWriteRequest) == 32);

/// The reply to both.
struct __attribute__((packed)) ReplicaReply {
  uint32_t bytes_held;  // bytes of the segment the backup has, from offset 0
  uint32_t reserved;
};
static_assert(sizeof(ReplicaReply) == 8);

/// kReplicaFree: the master does not need this replica any more. Idempotent.
struct __attribute__((packed, aligned(8))) ReplicaFreeRequest {
  uint64_t master_id;
  uint64_t segment_id;
};
static_assert(sizeof(ReplicaFreeRequest) == 16);

}  // namespace ramcloud::wire
