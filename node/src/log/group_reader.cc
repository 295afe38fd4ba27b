#include "log/group_reader.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/checksum.h"
#include "log/digest.h"

namespace ramcloud::log {
namespace {

/// One byte read with another value than it has: to find which byte was changed.
struct Patch {
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t offset = kNone;
  uint8_t value = 0;
};

/// A group or a padding whose header, and for a group all entry headers, have been verified.
struct Unit {
  uint32_t offset = 0;
  uint32_t length = 0;
  uint32_t crc = 0;
  bool is_group = false;
  uint32_t entries = 0;
};

struct Problem {
  std::string what;
  std::optional<uint32_t> flipped_byte;
};

/// The search for a changed byte tries at most so many entry headers.
constexpr uint32_t kMaxEntriesToSearch = 16;

std::string number(uint64_t n) {
  return std::to_string(n);
}

}  // namespace

class Scanner {
 public:
  /// `base`: where in the segment the bytes begin.
  Scanner(const SegmentIdentity& identity, const SegmentBytes& bytes, const KnownOfSegment& known,
          std::function<void(const GroupView&)> on_group, Locate locate, uint32_t base = 0)
      : identity_(identity),
        bytes_(bytes),
        known_(known),
        on_group_(std::move(on_group)),
        locate_(locate == Locate::kFlippedByte),
        base_(base),
        seed_(identity.checksum_seed()) {
    result_.durable_up_to = known.durable_up_to;
  }

  /// Scans a slice of a whole segment. False: the scan is over; see result().
  bool step(uint32_t bytes);
  SegmentScan& result() { return result_; }
  /// Scans a slice of groups from the middle of a segment.
  bool step_groups(uint32_t bytes);
  GroupsCheck& groups() { return groups_; }

 private:
  enum class Part : uint8_t { kGroups, kZeros, kBehind, kOver };
  template <typename T>
  T load_at(uint32_t offset, const Patch& patch) const {
    T value = bytes_.load_at<T>(offset);
    if (patch.offset - offset < sizeof(T)) {
      std::memcpy(reinterpret_cast<char*>(&value) + (patch.offset - offset), &patch.value, 1);
    }
    return value;
  }
  /// Verifies headers and their checksum, not the bodies. Null, or a text about the damage.
  const char* check_framing(uint32_t offset, const Patch& patch, uint32_t max_entries,
                            Unit& unit) const;
  const char* check_group_framing(const Patch& patch, uint32_t max_entries, Unit& unit) const;
  /// Verifies bodies and fill of a unit with valid framing.
  bool check_contents(const Unit& unit, const Patch& patch, Problem& problem) const;
  bool check_zeros(uint32_t from, uint32_t to, Problem& problem) const;
  std::optional<uint32_t> flipped_in_body(const EntryView& entry, uint32_t body_offset) const;
  std::optional<uint32_t> flipped_in_headers(uint32_t offset) const;

  bool accept_first(const GroupView& group, Problem& problem);
  bool accept_footer(const GroupView& group, const EntryView& footer, Problem& problem) const;
  void accept(const Unit& unit);
  void read_unit();
  void look_for_zeros(uint32_t bytes);
  void look_behind(uint32_t bytes);
  void finish_without_footer(uint32_t at);
  void begin_bad(uint32_t at, Problem problem);
  void finish_bad();
  bool must_reach(uint32_t at, std::string& why) const;

  const SegmentIdentity identity_;
  const SegmentBytes bytes_;
  const KnownOfSegment known_;
  const std::function<void(const GroupView&)> on_group_;
  const bool locate_;
  const uint32_t base_;
  const uint32_t seed_;
  Part part_ = Part::kGroups;
  uint32_t at_ = 0;                 // in the bytes
  uint32_t looked_ = 0;             // bytes after at_ that were looked at
  Problem problem_;                 // the first damage found
  bool written_like_that_ = false;  // the checksums hold
  uint32_t footer_crc_ = 0;
  SegmentScan result_;
  GroupsCheck groups_;
};

const char* Scanner::check_framing(uint32_t offset, const Patch& patch, uint32_t max_entries,
                                   Unit& unit) const {
  const uint32_t room = bytes_.size() - offset;
  if (room < sizeof(PaddingHeader)) return "cut off in a header";
  const auto first = load_at<uint32_t>(offset, patch);
  const auto magic = static_cast<uint8_t>(first >> 24);
  unit = {.offset = offset, .length = first & 0xffffff, .is_group = magic == kGroupMagic};
  if (magic != kGroupMagic && magic != kPaddingMagic) return "neither a group nor padding";
  if (unit.length % kGroupAlignment != 0) return "a length that is not a multiple of 8";
  if (unit.length <
      (unit.is_group ? sizeof(GroupHeader) + sizeof(EntryHeader) : sizeof(PaddingHeader))) {
    return "a length too small";
  }
  if (unit.length > room) return "a length that reaches beyond the end";
  if (unit.is_group) return check_group_framing(patch, max_entries, unit);
  const auto header = load_at<PaddingHeader>(offset, patch);
  const uint32_t in_segment = base_ + offset;
  uint32_t crc = crc32c(bytes_of(in_segment), seed_);
  crc = crc32c(bytes_of(header).substr(0, offsetof(PaddingHeader, crc)), crc);
  unit.crc = crc;
  return crc == header.crc ? nullptr : "padding with a wrong checksum";
}

const char* Scanner::check_group_framing(const Patch& patch, uint32_t max_entries,
                                         Unit& unit) const {
  const auto header = load_at<GroupHeader>(unit.offset, patch);
  const uint32_t in_segment = base_ + unit.offset;
  uint32_t crc = crc32c(bytes_of(in_segment), seed_);
  crc = crc32c(bytes_of(header).substr(0, offsetof(GroupHeader, crc)), crc);
  uint32_t at = unit.offset + sizeof(GroupHeader);
  const uint32_t end = unit.offset + unit.length;
  while (end - at >= sizeof(EntryHeader)) {
    const auto entry = load_at<EntryHeader>(at, patch);
    if (entry.length() > end - at - sizeof(EntryHeader)) return "an entry longer than its group";
    if (unit.entries == max_entries) return "too many entries";
    ++unit.entries;
    crc = crc32c(bytes_of(entry), crc);
    at += sizeof(EntryHeader) + entry.length();
  }
  unit.crc = crc;
  return crc == header.crc ? nullptr : "a group header with a wrong checksum";
}

bool Scanner::check_contents(const Unit& unit, const Patch& patch, Problem& problem) const {
  const uint32_t end = unit.offset + unit.length;
  if (!unit.is_group) return check_zeros(unit.offset + sizeof(PaddingHeader), end, problem);
  uint32_t at = unit.offset + sizeof(GroupHeader);
  while (end - at >= sizeof(EntryHeader)) {
    const EntryView entry(bytes_, at, load_at<EntryHeader>(at, patch));
    if (entry.type() == EntryType::kInvalid) {
      problem.what = "an entry of type 0";
      return false;
    }
    if (!entry.verify()) {
      problem.what = "an entry's body with a wrong checksum";
      if (locate_) problem.flipped_byte = flipped_in_body(entry, at + sizeof(EntryHeader));
      return false;
    }
    at += entry.total_length();
  }
  return check_zeros(at, end, problem);
}

bool Scanner::check_zeros(uint32_t from, uint32_t to, Problem& problem) const {
  const uint32_t found = bytes_.first_nonzero(from, to - from);
  if (found == to) return true;
  problem.what = "fill that is not zero";
  problem.flipped_byte = found;
  return false;
}

std::optional<uint32_t> Scanner::flipped_in_body(const EntryView& entry,
                                                 uint32_t body_offset) const {
  std::string body(entry.body_length(), '\0');
  entry.read(0, body.data(), entry.body_length());
  const auto type = static_cast<char>(entry.type());
  const auto found = find_flipped_byte(body, entry.stored_checksum(), crc32c(ByteView(&type, 1)));
  if (!found) return std::nullopt;
  return body_offset + static_cast<uint32_t>(*found);
}

/// Tries every other value of every header byte from this unit's start on. The checksum alone
/// cannot tell which byte changed, because lengths decide where the next header is.
std::optional<uint32_t> Scanner::flipped_in_headers(uint32_t offset) const {
  std::vector<uint32_t> places;
  const auto add = [&](uint32_t from, uint32_t n) {
    for (uint32_t i = from; i < std::min(from + n, bytes_.size()); ++i) places.push_back(i);
  };
  add(offset, sizeof(GroupHeader));
  uint32_t at = offset + sizeof(GroupHeader);
  for (uint32_t i = 0; i < kMaxEntriesToSearch && at + sizeof(EntryHeader) <= bytes_.size(); ++i) {
    add(at, sizeof(EntryHeader));
    at += sizeof(EntryHeader) + bytes_.load_at<EntryHeader>(at).length();
  }
  for (const uint32_t place : places) {
    const auto present = bytes_.load_at<uint8_t>(place);
    for (uint32_t change = 1; change < 256; ++change) {
      const Patch patch{place, static_cast<uint8_t>(present ^ change)};
      Unit unit;
      Problem ignored;
      if (check_framing(offset, patch, kMaxEntriesToSearch, unit) == nullptr &&
          check_contents(unit, patch, ignored)) {
        return place;
      }
    }
  }
  return std::nullopt;
}

/// The first group must be this segment's header, with a digest if it says so.
bool Scanner::accept_first(const GroupView& group, Problem& problem) {
  const auto first = group.first();
  if (!first || first->view.type() != EntryType::kSegmentHeader ||
      first->view.body_length() != sizeof(SegmentHeaderBody)) {
    problem.what = "a first group that is not a segment header";
    return false;
  }
  const auto header = first->view.load_at<SegmentHeaderBody>(0);
  if (header.format_version != kFormatVersion) {
    problem.what =
        "format version " + number(header.format_version) + "; known is " + number(kFormatVersion);
    return false;
  }
  if (header.segment_bytes != kSegmentBytes || header.master_id != identity_.master_id ||
      header.segment_id != identity_.segment_id) {
    problem.what = "a segment header of segment " + number(header.segment_id) + " of master " +
                   number(header.master_id);
    return false;
  }
  result_.is_head = (header.flags & 1) != 0;
  for (auto e = group.next(*first); e; e = group.next(*e)) {
    if (e->view.type() == EntryType::kSafeVersion &&
        e->view.body_length() == sizeof(SafeVersionBody)) {
      result_.safe_version = e->view.load_at<SafeVersionBody>(0).safe_version;
    } else if (e->view.type() == EntryType::kLogDigest) {
      std::string body(e->view.body_length(), '\0');
      e->view.read(0, body.data(), e->view.body_length());
      auto ids = decode_digest(body);
      if (!ids) {
        problem.what = "a malformed log digest";
        return false;
      }
      result_.digest = std::move(*ids);
    }
  }
  return true;
}

bool Scanner::accept_footer(const GroupView& group, const EntryView& footer,
                            Problem& problem) const {
  if (footer.body_length() != sizeof(FooterBody)) {
    problem.what = "a footer of the wrong size";
    return false;
  }
  const auto body = footer.load_at<FooterBody>(0);
  if (body.length != group.offset() || body.crc != footer_crc_) {
    problem.what = "a footer that does not fit the groups before it";
    return false;
  }
  if (known_.closed_length && *known_.closed_length != group.end()) {
    problem.what = "a footer at another place than where the segment was closed (" +
                   number(*known_.closed_length) + " bytes)";
    return false;
  }
  return true;
}

/// Whether bytes at or after `at` are known to have been written: then the valid part may not end
/// there.
bool Scanner::must_reach(uint32_t at, std::string& why) const {
  if (known_.closed_length) {
    why = "the segment was closed with " + number(*known_.closed_length) + " bytes";
    return true;
  }
  if (at < result_.durable_up_to) {
    why = number(result_.durable_up_to) + " bytes were durable";
    return true;
  }
  if (at < known_.bytes_held) {
    why = "the replica held " + number(known_.bytes_held) + " bytes";
    return true;
  }
  return false;
}

/// Looks at every place where a group could stand. A group with more entries than any writer puts
/// into one is skipped. Otherwise hostile bytes could make the scan read the same entries again and
/// again.
void Scanner::look_behind(uint32_t bytes) {
  const uint32_t until = bytes_.size() - looked_ > bytes ? looked_ + bytes : bytes_.size();
  while (looked_ < until && looked_ + sizeof(PaddingHeader) <= bytes_.size()) {
    const auto magic = bytes_.load_at<uint8_t>(looked_ + 3);
    ++result_.headers_read;
    Unit unit;
    const bool valid = (magic == kGroupMagic || magic == kPaddingMagic) &&
                       check_framing(looked_, {}, kMaxEntriesBehind, unit) == nullptr;
    result_.headers_read += unit.entries;
    if (valid && unit.is_group) {
      const GroupView group(bytes_, looked_, bytes_.load_at<GroupHeader>(looked_));
      ++result_.groups_after_hole;
      result_.durable_up_to =
          std::max(result_.durable_up_to, uint32_t{group.header().durable_up_to});
      if (group.first()->view.type() == EntryType::kFooter) result_.footer_after_hole = true;
    }
    looked_ += valid ? unit.length : kGroupAlignment;
  }
  if (looked_ + sizeof(PaddingHeader) > bytes_.size()) finish_bad();
}

void Scanner::finish_without_footer(uint32_t at) {
  result_.end = ScanEnd::kOpen;
  std::string why;
  if (!must_reach(at, why)) return;
  result_.end = ScanEnd::kCorrupt;
  result_.bad_offset = at;
  result_.what = "ends at " + number(at) + ", but " + why;
}

/// A hole. The valid groups behind it decide whether it is a torn tail. If the hole is above
/// everything that was known to be durable, nothing acknowledged is missing. If it is below,
/// another replica is needed.
void Scanner::begin_bad(uint32_t at, Problem problem) {
  result_.bad_offset = at;
  problem_ = std::move(problem);
  part_ = Part::kBehind;
  looked_ = at + kGroupAlignment;
  if (looked_ + sizeof(PaddingHeader) > bytes_.size()) finish_bad();
}

void Scanner::finish_bad() {
  part_ = Part::kOver;
  result_.flipped_byte = problem_.flipped_byte;
  result_.end = ScanEnd::kTorn;
  result_.what = std::move(problem_.what);
  std::string why;
  if (must_reach(result_.bad_offset, why)) {
    result_.end = ScanEnd::kCorrupt;
    result_.what += "; " + why;
  }
  if (written_like_that_) result_.end = ScanEnd::kCorrupt;
}

/// A frame is larger than the bytes written into it; the rest is zero.
void Scanner::look_for_zeros(uint32_t bytes) {
  const uint32_t n = std::min(bytes, bytes_.size() - looked_);
  const uint32_t found = bytes_.first_nonzero(looked_, n);
  looked_ += n;
  if (found < looked_) {
    if (locate_) problem_.flipped_byte = flipped_in_headers(at_);
    return begin_bad(at_, std::move(problem_));
  }
  if (looked_ < bytes_.size()) return;
  part_ = Part::kOver;
  finish_without_footer(at_);
}

void Scanner::read_unit() {
  Unit unit;
  problem_ = {};
  const char* wrong = check_framing(at_, {}, ~uint32_t{0}, unit);
  result_.headers_read += 1 + unit.entries;
  if (wrong != nullptr) {
    problem_.what = wrong;
    looked_ = at_;
    part_ = Part::kZeros;
    return;
  }
  if (!check_contents(unit, {}, problem_)) return begin_bad(at_, std::move(problem_));
  if (unit.is_group) {
    const GroupView group(bytes_, at_, bytes_.load_at<GroupHeader>(at_));
    const EntryView first = group.first()->view;
    const bool is_footer = first.type() == EntryType::kFooter;
    if ((at_ == 0 && !accept_first(group, problem_)) ||
        (is_footer && !accept_footer(group, first, problem_))) {
      written_like_that_ = true;
      return begin_bad(at_, std::move(problem_));
    }
    accept(unit);
    if (on_group_) on_group_(group);
    if (is_footer) {
      result_.end = ScanEnd::kClosed;
      part_ = Part::kOver;
      return;
    }
  }
  footer_crc_ = crc32c(bytes_of(unit.crc), footer_crc_);
  at_ += unit.length;
  result_.valid_bytes = at_;
}

void Scanner::accept(const Unit& unit) {
  const GroupView group(bytes_, unit.offset, bytes_.load_at<GroupHeader>(unit.offset));
  ++result_.groups;
  result_.entries += unit.entries;
  result_.valid_bytes = group.end();
  if (unit.offset == 0) result_.header_bytes = group.end();
  const GroupHeader header = group.header();
  result_.durable_up_to = std::max(result_.durable_up_to, uint32_t{header.durable_up_to});
  result_.replication_epoch =
      std::max(result_.replication_epoch, uint32_t{header.replication_epoch});
  for (auto e = group.first(); e; e = group.next(*e)) {
    const bool versioned =
        (e->view.type() == EntryType::kObject && e->view.body_length() >= sizeof(ObjectBody)) ||
        (e->view.type() == EntryType::kTombstone && e->view.body_length() >= sizeof(TombstoneBody));
    if (!versioned) continue;
    // Both begin with the same fields, the table's id and the version.
    static_assert(offsetof(ObjectBody, version) == offsetof(TombstoneBody, version));
    result_.highest_version =
        std::max(result_.highest_version, e->view.load_at<uint64_t>(offsetof(ObjectBody, version)));
  }
}

bool Scanner::step(uint32_t bytes) {
  const uint32_t from = at_;
  while (part_ == Part::kGroups && at_ - from < bytes) {
    if (at_ < bytes_.size()) {
      read_unit();
    } else {
      part_ = Part::kOver;
      finish_without_footer(at_);
    }
  }
  if (part_ == Part::kZeros) {
    look_for_zeros(bytes);
  } else if (part_ == Part::kBehind) {
    look_behind(bytes);
  }
  return part_ != Part::kOver;
}

bool Scanner::step_groups(uint32_t bytes) {
  const uint32_t from = at_;
  while (at_ < bytes_.size() && at_ - from < bytes) {
    Unit unit;
    Problem problem;
    const char* wrong = check_framing(at_, {}, ~uint32_t{0}, unit);
    const uint32_t room = bytes_.size() - at_;
    const bool magic =
        room >= sizeof(uint32_t) && (bytes_.load_at<uint8_t>(at_ + 3) == kGroupMagic ||
                                     bytes_.load_at<uint8_t>(at_ + 3) == kPaddingMagic);
    const bool cut_off = room < sizeof(PaddingHeader) || (magic && unit.length > room);
    if (wrong == nullptr && !check_contents(unit, {}, problem)) wrong = problem.what.c_str();
    if (wrong != nullptr) {
      groups_.whole_bytes = at_;
      groups_.bad = !cut_off;
      groups_.what = wrong;
      return false;
    }
    if (unit.is_group && on_group_) {
      on_group_(GroupView(bytes_, at_, bytes_.load_at<GroupHeader>(at_)));
    }
    at_ += unit.length;
    groups_.whole_bytes = at_;
  }
  return at_ < bytes_.size();
}

SegmentScanner::SegmentScanner(const SegmentIdentity& identity, const SegmentBytes& bytes,
                               const KnownOfSegment& known)
    : scanner_(std::make_unique<Scanner>(identity, bytes, known, nullptr, Locate::kNo)) {}
SegmentScanner::~SegmentScanner() = default;
bool SegmentScanner::step(uint32_t bytes) {
  return scanner_->step(bytes);
}
SegmentScan SegmentScanner::take() {
  return std::move(scanner_->result());
}

GroupsChecker::GroupsChecker(const SegmentIdentity& identity, const SegmentBytes& bytes,
                             uint32_t offset, std::function<void(const GroupView&)> on_group)
    : scanner_(std::make_unique<Scanner>(identity, bytes, KnownOfSegment{}, std::move(on_group),
                                         Locate::kNo, offset)) {}
GroupsChecker::~GroupsChecker() = default;
bool GroupsChecker::step(uint32_t bytes) {
  return scanner_->step_groups(bytes);
}
GroupsCheck GroupsChecker::take() {
  return std::move(scanner_->groups());
}

std::optional<SegmentIdentity> identify_segment(const SegmentBytes& bytes) {
  constexpr uint32_t kBody = sizeof(GroupHeader) + sizeof(EntryHeader);
  if (bytes.size() < kBody + sizeof(SegmentHeaderBody)) return std::nullopt;
  const auto group = bytes.load_at<GroupHeader>(0);
  const auto entry = bytes.load_at<EntryHeader>(sizeof(GroupHeader));
  if (group.magic() != kGroupMagic || entry.type() != EntryType::kSegmentHeader ||
      entry.length() != sizeof(SegmentHeaderBody)) {
    return std::nullopt;
  }
  const auto body = bytes.load_at<SegmentHeaderBody>(kBody);
  SegmentIdentity identity{.master_id = body.master_id, .segment_id = body.segment_id};
  std::copy(std::begin(body.cluster_uuid), std::end(body.cluster_uuid),
            identity.cluster_uuid.begin());
  return identity;
}

SegmentScan scan_segment(const SegmentIdentity& identity, const SegmentBytes& bytes,
                         const KnownOfSegment& known,
                         const std::function<void(const GroupView&)>& on_group, Locate locate) {
  Scanner scanner(identity, bytes, known, on_group, locate);
  while (scanner.step(~uint32_t{0})) {
  }
  return std::move(scanner.result());
}

}  // namespace ramcloud::log
