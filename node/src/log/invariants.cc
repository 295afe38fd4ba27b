#include "log/invariants.h"

#include <fmt/core.h>

#include <algorithm>

#include "log/group_reader.h"

namespace ramcloud::log {

std::vector<std::string> Invariants::check() {
  broken_.clear();
  const std::vector<Segment*> segments = log_.segments();
  std::vector<uint64_t> ids;
  for (const Segment* segment : segments) {
    require(ids.empty() || ids.back() < segment->id(), *segment, "ids rise");
    ids.push_back(segment->id());
    check_segment(*segment);
  }
  for (const Segment* segment : log_.others()) check_segment(*segment);
  check_digests(ids);
  check_order(segments);
  check_memory(segments);
  return std::move(broken_);
}

bool Invariants::may_be_referred_to(const Segment& segment) const {
  const SpinGuard guard(log_.lock_);
  const auto has = [&](const std::vector<Segment*>& list) {
    return std::ranges::find(list, &segment) != list.end();
  };
  // While a segment is compacted, slots are switched to its copy, which then takes its place.
  const bool is_copy = std::ranges::binary_search(log_.segments_, segment.id(), {}, &Segment::id);
  return has(log_.segments_) ||
         (has(log_.others_) && (segment.side() || is_copy) && !has(log_.retired_));
}

void Invariants::require(bool holds, const Segment& segment, const std::string& what) {
  if (!holds) broken_.push_back("segment " + std::to_string(segment.id()) + ": " + what);
}

void Invariants::check_segment(const Segment& segment) {
  require(segment.published() <= kSegmentBytes, segment, "published fits the segment");
  require(segment.header_length() > 0 && segment.published() >= segment.header_length(), segment,
          "the header group is published");
  require(segment.live_bytes() <= segment.entry_bytes(), segment, "live <= entry bytes");
  if (verified_.contains({segment.id(), segment.compactions()})) return;
  uint32_t entry_bytes = 0;
  const auto count = [&](const GroupView& group) {
    for (auto e = group.first(); e; e = group.next(*e)) {
      const EntryType type = e->view.type();
      if (group.offset() > 0 && type != EntryType::kFooter) entry_bytes += e->view.total_length();
    }
  };
  const SegmentScan scan = scan_segment(segment.identity(), segment.bytes(), {}, count);
  require(scan.end == (segment.closed() ? ScanEnd::kClosed : ScanEnd::kOpen), segment,
          "its bytes are valid: " + scan.what + " at " + std::to_string(scan.bad_offset));
  require(scan.valid_bytes == segment.published(), segment, "valid up to what is published");
  require(scan.is_head == !segment.side() && scan.digest.empty() == segment.side(), segment,
          "a head has a digest, a side segment has none");
  require(entry_bytes == segment.entry_bytes(), segment,
          "accounts for " + std::to_string(segment.entry_bytes()) + " entry bytes, holds " +
              std::to_string(entry_bytes));
  if (segment.closed()) verified_.insert({segment.id(), segment.compactions()});
}

/// The newest digest decides. The digest of the head before it decides until the newest head is
/// open.
void Invariants::check_digests(const std::vector<uint64_t>& ids) {
  if (ids.empty()) return;
  const Segment& newest = *log_.find_segment(ids.back());
  require(!newest.side(), newest, "the newest segment is a head");
  const SegmentScan scan = scan_segment(newest.identity(), newest.bytes());
  require(scan.digest == ids, newest, "the newest digest names the segments of the log");
}

void Invariants::check_order(const std::vector<Segment*>& segments) {
  const LogPosition durable = log_.durable();
  bool all_closed_durable = true;  // of all segments before this one
  for (const Segment* segment : segments) {
    if (segment->side()) {
      require(segment->closed_durable(), *segment, "a side segment enters when it is durable");
      continue;
    }
    const bool has_data = segment->published() > segment->header_length();
    require(!has_data || all_closed_durable, *segment, "has data before the older are closed");
    require(!segment->closed_durable() || segment->closed(), *segment,
            "durably closed when closed");
    if (durable.segment_id() == segment->id()) {
      require(all_closed_durable, *segment, "durable before the older are closed");
      require(durable.offset() <= segment->published(), *segment, "durable <= published");
    }
    all_closed_durable = all_closed_durable && segment->closed_durable();
  }
  if (durable > log_.head()) broken_.push_back("durable is beyond the head");
}

void Invariants::check_memory(const std::vector<Segment*>& segments) {
  uint64_t bytes = 0;
  for (const Segment* segment : segments) bytes += segment->memory_bytes();
  for (const Segment* segment : log_.others()) bytes += segment->memory_bytes();
  const Arena::Sizes sizes = log_.arena().sizes();
  const auto require_at_most = [this](uint32_t less, uint32_t more, const char* what) {
    if (less > more) {
      broken_.push_back(fmt::format("{}: {} seglets, and {}", what, less, more));
    }
  };
  if (bytes != uint64_t{sizes.used} * kSegletBytes) {
    broken_.push_back(
        fmt::format("segments take {} bytes, and the arena gave {} seglets", bytes, sizes.used));
  }
  require_at_most(sizes.used, sizes.limit, "segments take more than the limit");
  require_at_most(sizes.limit, sizes.held, "the limit counts what has no memory");
}

}  // namespace ramcloud::log
