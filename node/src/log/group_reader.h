// Reads the groups of a segment from memory or from a replica, trusting nothing: used by replay, by
// `replica dump` and by recovery. Says how far the bytes are valid, and whether what follows is a
// torn tail (the writer died, nothing acknowledged is missing) or corruption (use another replica).
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
    uint32_t offset = 0;  // of the entry's header, in the segment
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
  uint32_t held = 0;           // so many bytes this replica held; others need not have had them
};

enum class ScanEnd : uint8_t {
  kClosed,  // all valid, ends with a footer
  kOpen,    // all valid, no footer; behind it only zeros, or nothing
  kTorn,  // behind the valid part are bytes that are no group; nothing known to be durable is there
  kCorrupt,  // an invalid group below the durable length, or below the length of a closed segment
};

struct SegmentScan {
  ScanEnd end = ScanEnd::kOpen;
  uint32_t valid_bytes = 0;    // end of the last valid group or padding; the footer included
  uint32_t durable_up_to = 0;  // the highest that was known to be durable, groups behind included
  uint32_t replication_epoch = 0;  // the highest in valid groups
  uint32_t groups = 0;             // valid ones, the footer's included
  uint32_t entries = 0;
  uint32_t header_bytes = 0;     // the first group, if valid
  bool is_head = false;          // the segment header says that a digest belongs to it
  std::vector<uint64_t> digest;  // segment ids, rising; empty if there is none
  uint64_t safe_version = 0;     // 0 if there is none
  uint64_t highest_version = 0;  // of objects and tombstones in valid groups

  // For kTorn and kCorrupt:
  uint32_t bad_offset = 0;               // start of the group or padding that is not valid
  std::string what;                      // the damage, for people
  std::optional<uint32_t> flipped_byte;  // if asked for: the one byte whose change explains it
  // Groups with valid headers behind bad_offset. When the power goes, sectors of writes in flight
  // land in any order: such groups prove nothing but what they say was durable.
  uint32_t groups_behind = 0;
  bool footer_behind = false;  // one of them closes the segment: a newer head had been opened

  uint64_t headers_read = 0;  // of groups, paddings and entries, or what could be one: the work
};

/// Whether a scan that finds damage also looks for the one byte whose change explains it: for
/// people, and takes up to a second.
enum class Locate : uint8_t { kNo, kFlippedByte };

/// Bounds the work of one scan, whatever the bytes: SegmentScan::headers_read.
inline constexpr uint64_t kMaxEntriesBehind = 64;  // of a group behind a bad one
inline constexpr uint64_t kMaxHeadersRead =
    (kSegmentBytes / kGroupAlignment) * (2 + kMaxEntriesBehind);

/// The identity that the segment header at the start claims, unverified (scan_segment() then
/// verifies it: the checksums are seeded with it). Nothing if there is no such header.
std::optional<SegmentIdentity> identify_segment(const SegmentBytes& bytes);

/// As scan_segment(), a slice at a time, for a reactor that has other work as well.
class SegmentScanner {
 public:
  /// The bytes outlive it.
  SegmentScanner(const SegmentIdentity& identity, const SegmentBytes& bytes,
                 const KnownOfSegment& known);
  ~SegmentScanner();
  SegmentScanner(const SegmentScanner&) = delete;
  SegmentScanner& operator=(const SegmentScanner&) = delete;
  /// Reads on for about so many bytes, at least one group. False: it is over.
  bool step(uint32_t bytes);
  /// When it is over.
  SegmentScan take();

 private:
  std::unique_ptr<class Scanner> scanner_;
};

/// What groups that were read out of a segment are worth.
struct GroupsCheck {
  uint32_t whole_bytes = 0;  // valid groups and paddings, from the start on
  bool bad = false;          // the bytes behind them are not valid: not only cut off
  std::string what;          // why
};

/// Verifies groups and paddings that were read from `offset` on, where one begins. The last one may
/// be cut off. Calls on_group (if given) with each valid group in order; it lies in the bytes that
/// were read, not in the segment.
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
/// group in order, the segment header's and the footer's included. Groups are handed out as they
/// are found, before it is known how the scan ends. Takes time linear in the size, also on hostile
/// bytes.
SegmentScan scan_segment(const SegmentIdentity& identity, const SegmentBytes& bytes,
                         const KnownOfSegment& known = {},
                         const std::function<void(const GroupView&)>& on_group = nullptr,
                         Locate locate = Locate::kNo);

}  // namespace ramcloud::log
