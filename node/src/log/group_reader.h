// Reads the groups of a segment from memory or from a replica, and verifies everything: used by
// replay, by `replica dump` and by recovery. Reports how far the bytes are valid, and whether the
// rest is a torn tail (the writer died, nothing acknowledged is missing) or corruption (use another
// replica).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "log/entry_view.h"
#include "log/format.h"
#include "log/segment.h"
#include "log/segment_bytes.h"

namespace ramcloud::log {

/// One valid group. Entries are read by walking: for (auto e = g.first(); e; e = g.next(*e)).
class GroupView {
 public:
  GroupView() = default;
  GroupView(SegmentBytes bytes, uint32_t offset, GroupHeader header)
      : bytes_(bytes), offset_(offset), header_(header) {}

  uint32_t offset() const { return offset_; }
  uint32_t length() const { return header_.length(); }
  uint32_t end() const { return offset_ + length(); }
  const GroupHeader& header() const { return header_; }

  struct Entry {
    EntryView view;
    uint32_t offset = 0;  // offset of the entry's header in the segment
  };
  std::optional<Entry> first() const { return at(offset_ + sizeof(GroupHeader)); }
  std::optional<Entry> next(const Entry& e) const { return at(e.offset + e.view.total_length()); }

 private:
  // Fill is shorter than an entry's header, so the length of the rest tells whether another entry
  // follows.
  std::optional<Entry> at(uint32_t offset) const {
    if (end() - offset < sizeof(EntryHeader)) return std::nullopt;
    return Entry{EntryView(bytes_, offset, bytes_.load_at<EntryHeader>(offset)), offset};
  }
  SegmentBytes bytes_;
  uint32_t offset_ = 0;
  GroupHeader header_{};
};

/// Facts about a replica from elsewhere (its metadata, other replicas).
struct KnownOfSegment {
  std::optional<uint32_t>
      closed_length;           // the segment was closed with this many bytes, footer included
  uint32_t durable_up_to = 0;  // all bytes below were durable
  uint32_t bytes_held = 0;     // bytes that this replica held; other replicas may have held fewer
};

enum class ScanEnd : uint8_t {
  kClosed,   // all valid, ends with a footer
  kOpen,     // all valid, no footer; only zeros follow, or nothing
  kTorn,     // after the valid part are bytes that are not a group; nothing known to be durable is
             // there
  kCorrupt,  // an invalid group below the durable length, or below the length of a closed segment
};

struct SegmentScan {
  ScanEnd end = ScanEnd::kOpen;
  uint32_t valid_bytes = 0;        // end of the last valid group or padding; the footer included
  uint32_t durable_up_to = 0;      // the highest value in groups, including groups after a hole
  uint32_t replication_epoch = 0;  // the highest value in valid groups
  uint32_t groups = 0;             // valid groups, including the footer's
  uint32_t entries = 0;
  uint32_t header_bytes = 0;     // the first group, if valid
  bool is_head = false;          // the segment header says that a digest belongs to it
  std::vector<uint64_t> digest;  // segment ids, rising; empty if there is none
  uint64_t safe_version = 0;     // 0 if there is none
  uint64_t highest_version = 0;  // the highest version in valid groups

  // For kTorn and kCorrupt:
  uint32_t bad_offset = 0;               // start of the group or padding that is not valid
  std::string what;                      // describes the damage, for people
  std::optional<uint32_t> flipped_byte;  // if asked for: the one byte whose change explains it
  // Groups with valid headers after bad_offset. When power fails, sectors of writes in flight
  // reach the device in any order. So such groups prove nothing except the `durable_up_to` that
  // they contain.
  uint32_t groups_after_hole = 0;
  bool footer_after_hole = false;  // one of them is a footer: a newer head had been opened

  uint64_t headers_read = 0;  // the work done: headers of groups, paddings and entries, or bytes
                              // that could be one
};

/// Whether a scan that finds damage also searches the one byte whose change explains it. For
/// people; takes up to a second.
enum class Locate : uint8_t { kNo, kFlippedByte };

/// Bounds the work of one scan, whatever the bytes: SegmentScan::headers_read.
inline constexpr uint64_t kMaxEntriesBehind = 64;  // entries of a group after a bad one
inline constexpr uint64_t kMaxHeadersRead =
    (kSegmentBytes / kGroupAlignment) * (2 + kMaxEntriesBehind);

/// The identity in the segment header, not verified; scan_segment() verifies it, because the
/// checksums are seeded with it. None if there is no such header.
std::optional<SegmentIdentity> identify_segment(const SegmentBytes& bytes);

/// The checksum in the footer of a closed segment of `length` bytes. It covers the checksums of all
/// its groups, so it identifies the segment's bytes. Precondition: a footer ends there.
inline uint32_t certificate_of(const SegmentBytes& bytes, uint32_t length) {
  return bytes.load_at<FooterBody>(length - uint32_t{sizeof(FooterBody)}).crc;
}

/// As scan_segment(), in slices, for a reactor that has other work as well.
class SegmentScanner {
 public:
  /// The bytes outlive it.
  SegmentScanner(const SegmentIdentity& identity, const SegmentBytes& bytes,
                 const KnownOfSegment& known);
  ~SegmentScanner();
  SegmentScanner(const SegmentScanner&) = delete;
  SegmentScanner& operator=(const SegmentScanner&) = delete;
  /// Scans about `bytes` more bytes, at least one group. False: the scan is over.
  bool step(uint32_t bytes);
  /// The result. Precondition: the scan is over.
  SegmentScan take();

 private:
  std::unique_ptr<class Scanner> scanner_;
};

/// The result of verifying groups that were read from the middle of a segment.
struct GroupsCheck {
  uint32_t whole_bytes = 0;  // bytes of valid groups and paddings from the start
  bool bad = false;          // the bytes after them are invalid, not just cut off
  std::string what;          // why they are bad
};

/// Verifies groups and paddings that were read from `offset` on, where one begins. The last one may
/// be cut off. Calls on_group (if given) with each valid group in order; the view points into the
/// bytes that were read.
class GroupsChecker {
 public:
  /// The bytes outlive it.
  GroupsChecker(const SegmentIdentity& identity, const SegmentBytes& bytes, uint32_t offset,
                std::function<void(const GroupView&)> on_group = nullptr);
  ~GroupsChecker();
  GroupsChecker(const GroupsChecker&) = delete;
  GroupsChecker& operator=(const GroupsChecker&) = delete;
  bool step(uint32_t bytes);
  GroupsCheck take();

 private:
  std::unique_ptr<class Scanner> scanner_;
};

/// Reads the whole segment, verifies everything, and calls on_group (if given) with each valid
/// group in order, the segment header's and the footer's included. on_group is called before it is
/// known how the scan ends. Takes time linear in the size, also on hostile bytes.
SegmentScan scan_segment(const SegmentIdentity& identity, const SegmentBytes& bytes,
                         const KnownOfSegment& known = {},
                         const std::function<void(const GroupView&)>& on_group = nullptr,
                         Locate locate = Locate::kNo);

}  // namespace ramcloud::log
