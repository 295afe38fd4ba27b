#include "log/group_reader.h"

#include <algorithm>

#include "base/checksum.h"
#include "log/digest.h"

namespace ramcloud::log {
namespace {

/// A byte that is taken to have another value: for finding out which one was changed.
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

/// More entry headers than that are not tried when looking for a changed byte.
constexpr uint32_t kMaxEntriesToSearch = 16;

std::string number(uint64_t n) {
  return std::to_string(n);
}

class Scanner {
 public:
  Scanner(const SegmentIdentity& identity, const SegmentBytes& bytes, const KnownOfSegment& known,
          const std::function<void(const GroupView&)>& on_group, Locate locate)
      : identity_(identity),
        bytes_(bytes),
        known_(known),
        on_group_(on_group),
        locate_(locate == Locate::kFlippedByte),
        seed_(identity.checksum_seed()) {
    result_.durable_up_to = known.durable_up_to;
  }

  SegmentScan run();

 private:
  template <typename T>
  T load_at(uint32_t offset, const Patch& patch) const {
    T value = bytes_.load_at<T>(offset);
    if (patch.offset - offset < sizeof(T)) {
      std::memcpy(reinterpret_cast<char*>(&value) + (patch.offset - offset), &patch.value, 1);
    }
    return value;
  }
  /// Verifies headers and their checksum, not what they are about. Null, or what is wrong.
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
  void read_groups_behind(uint32_t offset);
  void finish_without_footer(uint32_t at);
  void finish_bad(uint32_t at, Problem problem);
  bool must_reach(uint32_t at, std::string& why) const;

  const SegmentIdentity& identity_;
  const SegmentBytes& bytes_;
  const KnownOfSegment& known_;
  const std::function<void(const GroupView&)>& on_group_;
  const bool locate_;
  const uint32_t seed_;
  uint32_t footer_crc_ = 0;
  SegmentScan result_;
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
  uint32_t crc = crc32c(bytes_of(offset), seed_);
  crc = crc32c(bytes_of(header).substr(0, offsetof(PaddingHeader, crc)), crc);
  unit.crc = crc;
  return crc == header.crc ? nullptr : "padding with a wrong checksum";
}

const char* Scanner::check_group_framing(const Patch& patch, uint32_t max_entries,
                                         Unit& unit) const {
  const auto header = load_at<GroupHeader>(unit.offset, patch);
  uint32_t crc = crc32c(bytes_of(unit.offset), seed_);
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

/// Tries every other value of every header byte from this unit's start on: lengths decide where the
/// next header is, so the checksum alone cannot be walked back.
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

/// Whether the valid part must go further than `at`.
bool Scanner::must_reach(uint32_t at, std::string& why) const {
  if (known_.closed_length) {
    why = "the segment was closed with " + number(*known_.closed_length) + " bytes";
    return true;
  }
  if (at < result_.durable_up_to) {
    why = number(result_.durable_up_to) + " bytes were durable";
    return true;
  }
  if (at < known_.held) {
    why = "the replica held " + number(known_.held) + " bytes";
    return true;
  }
  return false;
}

/// Looks at every place where a group could stand. A group of more entries than anybody writes is
/// passed over: else bytes could be made that are walked through again and again.
void Scanner::read_groups_behind(uint32_t offset) {
  for (uint32_t at = offset + kGroupAlignment; at + sizeof(PaddingHeader) <= bytes_.size();) {
    const auto magic = bytes_.load_at<uint8_t>(at + 3);
    ++result_.headers_read;
    Unit unit;
    const bool valid = (magic == kGroupMagic || magic == kPaddingMagic) &&
                       check_framing(at, {}, kMaxEntriesBehind, unit) == nullptr;
    result_.headers_read += unit.entries;
    if (valid && unit.is_group) {
      const GroupView group(bytes_, at, bytes_.load_at<GroupHeader>(at));
      ++result_.groups_behind;
      result_.durable_up_to =
          std::max(result_.durable_up_to, uint32_t{group.header().durable_up_to});
      if (group.first()->view.type() == EntryType::kFooter) result_.footer_behind = true;
    }
    at += valid ? unit.length : kGroupAlignment;
  }
}

void Scanner::finish_without_footer(uint32_t at) {
  result_.end = ScanEnd::kOpen;
  std::string why;
  if (!must_reach(at, why)) return;
  result_.end = ScanEnd::kCorrupt;
  result_.bad_offset = at;
  result_.what = "ends at " + number(at) + ", but " + why;
}

/// A hole: what is valid behind it decides whether it is a torn tail. Above all that is known to
/// have been durable, nothing that was acknowledged is missing; below, another replica is needed.
void Scanner::finish_bad(uint32_t at, Problem problem) {
  result_.bad_offset = at;
  result_.flipped_byte = problem.flipped_byte;
  result_.end = ScanEnd::kTorn;
  result_.what = std::move(problem.what);
  read_groups_behind(at);
  std::string why;
  if (must_reach(at, why)) {
    result_.end = ScanEnd::kCorrupt;
    result_.what += "; " + why;
  }
}

SegmentScan Scanner::run() {
  uint32_t at = 0;
  while (at < bytes_.size()) {
    Unit unit;
    Problem problem;
    const char* wrong = check_framing(at, {}, ~uint32_t{0}, unit);
    result_.headers_read += 1 + unit.entries;
    if (wrong != nullptr) {
      // Frames are larger than what was written into them; what was never written is zero.
      if (bytes_.first_nonzero(at, bytes_.size() - at) == bytes_.size()) break;
      problem.what = wrong;
      if (locate_) problem.flipped_byte = flipped_in_headers(at);
      finish_bad(at, std::move(problem));
      return std::move(result_);
    }
    if (!check_contents(unit, {}, problem)) {
      finish_bad(at, std::move(problem));
      return std::move(result_);
    }
    if (unit.is_group) {
      const GroupView group(bytes_, at, bytes_.load_at<GroupHeader>(at));
      const EntryView first = group.first()->view;
      const bool is_footer = first.type() == EntryType::kFooter;
      if ((at == 0 && !accept_first(group, problem)) ||
          (is_footer && !accept_footer(group, first, problem))) {
        finish_bad(at, std::move(problem));
        result_.end = ScanEnd::kCorrupt;  // the checksums hold: it was written like this
        return std::move(result_);
      }
      ++result_.groups;
      result_.entries += unit.entries;
      result_.valid_bytes = group.end();
      const GroupHeader header = group.header();
      result_.durable_up_to = std::max(result_.durable_up_to, uint32_t{header.durable_up_to});
      result_.replication_epoch =
          std::max(result_.replication_epoch, uint32_t{header.replication_epoch});
      if (on_group_) on_group_(group);
      if (is_footer) {
        result_.end = ScanEnd::kClosed;
        return std::move(result_);
      }
    }
    footer_crc_ = crc32c(bytes_of(unit.crc), footer_crc_);
    at += unit.length;
    result_.valid_bytes = at;
  }
  finish_without_footer(at);
  return std::move(result_);
}

}  // namespace

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
  return Scanner(identity, bytes, known, on_group, locate).run();
}

}  // namespace ramcloud::log
