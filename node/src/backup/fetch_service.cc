#include "backup/fetch_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <string>
#include <utility>

#include "base/failpoint.h"
#include "base/sometimes.h"

namespace ramcloud {
namespace {

Status bad(std::string message) {
  return {StatusCode::kInvalidArgument, "recovery fetch: " + std::move(message)};
}

/// Builds a page, a few entries in each step.
class PageBuilder {
 public:
  enum class FirstGroup : uint8_t { kAlways, kIfItFits };
  /// Adds groups to `page`, which outlives this, up to `max_bytes`; the first one even if it has
  /// more, or not.
  PageBuilder(const IndexedSegment& segment, const HashRanges& ranges, uint32_t offset,
              uint32_t max_bytes, FirstGroup first, std::string& page)
      : segment_(segment),
        bytes_(segment.bytes.segment()),
        ranges_(ranges),
        max_bytes_(max_bytes),
        first_(first),
        next_offset_(offset),
        page_(page),
        begin_(page.size()) {
    if (look_by_hash()) return;
    const auto behind =
        std::ranges::upper_bound(segment.pieces, offset, {}, &IndexedSegment::Piece::begin);
    piece_ = static_cast<size_t>(std::prev(behind) - segment.pieces.begin());
    const auto& entries = segment.pieces[piece_].entries;
    entry_ = static_cast<size_t>(
        std::ranges::lower_bound(entries, offset, {}, &IndexedEntry::offset) - entries.begin());
    if (first == FirstGroup::kAlways) {
      page_.reserve(begin_ + std::min(max_bytes, segment.whole_bytes() - offset));
    }
  }
  /// Looks at entries and copies them, for about the time that copying `work` bytes takes. False:
  /// the page is complete.
  bool step(uint32_t work);
  /// When the page is complete:
  uint32_t next_offset() const { return next_offset_; }
  uint32_t entries() const { return count_; }
  /// Few entries are looked at.
  bool is_small() const { return by_hash_ || segment_.by_hash.size() <= kMostByHash; }
  /// What it took so far, in bytes that could have been copied.
  uint32_t work() const { return looks_ * kLook + static_cast<uint32_t>(added()); }
  /// The entries of the first group alone exceed an answer.
  bool too_large() const { return too_large_; }

 private:
  /// The cost of looking at an entry without copying it, in bytes.
  static constexpr uint32_t kLook = 32;
  /// The most entries that are looked at by hash: they are sorted, in one turn.
  static constexpr size_t kMostByHash = 1024;
  bool matches(const IndexedEntry& entry) const {
    return ranges_.contains(entry.table_id, entry.hash);
  }
  uint32_t length(const IndexedEntry& entry) const {
    return sizeof(log::EntryHeader) + bytes_.load_at<log::EntryHeader>(entry.offset).length();
  }
  size_t added() const { return page_.size() - begin_; }
  bool look_by_hash();
  bool add_group(const std::vector<IndexedEntry>& entries, size_t end);

  const IndexedSegment& segment_;
  const log::SegmentBytes bytes_;
  const HashRanges& ranges_;
  const uint32_t max_bytes_;
  const FirstGroup first_;
  uint32_t next_offset_;
  bool by_hash_ = false;
  std::vector<IndexedEntry> found_;  // if by_hash_: the entries from next_offset_ on that match
  size_t piece_ = 0;                 // otherwise
  size_t entry_ = 0;                 // index in found_, or in the piece
  uint32_t looks_ = 0;               // at entries, by hash
  uint32_t count_ = 0;
  bool too_large_ = false;
  std::string& page_;
  const size_t begin_;  // in the page
};

/// Finds the entries of small ranges. False: they are not small, so every entry is looked at, slice
/// by slice.
bool PageBuilder::look_by_hash() {
  const std::bitset<IndexedSegment::kFirstBytes> bytes = ranges_.first_bytes();
  size_t looks = 0;
  for (size_t byte = 0; byte < bytes.size(); ++byte) {
    if (bytes[byte]) looks += segment_.begin_of[byte + 1] - segment_.begin_of[byte];
  }
  if (looks > kMostByHash || looks > segment_.by_hash.size() / 4) return false;
  RC_SOMETIMES("backup.recovery_fetch_looks_by_hash");
  by_hash_ = true;
  looks_ = static_cast<uint32_t>(looks);
  for (size_t byte = 0; byte < bytes.size(); ++byte) {
    if (!bytes[byte]) continue;
    for (uint32_t i = segment_.begin_of[byte]; i < segment_.begin_of[byte + 1]; ++i) {
      const auto [piece, entry] = segment_.by_hash[i];
      const IndexedEntry& one = segment_.pieces[piece].entries[entry];
      if (one.offset >= next_offset_ && matches(one)) found_.push_back(one);
    }
  }
  std::ranges::sort(found_, {}, &IndexedEntry::offset);
  return true;
}

/// Adds the entries from entry_ to `end`, which form a group. False if they do not fit.
bool PageBuilder::add_group(const std::vector<IndexedEntry>& entries, size_t end) {
  uint64_t total = 0;
  for (size_t i = entry_; i < end; ++i) {
    if (matches(entries[i])) total += length(entries[i]);
  }
  if (added() + total > max_bytes_ && total > 0) {
    too_large_ = added() == 0 && total > FetchService::kMaxPageBytes;
    if (too_large_) next_offset_ = entries[entry_].offset;
    if (added() > 0 || too_large_ || first_ == FirstGroup::kIfItFits) return false;
  }
  for (; total > 0 && entry_ < end; ++entry_) {
    if (!matches(entries[entry_])) continue;
    page_ += segment_.bytes.view().substr(entries[entry_].offset, length(entries[entry_]));
    ++count_;
  }
  next_offset_ = entries[end - 1].group_end;
  entry_ = end;
  return true;
}

bool PageBuilder::step(uint32_t work) {
  const size_t page_before = page_.size();
  uint32_t looked = 0;
  while (looked + (page_.size() - page_before) < work) {
    const auto& entries = by_hash_ ? found_ : segment_.pieces[piece_].entries;
    if (entry_ == entries.size()) {
      looked += kLook;
      next_offset_ = by_hash_ ? segment_.whole_bytes() : segment_.pieces[piece_].end;
      if (by_hash_ || ++piece_ == segment_.pieces.size()) return false;
      entry_ = 0;
      continue;
    }
    size_t end = entry_ + 1;
    while (end < entries.size() && entries[end].group_end == entries[entry_].group_end) ++end;
    looked += static_cast<uint32_t>(end - entry_) * kLook;
    if (!add_group(entries, end)) return false;
  }
  return true;
}

}  // namespace

FetchService::FetchService(Reactor& reactor, ServiceRegistry& registry, FrameStore& frames,
                           RecoveryService::Replicas& replicas, uint64_t room)
    : reactor_(reactor),
      transport_(registry.transport()),
      frames_(frames),
      replicas_(replicas),
      segments_(reactor, frames, room),
      page_(reactor),
      scope_(reactor) {
  registry.add(wire::Opcode::kRecoveryFetch, &call_member<&FetchService::on_fetch, FetchService>,
               this);
}

void FetchService::on_fetch(const Request& request) {
  wire::RecoveryFetchRequest asked;
  if (!request.decode(asked)) {
    return reply_error(transport_, request.reply, bad("the request does not decode"));
  }
  Result<Fetch> fetch = check(std::move(asked));
  if (fetch && fetches_ >= kMaxFetches) {
    RC_SOMETIMES("backup.recovery_fetches_are_put_off");
    fetch = fail(StatusCode::kRetry, "recovery fetch: too many fetches are in progress");
  }
  if (!fetch) return reply_error(transport_, request.reply, fetch.error(), kRetryAfterUs);
  fetch->reply = request.reply;
  ++fetches_;
  scope_.spawn(answer(std::move(*fetch)));
}

/// Only of a frozen master: replicas of others may still change.
Status FetchService::check_replica(const IndexedSegments::Key& key) const {
  if (!replicas_.frozen(key.master_id)) {
    return {StatusCode::kNotFound,
            fmt::format("recovery fetch: no recovery has asked for the replicas of master {} yet",
                        key.master_id)};
  }
  const auto replica = replicas_.replica_in(key.frame, key.master_id, key.segment_id);
  if (!replica) {
    return {StatusCode::kNotFound,
            fmt::format("recovery fetch: frame {} has no replica of segment {} of master {}",
                        key.frame, key.segment_id, key.master_id)};
  }
  const uint32_t capacity = replica->content.capacity;
  if (key.end <= capacity) return {};
  return bad(fmt::format("end is {}; the replica has room for {}", key.end, capacity));
}

/// The further segments up to the first of which there is no such replica.
std::vector<IndexedSegments::Key> FetchService::further_of(
    const wire::RecoveryFetchRequest& asked) const {
  std::vector<IndexedSegments::Key> keys;
  for (const wire::FurtherSegment& segment : asked.further) {
    const IndexedSegments::Key key{.master_id = asked.master_id,
                                   .segment_id = segment.segment_id,
                                   .frame = segment.frame,
                                   .end = segment.end};
    if (keys.size() == wire::RecoveryFetchRequest::kMostFurther || !check_replica(key).ok()) break;
    keys.push_back(key);
  }
  return keys;
}

Result<FetchService::Fetch> FetchService::check(wire::RecoveryFetchRequest asked) const {
  const IndexedSegments::Key key{.master_id = asked.master_id,
                                 .segment_id = asked.segment_id,
                                 .frame = asked.frame,
                                 .end = asked.end};
  if (Status status = check_replica(key); !status.ok()) return fail(std::move(status));
  if (asked.offset >= asked.end || asked.offset % log::kGroupAlignment != 0) {
    return fail(bad(fmt::format("offset is {}; multiples of {} below the end, {}, are accepted",
                                asked.offset, log::kGroupAlignment, asked.end)));
  }
  if (asked.max_bytes == 0) return fail(bad("max_bytes is 0; at least 1 is accepted"));
  if (asked.ranges.size() > kMaxRanges) {
    return fail(
        bad(fmt::format("{} ranges; at most {} are accepted", asked.ranges.size(), kMaxRanges)));
  }
  std::vector<IndexedSegments::Key> further = further_of(asked);
  auto ranges = HashRanges::make(std::move(asked.ranges));
  if (!ranges) return fail(bad(ranges.error().message()));
  return Fetch{.reply = {},
               .key = key,
               .offset = asked.offset,
               .max_bytes = std::min(asked.max_bytes, kMaxPageBytes),
               .ranges = std::move(*ranges),
               .further = std::move(further)};
}

Task<void> FetchService::answer(Fetch fetch) {
  const Status status = co_await answer_page(fetch);
  --fetches_;
  if (!status.ok()) co_return reply_error(transport_, fetch.reply, status, kRetryAfterUs);
  // For the next requests: other recovery masters want the same segments.
  co_await segments_.read_ahead(std::move(fetch.further));
}

Status FetchService::damage(const Fetch& fetch, const IndexedSegment& segment) const {
  return {StatusCode::kCorrupt,
          fmt::format("segment {} of master {} in frame {} of {}, offset {}: {}",
                      fetch.key.segment_id, fetch.key.master_id, fetch.key.frame, frames_.path(),
                      segment.whole_bytes(), segment.what)};
}

/// OK: the request was answered.
Task<Status> FetchService::answer_page(const Fetch& fetch) {
  const Result<IndexedSegments::Segment> got = co_await segments_.get(fetch.key);
  if (!got) co_return got.error();
  const IndexedSegment& segment = **got;
  if (fetch.offset >= segment.whole_bytes()) {
    RC_SOMETIMES("backup.recovery_fetch_finds_damage");
    Status status = damage(fetch, segment);
    segments_.forget(fetch.key);
    co_return status;
  }
  if (!segment.is_boundary(fetch.offset)) {
    co_return bad(fmt::format("offset is {}, where no group begins", fetch.offset));
  }
  const AsyncMutex::Lock lock = co_await page_.lock();
  Page page;
  PageBuilder builder(segment, fetch.ranges, fetch.offset, fetch.max_bytes,
                      PageBuilder::FirstGroup::kAlways, page.bytes);
  while (builder.step(kScanSlice)) co_await reactor_.sleep(Duration{});
  if (builder.too_large()) {
    co_return Status(StatusCode::kCorrupt,
                     fmt::format("segment {} of master {}, offset {}: a group with more than {} "
                                 "bytes of entries",
                                 fetch.key.segment_id, fetch.key.master_id, builder.next_offset(),
                                 kMaxPageBytes));
  }
  page.entries = builder.entries();
  page.next_offset = builder.next_offset();
  if (page.next_offset == fetch.key.end) co_await add_further(fetch, page);
  const wire::RecoveryFetchReply head{.bytes = static_cast<uint32_t>(page.bytes.size()),
                                      .entries = page.entries,
                                      .next_offset = page.next_offset,
                                      .further = page.further};
  const Slice slices[] = {Slice(bytes_of(head)), Slice(page.bytes)};
  RC_FAILPOINT("backup.recovery.before_fetch_answer");
  transport_.reply(fetch.reply, StatusCode::kOk, slices);
  co_return Status();
}

/// Adds the entries of whole further segments that are in memory.
Task<void> FetchService::add_further(const Fetch& fetch, Page& page) {
  uint32_t work = 0;
  for (const IndexedSegments::Key& key : fetch.further) {
    const size_t before = page.bytes.size();
    const IndexedSegments::Segment segment = segments_.in_memory(key);
    const bool has_room = before < std::min(kMostBeforeFurther, fetch.max_bytes);
    if (!has_room || segment == nullptr || segment->whole_bytes() < key.end) co_return;
    PageBuilder builder(*segment, fetch.ranges, 0, fetch.max_bytes - static_cast<uint32_t>(before),
                        PageBuilder::FirstGroup::kIfItFits, page.bytes);
    // Many entries would be looked at.
    if (!builder.is_small()) co_return;
    while (builder.step(kScanSlice)) co_await reactor_.sleep(Duration{});
    if (builder.next_offset() < key.end) {
      page.bytes.resize(before);
      co_return;
    }
    RC_SOMETIMES("backup.recovery_fetch_has_several_segments");
    segments_.note_used(key);
    page.entries += builder.entries();
    ++page.further;
    work += builder.work();
    if (work < kScanSlice) continue;
    work = 0;
    co_await reactor_.sleep(Duration{});
  }
}

}  // namespace ramcloud
