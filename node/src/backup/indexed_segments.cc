#include "backup/indexed_segments.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/sometimes.h"
#include "log/entry_view.h"

namespace ramcloud {
namespace {

/// The largest index of a segment with so many bytes: the smallest entries are objects without a
/// key.
uint64_t most_index_bytes(uint32_t segment_bytes) {
  constexpr uint64_t kSmallest = sizeof(log::EntryHeader) + sizeof(log::ObjectBody);
  return segment_bytes / kSmallest * (sizeof(IndexedEntry) + sizeof(IndexedSegment::Place));
}

uint64_t index_bytes(const IndexedSegment& segment) {
  uint64_t bytes = segment.by_hash.size() * sizeof(IndexedSegment::Place);
  for (const auto& piece : segment.pieces) bytes += piece.entries.size() * sizeof(IndexedEntry);
  return bytes;
}

/// Indexes the entries of groups, as long as their lengths are valid.
class Indexer {
 public:
  /// Null, or a text about the group's damage; then none of its entries is added.
  const char* add(const log::GroupView& group) {
    const size_t before = entries_.size();
    for (auto e = group.first(); e; e = group.next(*e)) {
      const char* wrong = add(e->view, e->offset, group.end());
      if (wrong == nullptr) continue;
      entries_.resize(before);
      return wrong;
    }
    return nullptr;
  }
  std::vector<IndexedEntry> take() {
    std::vector<IndexedEntry> exact(entries_);
    entries_.clear();
    return exact;
  }

 private:
  const char* add(const log::EntryView& entry, uint32_t offset, uint32_t group_end) {
    if (entry.type() == log::EntryType::kObject) {
      const auto object = log::parse_object(entry);
      if (!object) return "an object whose lengths do not fit";
      add_key(*object, offset, group_end);
    } else if (entry.type() == log::EntryType::kTombstone) {
      const auto tombstone = log::parse_tombstone(entry);
      if (!tombstone) return "a tombstone whose lengths do not fit";
      add_key(*tombstone, offset, group_end);
    }
    return nullptr;
  }
  template <typename View>
  void add_key(const View& view, uint32_t offset, uint32_t group_end) {
    const uint64_t hash =
        log::hash_of_key(view.table_id, view.entry, View::key_offset, view.key_length);
    entries_.push_back({view.table_id, hash, offset, group_end});
  }
  std::vector<IndexedEntry> entries_;
};

}  // namespace

bool IndexedSegment::is_boundary(uint32_t offset) const {
  const auto piece = std::ranges::upper_bound(pieces, offset, {}, &Piece::begin);
  if (piece == pieces.begin()) return offset == 0;
  uint32_t at = std::prev(piece)->begin;
  const log::SegmentBytes segment = bytes.segment();
  // A padding's header begins like a group's header.
  while (at < offset) at += segment.load_at<log::PaddingHeader>(at).length();
  return at == offset;
}

IndexedSegments::IndexedSegments(Reactor& reactor, FrameStore& frames, uint64_t room)
    : reactor_(reactor),
      frames_(frames),
      room_(room),
      timer_(reactor, [this] { drop_unused(); }),
      scope_(reactor) {}

IndexedSegments::KeptList::const_iterator IndexedSegments::find(const Key& key) const {
  return std::ranges::find_if(
      kept_, [&](const auto& kept) { return kept->key == key && !kept->forgotten; });
}

/// The segment, if it is there, becomes the one that was used last. kNamed: it still counts as one
/// that nobody asked for.
std::shared_ptr<IndexedSegments::Kept> IndexedSegments::touch(const Key& key, Use use) {
  const auto found = find(key);
  if (found == kept_.end()) return nullptr;
  const std::shared_ptr<Kept> kept = *found;
  kept_.splice(kept_.begin(), kept_, found);
  kept->ahead = kept->ahead && use == Use::kNamed;
  kept->used = reactor_.clock().now();
  if (!timer_.running()) timer_.start_after(kKeptFor);
  return kept;
}

uint64_t IndexedSegments::ahead_bytes() const {
  uint64_t bytes = 0;
  for (const auto& kept : kept_) bytes += kept->ahead ? kept->charged : 0;
  return bytes;
}

std::shared_ptr<IndexedSegments::Kept> IndexedSegments::begin(const Key& key, uint64_t most) {
  auto kept = std::make_shared<Kept>(reactor_, key);
  kept->charged = most;
  bytes_ += most;
  kept->used = reactor_.clock().now();
  if (!timer_.running()) timer_.start_after(kKeptFor);
  kept_.push_front(kept);
  return kept;
}

/// The segment, which is in memory or is being read; null: there is no room.
std::shared_ptr<IndexedSegments::Kept> IndexedSegments::use(const Key& key) {
  if (auto kept = touch(key, Use::kRead)) return kept;
  const uint64_t most = key.end + most_index_bytes(key.end);
  if (!make_room(most)) {
    RC_SOMETIMES("backup.recovery_fetches_wait_for_room");
    return nullptr;
  }
  std::shared_ptr<Kept> kept = begin(key, most);
  scope_.spawn(load(kept));
  return kept;
}

Task<Result<IndexedSegments::Segment>> IndexedSegments::get(Key key) {
  const std::shared_ptr<Kept> kept = use(key);
  if (kept == nullptr) {
    co_return fail(StatusCode::kRetry, "too many segments are read at the same time");
  }
  co_await kept->there;
  if (!kept->status.ok()) co_return fail(kept->status);
  co_return Segment(kept->segment);
}

IndexedSegments::Segment IndexedSegments::in_memory(const Key& key) const {
  const auto found = find(key);
  return found == kept_.end() ? nullptr : Segment((*found)->segment);
}

/// False: there is no room.
bool IndexedSegments::begin_ahead(const Key& key) {
  const uint64_t most = key.end + most_index_bytes(key.end);
  if (ahead_bytes() + most > room_ / 4 || !make_room(most)) return false;
  RC_SOMETIMES("backup.recovery_fetch_reads_ahead");
  std::shared_ptr<Kept> kept = begin(key, most);
  kept->ahead = true;
  scope_.spawn(load(std::move(kept)));
  return true;
}

Task<void> IndexedSegments::read_ahead(std::vector<Key> keys) {
  // Those that are there must not make room for the others.
  for (const Key& key : keys) (void)touch(key, Use::kNamed);
  for (const Key& key : keys) {
    if (find(key) != kept_.end()) continue;
    if (!begin_ahead(key)) co_return;
    co_await reactor_.sleep(Duration{});  // it takes memory from the system
  }
}

void IndexedSegments::forget(const Key& key) {
  const auto found = find(key);
  if (found != kept_.end() && !(*found)->reading) (*found)->forgotten = true;
}

/// True if a reader uses the segment, or a request waits for it.
bool IndexedSegments::in_use(const std::shared_ptr<Kept>& kept) {
  return kept->reading || kept.use_count() > 1 || kept->segment.use_count() > 1;
}

void IndexedSegments::drop(KeptList::iterator it) {
  bytes_ -= (*it)->charged;
  kept_.erase(it);
}

/// The least recently used segment goes first (LRU). None goes if that makes too little room.
bool IndexedSegments::make_room(uint64_t bytes) {
  uint64_t unused = 0;
  for (const auto& kept : kept_) unused += in_use(kept) ? 0 : kept->charged;
  if (bytes > room_ - bytes_ + unused) return false;
  for (auto it = kept_.end(); bytes > room_ - bytes_ && it != kept_.begin();) {
    --it;
    if (!in_use(*it)) drop(it++);
  }
  return true;
}

void IndexedSegments::drop_unused() {
  const Time now = reactor_.clock().now();
  Time next = now + kKeptFor;
  for (auto it = kept_.begin(); it != kept_.end();) {
    const Time until = (*it)->used + kKeptFor;
    if (in_use(*it)) {
      ++it;
    } else if (until <= now) {
      drop(it++);
    } else {
      next = std::min(next, until);
      ++it;
    }
  }
  if (!kept_.empty()) timer_.start_at(next);
}

Task<void> IndexedSegments::load(std::shared_ptr<Kept> kept) {
  const Key key = kept->key;
  auto segment = std::make_shared<IndexedSegment>(key.end);
  bytes_read_ += key.end;
  kept->status = co_await read_frame(reactor_, frames_, key.frame, 0, segment->bytes);
  if (kept->status.ok()) {
    co_await index(key, segment);
    co_await order_by_hash(segment);
    const uint64_t charge = key.end + index_bytes(*segment);
    bytes_ -= kept->charged - charge;
    kept->charged = charge;
    kept->segment = std::move(segment);
  }
  kept->reading = false;
  kept->used = reactor_.clock().now();
  if (!kept->status.ok()) drop(std::ranges::find(kept_, kept));
  kept->there.set();
}

Task<void> IndexedSegments::index(Key key, std::shared_ptr<IndexedSegment> segment) {
  const log::SegmentIdentity identity{.cluster_uuid = frames_.cluster_uuid(),
                                      .master_id = key.master_id,
                                      .segment_id = key.segment_id};
  Indexer indexer;
  uint32_t end = 0;
  const char* wrong = nullptr;
  log::GroupsChecker checker(identity, segment->bytes.segment(), 0,
                             [&](const log::GroupView& group) {
                               if (wrong == nullptr) wrong = indexer.add(group);
                               if (wrong == nullptr) end = group.end();
                             });
  bool more = true;
  while (more && wrong == nullptr) {
    const uint32_t begin = end;
    more = checker.step(kScanSlice);
    if (end > begin) segment->pieces.push_back({begin, end, indexer.take()});
    if (more) co_await reactor_.sleep(Duration{});
  }
  log::GroupsCheck check = checker.take();
  // The padding after the last group.
  if (wrong == nullptr && check.whole_bytes > end) {
    segment->pieces.push_back({end, check.whole_bytes, {}});
  }
  segment->what = wrong != nullptr ? wrong : std::move(check.what);
}

Task<void> IndexedSegments::order_by_hash(std::shared_ptr<IndexedSegment> segment) {
  // A segment has at most 130 pieces, and a piece 2,000 entries; placing those takes a few
  // microseconds.
  constexpr size_t kPiecesAtOnce = 8;
  std::array<uint32_t, IndexedSegment::kFirstBytes + 1>& begin_of = segment->begin_of;
  for (size_t i = 0; i < segment->pieces.size(); ++i) {
    for (const IndexedEntry& entry : segment->pieces[i].entries) ++begin_of[entry.first_byte() + 1];
    if (i % kPiecesAtOnce == kPiecesAtOnce - 1) co_await reactor_.sleep(Duration{});
  }
  std::partial_sum(begin_of.begin(), begin_of.end(), begin_of.begin());
  segment->by_hash.resize(begin_of.back());
  std::array<uint32_t, IndexedSegment::kFirstBytes + 1> next = begin_of;
  for (uint16_t i = 0; i < segment->pieces.size(); ++i) {
    const auto& entries = segment->pieces[i].entries;
    for (uint16_t j = 0; j < entries.size(); ++j) {
      segment->by_hash[next[entries[j].first_byte()]++] = {i, j};
    }
    if (i % kPiecesAtOnce == kPiecesAtOnce - 1) co_await reactor_.sleep(Duration{});
  }
}

}  // namespace ramcloud
