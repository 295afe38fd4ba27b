#include "store/segment_judge.h"

#include <algorithm>
#include <utility>

#include "log/group_reader.h"
#include "store/cleaning_pass.h"

namespace ramcloud::store {

using log::EntryType;
using log::EntryView;
using log::Segment;

namespace {

/// With more segments than this, the list of segments is rebuilt only once in kCallsBetween calls,
/// because that takes time in proportion to their number.
constexpr size_t kFew = 4096;
constexpr uint32_t kCallsBetween = 256;

}  // namespace

SegmentJudge::SegmentJudge(ObjectStore& store)
    : store_(store), known_(store.log().most_segments_ever()) {}

std::optional<log::CleaningFigures> SegmentJudge::judge(const Segment& segment, log::Look look) {
  const MutexGuard guard(mutex_);
  if (!may_clean(store_, segment)) {
    auto& known = known_[segment.number()];
    if (known != nullptr && !known->is_of(segment)) known.reset();
    return std::nullopt;
  }
  if (look == log::Look::kExact && is_old_estimate(known_of(segment))) {
    known_[segment.number()].reset();
    if (store_.log().segments_gone() != segments_gone_) list_findable();
  }
  Known& known = known_of(segment);
  if (!known.read) read_more(segment, known);
  if (!known.read) store_.log().want_look(segment.number());
  log::CleaningFigures figures;
  figures.memory_bytes = segment.memory_bytes();
  figures.live_bytes = segment.live_bytes();
  if (known.read) figures.tombstone_bytes = known.tombstone_bytes;
  if (known.read && !may_be_recovered(known)) {
    if (!known.named.empty()) refresh_findable();
    const auto dead = static_cast<uint32_t>(
        std::min<uint64_t>(figures.live_bytes, known.of_no_segment + dead_tombstones(known)));
    figures.live_bytes -= dead;
    figures.tombstone_bytes -= std::min(figures.tombstone_bytes, dead);
  }
  figures.live_bytes = as_survivors(segment, known, figures.live_bytes);
  figures.segment_id = segment.id();
  figures.youngest_s = known.youngest_s;
  if (known.entry_bytes > 0) {
    figures.average_s =
        static_cast<uint32_t>(known.seconds / static_cast<double>(known.entry_bytes));
  }
  return figures;
}

/// Memory that the live bytes will take in survivors. A head may have many small groups: copying frees
/// most of their headers and padding. A survivor or a compacted segment has the same share of headers
/// and padding before and after.
uint32_t SegmentJudge::as_survivors(const Segment& segment, const Known& known,
                                    uint32_t live_bytes) {
  const bool is_copy = segment.side() || segment.compactions() > 0;
  if (is_copy && segment.entry_bytes() > 0) {
    return static_cast<uint32_t>(uint64_t{live_bytes} * segment.published() /
                                 segment.entry_bytes());
  }
  if (!known.read || known.entry_bytes == 0) return live_bytes;
  return static_cast<uint32_t>(uint64_t{live_bytes} * known.as_survivor.bytes() /
                               known.entry_bytes);
}

/// The facts about this segment. Discards those about an earlier segment with the same number, or
/// about the same segment before it was compacted.
SegmentJudge::Known& SegmentJudge::known_of(const Segment& segment) {
  auto& known = known_[segment.number()];
  if (known == nullptr || !known->is_of(segment)) {
    known = std::make_unique<Known>();
    known->id = segment.id();
    known->compactions = segment.compactions();
  }
  return *known;
}

// ---- what is in it

void SegmentJudge::read_more(const Segment& segment, Known& known) {
  const log::SegmentBytes bytes = segment.bytes();
  for (uint32_t entries = 0; entries < kEntriesAtOnce && known.at < bytes.size(); ++entries) {
    const auto header = bytes.load_at<log::GroupHeader>(known.at);
    if (header.magic() == log::kGroupMagic) {
      const log::GroupView group(bytes, known.at, header);
      for (auto e = group.first(); e; e = group.next(*e), ++entries) read_entry(e->view, known);
    }
    known.at += header.length();  // a padding's stands in the same place
  }
  if (known.at == bytes.size()) finish(known);
}

void SegmentJudge::read_entry(const EntryView& entry, Known& known) {
  if (entry.type() == EntryType::kObject) {
    note_age(entry, entry.load_at<log::ObjectBody>(0).timestamp_s, known);
  } else if (entry.type() == EntryType::kTombstone) {
    const auto tombstone = entry.load_at<log::TombstoneBody>(0);
    note_age(entry, tombstone.timestamp_s, known);
    known.tombstone_bytes += entry.total_length();
    ++known.tombstones;
    known.places.add(tombstone.table_id,
                     log::hash_of_key(tombstone.table_id, entry, log::TombstoneView::key_offset,
                                      tombstone.key_length));
    const bool own = tombstone.log_id == store_.log().options().master_id;
    (own ? known.names[tombstone.segment_id] : known.of_no_segment) += entry.total_length();
  }
}

/// Tombstones are included: a segment with only tombstones would otherwise count as the oldest of
/// all.
void SegmentJudge::note_age(const EntryView& entry, uint32_t seconds, Known& known) {
  known.entry_bytes += entry.total_length();
  known.as_survivor.add(entry.total_length());
  known.seconds += static_cast<double>(seconds) * entry.total_length();
  known.youngest_s = std::max(known.youngest_s, seconds);
}

/// Keeps at most kMostNamed entries: if tombstones name more segments, neighbouring ids share one.
void SegmentJudge::finish(Known& known) {
  known.read = true;
  std::vector<std::pair<uint64_t, uint32_t>> names(known.names.begin(), known.names.end());
  known.names = {};
  std::ranges::sort(names);
  if (names.size() > kMostNamed) drop_gone(names, known);
  known.estimated = names.size() > kMostNamed;
  const size_t together = (names.size() + kMostNamed - 1) / kMostNamed;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& [id, bytes] = names[i];
    if (i % together == 0) known.named.push_back({.first = id});
    known.named.back().last = id;
    known.named.back().bytes += bytes;
  }
  if (!known.estimated) return;
  for (Named& named : known.named) {
    named.findable = std::max(1u, findable_between(named.first, named.last));
  }
}

/// What names segments that left the log stays dead: their ids are never used again.
void SegmentJudge::drop_gone(std::vector<std::pair<uint64_t, uint32_t>>& names, Known& known) {
  refresh_findable();
  known.segments_gone = segments_gone_;
  std::erase_if(names, [&](const auto& name) RC_NO_THREAD_SAFETY_ANALYSIS {
    const auto& [id, bytes] = name;
    if (findable_between(id, id) > 0 || dead_copies_between(id, id) > 0) return false;
    known.of_no_segment += bytes;
    return true;
  });
}

/// Segments have left the log since it was read, and which of its tombstones name them is not known.
bool SegmentJudge::is_old_estimate(const Known& known) const {
  return known.estimated && known.segments_gone != store_.log().segments_gone();
}

// ---- what of it is dead

void SegmentJudge::refresh_findable() {
  ++calls_;
  if (store_.log().segments_gone() == segments_gone_) return;
  if (findable_.size() <= kFew || calls_ >= kCallsBetween) list_findable();
}

/// First those in the log: one that leaves in between is noted before it leaves.
void SegmentJudge::list_findable() {
  segments_gone_ = store_.log().segments_gone();
  calls_ = 0;
  findable_ = store_.log().ids_that_may_be_found();
  dead_copies_ = store_.cleaned().with_dead_copies();
  std::ranges::sort(findable_);
  first_unseen_ = findable_.empty() ? 0 : findable_.back() + 1;
}

/// The number of segments in this range of ids that a replay may still find: tombstones that name
/// them are needed. Those that the list does not cover yet are all counted.
uint32_t SegmentJudge::findable_between(uint64_t first, uint64_t last) const {
  uint64_t count = 0;
  if (last >= first_unseen_) count = last - std::max(first, first_unseen_) + 1;
  const auto begin = std::ranges::lower_bound(findable_, first);
  const auto end = std::ranges::upper_bound(findable_, last);
  if (begin < end) count += static_cast<uint64_t>(end - begin);
  return static_cast<uint32_t>(std::min<uint64_t>(count, ~uint32_t{0}));
}

/// Copies in survivors of dead objects of the segments in this range of ids.
size_t SegmentJudge::dead_copies_between(uint64_t first, uint64_t last) const {
  const auto id_of = &std::pair<uint64_t, size_t>::first;
  size_t copies = 0;
  for (auto at = std::ranges::lower_bound(dead_copies_, first, {}, id_of);
       at != dead_copies_.end() && at->first <= last; ++at) {
    constexpr size_t kAll = CleanedSegments::kUncounted;
    copies = at->second > kAll - copies ? kAll : copies + at->second;
  }
  return copies;
}

/// Bytes of tombstones whose named segment no replay finds any more, less those that may be needed
/// against dead copies. Exact for an entry of one segment without dead copies. For a range of
/// segments, an estimate: as large a share as of all segments of the range.
uint32_t SegmentJudge::dead_tombstones(const Known& known) const {
  uint64_t dead = 0;
  for (const Named& named : known.named) {
    const uint64_t findable = std::min(findable_between(named.first, named.last), named.findable);
    const uint64_t gone = uint64_t{named.bytes} * (named.findable - findable) / named.findable;
    const size_t copies =
        std::min<size_t>(dead_copies_between(named.first, named.last), known.tombstones);
    dead += gone - std::min(gone, copies * known.tombstone_bytes / known.tombstones);
  }
  return static_cast<uint32_t>(dead);
}

/// While a tablet is being recovered, none of its tombstones count as dead: an older object may
/// still be replayed.
bool SegmentJudge::may_be_recovered(const Known& known) const {
  if (!store_.tablets_.any_in(TabletState::kRecovering)) return false;
  return std::ranges::any_of(store_.tablets_.all(), [&](const Tablet* tablet) {
    return tablet->state.load(std::memory_order_acquire) == TabletState::kRecovering &&
           known.places.may_be_in(*tablet);
  });
}

}  // namespace ramcloud::store
