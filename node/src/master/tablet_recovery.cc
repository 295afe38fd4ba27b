#include "master/tablet_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "master/new_head.h"
#include "store/cleaning_pass.h"

namespace ramcloud::master {

using wire::HashRange;
using wire::RecoveryPhase;

namespace {

/// A slice of replay in one turn, in bytes: about 10 us. An entry costs as much time as kEntryCost
/// bytes that are copied and checksummed.
constexpr uint32_t kSliceBytes = 64u << 10;
constexpr uint32_t kEntryCost = 1024;
/// How often it checks whether the log has made the expected progress.
constexpr Duration kLogInterval = 500us;
constexpr Duration kMemoryInterval = 100ms;
/// The longest wait of an entry for cleaning.
constexpr Duration kMostWithoutMemory = 10s;
/// The longest wait for frames, while no segment gets its replicas. Longer than a backup that had
/// none gets no copies (ReplicaManager::Options::max_no_frame_delay).
constexpr Duration kMostWithoutFrames = 10s;
constexpr Duration kShortageInterval = 100ms;
constexpr size_t kBegunAtOnce = 16;
/// Segments that are unpacked or queued in a turn, which takes about 20 us.
constexpr size_t kSegmentsAtOnce = 256;
/// The pause between two rounds over all sources of a segment.
constexpr Duration kFetchPause = 100ms;

store::TabletReplay::Range range_of(const wire::LostTablet& lost) {
  return {lost.range.table_id, lost.range.start_hash, lost.range.end_hash};
}

}  // namespace

TabletRecovery::TabletRecovery(const RecoveryTools& tools, wire::RecoverRequest order)
    : tools_(tools),
      reactor_(tools.rpc.reactor()),
      log_(tools.store.log()),
      order_(std::move(order)),
      replay_(tools.store, order_.attempt),
      changed_(reactor_),
      fetched_or_done_(reactor_),
      replaying_(reactor_),
      tasks_(reactor_) {
  for (auto& lost : order_.tablets) tablets_.push_back({std::move(lost)});
}

TabletRecovery::~TabletRecovery() {
  // A digest names the side segments, so this recovery must not free them.
  if (change_.state.load() == log::SegmentChange::State::kCarried) (void)replay_.side().release();
  if (!log_.withdraw(change_)) return;
  for (const log::Segment* segment : change_.leave) tools_.store.cleaned().give_up(segment->id());
}

// ---- called by RecoveryOrders

bool TabletRecovery::any(Fate fate) const {
  return std::ranges::find(tablets_, fate, &Tablet::fate) != tablets_.end();
}

bool TabletRecovery::recovers(const HashRange& range) const {
  return std::ranges::any_of(tablets_, [&](const Tablet& tablet) {
    return tablet.fate == Fate::kOpen && tablet.lost.range == range;
  });
}

bool TabletRecovery::overlaps(const HashRange& range) const {
  return std::ranges::any_of(tablets_, [&](const Tablet& tablet) {
    const HashRange& own = tablet.lost.range;
    return tablet.fate == Fate::kOpen && own.table_id == range.table_id &&
           own.start_hash <= range.end_hash && range.start_hash <= own.end_hash;
  });
}

std::string TabletRecovery::serve(const HashRange& range) {
  for (Tablet& tablet : tablets_) {
    if (tablet.fate != Fate::kOpen || tablet.lost.range != range) continue;
    if (!replay_.serve(range_of(tablet.lost))) return {};
    tablet.fate = Fate::kServed;
    tools_.want_pass();
    fetched_or_done_.set();
    return tablet.lost.table_name;
  }
  return {};
}

void TabletRecovery::give_up(const std::function<bool(const HashRange&)>& which) {
  bool named = false;
  for (Tablet& tablet : tablets_) {
    if (!which(tablet.lost.range)) continue;
    named = true;
    if (tablet.fate == Fate::kOpen) give_up(tablet);
  }
  if (!named || any(Fate::kOpen) || any(Fate::kServed)) return;
  given_up_ = true;
  tell_changed();
}

void TabletRecovery::give_up(Tablet& tablet) {
  tablet.fate = Fate::kGivenUp;
  if (replay_.give_up(range_of(tablet.lost))) tools_.want_pass();
  fetched_or_done_.set();
}

wire::RecoveryState TabletRecovery::state() const {
  wire::RecoveryState state;
  state.phase = phase_;
  state.segments_done = segments_done_;
  state.bytes_fetched = bytes_fetched_;
  state.segments_durable = durable_;
  if (phase_ != RecoveryPhase::kFailed) state.objects = replay_.live_objects();
  if (first_segment_ != 0) {
    state.creation_position = log::LogPosition(first_segment_, 0).value;
  }
  if (phase_ == RecoveryPhase::kFailed) {
    state.status = static_cast<uint16_t>(status_.code());
    state.why = status_.message();
    state.segment = failed_segment_;
  } else {
    state.status = static_cast<uint16_t>(waits_for());
    state.why = lacks_.message();
  }
  return state;
}

/// As wire::RecoveryState::status of a part that has not failed.
StatusCode TabletRecovery::waits_for() const {
  if (waits_for_others_) return StatusCode::kRetry;
  // What was lacking at the last page need not lack any more. Fetching goes on without backups.
  const bool looks = phase_ == RecoveryPhase::kCommitting;
  return looks && lacks_ == StatusCode::kUnavailable ? StatusCode::kUnavailable : StatusCode::kOk;
}

void TabletRecovery::enter(RecoveryPhase phase) {
  phase_ = phase;
  log_info("recovery.phase", {{"master", order_.master_id},
                              {"attempt", order_.attempt},
                              {"phase", static_cast<int>(phase)},
                              {"segments", segments_done_},
                              {"bytes", bytes_fetched_}});
  tell_changed();
}

void TabletRecovery::tell_changed() {
  changed_.set();
  changed_.reset();
}

// ---- steps of the recovery: begin, fetch, replay, commit, undo

Task<void> TabletRecovery::run() {
  Status status = co_await begin_tablets();
  if (status.ok() && any(Fate::kOpen)) status = co_await fetch_all();
  queue_ = {};
  order_.segments = {};
  if (status.ok() && any(Fate::kOpen)) {
    enter(RecoveryPhase::kCommitting);
    status = co_await commit();
  }
  if (status.ok() && committed_) {
    if (any(Fate::kOpen)) enter(RecoveryPhase::kReady);
    while (any(Fate::kOpen)) {
      fetched_or_done_.reset();
      co_await fetched_or_done_;
    }
  }
  if (any(Fate::kServed)) co_return enter(RecoveryPhase::kServing);
  status_ = std::move(status);
  for (Tablet& tablet : tablets_) {
    if (tablet.fate == Fate::kOpen) give_up(tablet);
  }
  co_await undo();
  if (given_up_) co_return;
  log_warn("recovery.part_failed",
           {{"master", order_.master_id}, {"attempt", order_.attempt}, {"error", status_}});
  enter(RecoveryPhase::kFailed);
}

/// Unpacks the order's segments, some in each turn, and queues them to be fetched.
Task<Status> TabletRecovery::take_segments() {
  const std::string packed = std::exchange(order_.packed_segments, {});
  if (!packed.empty()) {
    wire::PackedSegments all(packed);
    order_.segments.reserve(all.left());  // the queue points at them
    do {
      if (!all.take(kSegmentsAtOnce, order_.segments)) {
        co_return Status(StatusCode::kInvalidArgument,
                         "recover: the order's segments do not decode");
      }
      co_await reactor_.sleep(Duration::zero());
    } while (all.left() > 0);
  }
  size_t added = 0;
  for (const wire::RecoverySegment& segment : order_.segments) {
    queue_.add(segment);
    if (++added % kSegmentsAtOnce == 0) co_await reactor_.sleep(Duration::zero());
  }
  queue_.start(log_.options().master_id, tools_.fetches);
  co_return Status();
}

/// Begins all tablets. The head is rolled before any of their entries is put into a side segment.
Task<Status> TabletRecovery::begin_tablets() {
  const auto may_hold = [this](const Tablet& tablet) {
    const HashRange& range = tablet.lost.range;
    return tools_.store.may_hold(range.table_id, range.start_hash, range.end_hash);
  };
  if (std::ranges::any_of(tablets_, may_hold)) {
    RC_SOMETIMES("recovery.head_is_rolled_for_a_tablet");
    const Result<uint64_t> head = co_await new_head(reactor_, tools_.epochs, log_);
    if (!head) {
      const Status why = shortage();
      co_return why.ok() ? head.error() : why;
    }
    first_segment_ = *head;
  }
  size_t begun = 0;
  for (Tablet& tablet : tablets_) {
    if (tablet.fate != Fate::kOpen) continue;
    Status status = replay_.begin(range_of(tablet.lost), first_segment_);
    if (!status.ok()) co_return status;
    if (++begun % kBegunAtOnce != 0) continue;
    // Each tablet that begins creates a new list of all tablets. The old list is kept for threads
    // that may be searching it.
    const store::Tablets::Retired retired = tools_.store.take_retired();
    co_await tools_.epochs.grace_period(reactor_);
  }
  co_return Status();
}

/// Ends early when every tablet is given up.
Task<Status> TabletRecovery::fetch_all() {
  bool all = false;
  while (!all && status_.ok() && any(Fate::kOpen)) {
    if (!later_.empty()) {
      RC_SOMETIMES("recovery.fetching_is_left_to_others");
      co_await reactor_.sleep(kFetchPause);
    }
    waits_for_others_ = true;
    const AsyncMutex::Lock lock = co_await tools_.fetching.lock();
    waits_for_others_ = false;
    // Not before, because parts that wait keep their segments packed.
    if (!std::exchange(queued_, true)) status_ = co_await take_segments();
    if (!status_.ok()) break;
    // Added to what is left of again_: a segment without any source that is UP is put off at once,
    // and ends the round before the others were tried.
    std::ranges::move(std::exchange(later_, {}), std::back_inserter(again_));
    fetchers_ = tools_.fetches;
    for (uint32_t i = 0; i < tools_.fetches; ++i) tasks_.spawn(fetch_some());
    while (fetchers_ > 0 && status_.ok() && any(Fate::kOpen)) {
      fetched_or_done_.reset();
      co_await fetched_or_done_;
    }
    tasks_.cancel_all();
    all = later_.empty() && again_.empty() && queue_.empty();
  }
  co_return status_;
}

/// The next segment to fetch; null: none in this round.
std::unique_ptr<SegmentFetch> TabletRecovery::next_fetch() {
  if (!later_.empty() || !status_.ok()) return nullptr;
  if (!again_.empty()) {
    std::unique_ptr<SegmentFetch> fetch = std::move(again_.front());
    again_.pop_front();
    return fetch;
  }
  // Together with the first one are fetched those that have the same ranges.
  const bool few = tablets_.size() <= kMostTabletsAtOnce;
  while (!queue_.empty()) {
    auto segments = queue_.next(few ? segments_at_once(segments_fetched_, bytes_fetched_) : 1);
    std::vector<HashRange> ranges = ranges_of(*segments.front());
    const auto others =
        std::find_if(segments.begin() + 1, segments.end(),
                     [&](const auto* segment) { return ranges_of(*segment) != ranges; });
    queue_.put_back({others, segments.end()});
    segments.erase(others, segments.end());
    if (!ranges.empty()) {
      return std::make_unique<SegmentFetch>(tools_.rpc, tools_.servers, order_.master_id, segments,
                                            std::move(ranges));
    }
    segments_done_ += segments.size();
  }
  return nullptr;
}

Task<void> TabletRecovery::fetch_some() {
  while (std::unique_ptr<SegmentFetch> fetch = next_fetch()) {
    Status status = co_await fetch_segment(*fetch);
    queue_.put_back(fetch->take_unfetched());
    if (fetch->first_source_failed() && !fetch->segment().sources.empty()) {
      queue_.slow_down(fetch->segment().sources.front().server_id);
    }
    if (status == StatusCode::kRetry) {
      later_.push_back(std::move(fetch));
      break;
    }
    if (!status.ok() && status_.ok()) {
      status_ = std::move(status);
      const bool here = status_ == StatusCode::kOutOfMemory || status_ == StatusCode::kNoSpace;
      if (!here) failed_segment_ = fetch->segment().segment_id;
    }
    segments_fetched_ += fetch->fetched();
    segments_done_ += std::max<size_t>(fetch->fetched(), 1);
  }
  --fetchers_;
  fetched_or_done_.set();
}

/// The ranges that the dead master owned when it filled the segment. Entries of an earlier
/// ownership are in segments below the tablet's creation position.
std::vector<HashRange> TabletRecovery::ranges_of(const wire::RecoverySegment& segment) const {
  const uint64_t position = log::LogPosition(segment.segment_id, 0).value;
  std::vector<HashRange> ranges;
  for (const Tablet& tablet : tablets_) {
    if (tablet.fate == Fate::kOpen && position >= tablet.lost.creation_position) {
      ranges.push_back(tablet.lost.range);
    }
  }
  return ranges;
}

/// Fetches and replays a segment. RETRY: no source has sent a page yet; other
/// recoveries may fetch before the next try.
Task<Status> TabletRecovery::fetch_segment(SegmentFetch& fetch) {
  while (!fetch.done()) {
    co_await tools_.pace.wait();
    Result<FetchedPage> page = co_await fetch.next();
    if (!page) co_return page.error();
    RC_FAILPOINT("master.recovery.page_fetched");
    const uint32_t bytes = page->entry_bytes();
    tools_.pace.charge(bytes);
    Status status = co_await replay_page(std::move(*page));
    if (status == StatusCode::kCorrupt) {
      fetch.refuse(std::move(status));
      continue;
    }
    if (!status.ok()) co_return status;
    RC_FAILPOINT("master.recovery.page_replayed");
    bytes_fetched_ += bytes;
    fetch.accept();
  }
  co_return Status();
}

/// The log may be full of dead entries: cleaning then makes room for the replayed ones. Passes may
/// wait for replicas that find no frame. So when none has made room until `limit`, the part fails,
/// and another server may have the memory for it.
bool TabletRecovery::may_get_memory(Time limit) const {
  if (!log_.cleaning_helps() || !any(Fate::kOpen) || reactor_.now() >= limit) return false;
  RC_SOMETIMES("master.recovery_waits_for_cleaning");
  return true;
}

/// Why backups take no replicas of the recovered segments, or of the head with which they enter the
/// log.
Status TabletRecovery::shortage() const {
  const std::vector<log::Segment*>& side = replay_.side().segments();
  size_t lacking = 0;
  Status why;
  for (const log::Segment* segment : side) {
    if (segment->closed_durable()) continue;
    ++lacking;
    if (why.ok()) why = log_.shortage_of(*segment);
  }
  if (!why.ok()) {
    return {why.code(), fmt::format("{} of {} recovered segments lack replicas: {}", lacking,
                                    side.size(), why.message())};
  }
  for (const log::Segment* head : log_.segments()) {
    if (why.ok() && !head->opened_durable()) why = log_.shortage_of(*head);
  }
  if (why.ok()) return why;
  return {why.code(), "a head of the log lacks replicas: " + why.message()};
}

/// Frames become free while it waits, unless the volumes are full. So when no segment got its
/// replicas for long, the part fails: its frames may be what other parts need, and those of another
/// attempt may be fewer. With too few backups nobody gains by that, and it waits.
Status TabletRecovery::may_get_frames() {
  const Time now = reactor_.now();
  if (now < next_look_) return {};
  next_look_ = now + kShortageInterval;
  const auto durable = static_cast<size_t>(
      std::ranges::count_if(replay_.side().segments(), &log::Segment::closed_durable));
  if (std::exchange(durable_, durable) != durable) lacking_since_.reset();
  lacks_ = shortage();
  if (lacks_ == StatusCode::kUnavailable) lacking_since_.reset();
  if (lacks_ != StatusCode::kNoSpace) return {};
  if (!lacking_since_) lacking_since_ = now;
  if (now - *lacking_since_ < kMostWithoutFrames) return {};
  RC_SOMETIMES("master.recovery_finds_no_frames");
  return lacks_;
}

/// The next entries of a page, as many as one turn replays. CORRUPT as FetchedPage::next().
Status TabletRecovery::take_slice(FetchedPage& page, std::vector<log::EntryView>& slice) {
  slice.clear();
  for (uint32_t work = 0; !page.empty() && work < kSliceBytes;) {
    const Result<log::EntryView> entry = page.next();
    if (!entry) return entry.error();
    slice.push_back(*entry);
    work += kEntryCost + entry->total_length();
  }
  return {};
}

Task<Status> TabletRecovery::replay_slice(std::span<const log::EntryView> slice) {
  Time limit = reactor_.now() + kMostWithoutMemory;
  for (;;) {
    const store::TabletReplay::Replayed replayed = replay_.replay(slice);
    slice = slice.subspan(replayed.count);
    if (replayed.status == StatusCode::kOk) co_return Status();
    if (replayed.status != StatusCode::kOutOfMemory) {
      co_return Status(replayed.status, "an entry's checksum or lengths do not hold");
    }
    if (replayed.count > 0) limit = reactor_.now() + kMostWithoutMemory;
    if (!may_get_memory(limit)) {
      co_return Status(replayed.status,
                       "no memory for replayed entries: the log is full except for its reserve");
    }
    co_await reactor_.sleep(kLogInterval);
  }
}

/// Entries that were replayed before an error in the page stay: other sources have the same
/// entries.
Task<Status> TabletRecovery::replay_page(FetchedPage page) {
  const AsyncMutex::Lock lock = co_await replaying_.lock();
  if (Status status = may_get_frames(); !status.ok()) co_return status;
  const store::TabletReplay::Counts before = replay_.counts();
  Status status;
  std::vector<log::EntryView> slice;
  while (status.ok() && !page.empty()) {
    status = take_slice(page, slice);
    if (status.ok()) status = co_await replay_slice(slice);
    if (status.ok() && !page.empty()) co_await reactor_.sleep(Duration::zero());
  }
  const store::TabletReplay::Counts& now = replay_.counts();
  tools_.replayed_bytes.add(now.bytes - before.bytes);
  tools_.replayed_entries.add(now.objects + now.tombstones - before.objects - before.tombstones);
  tools_.skipped_entries.add(now.skipped - before.skipped);
  co_return status;
}

/// Returns before the commit is done if every tablet is given up.
Task<Status> TabletRecovery::commit() {
  RC_FAILPOINT("master.recovery.before_close");
  replay_.side().close();
  while (!replay_.side().all_durable()) {
    if (!any(Fate::kOpen)) co_return Status();
    if (Status status = may_get_frames(); !status.ok()) co_return status;
    co_await reactor_.sleep(kLogInterval);
  }
  // The fresh head's safe version must be above all versions that the dead master assigned. That
  // includes keys that it deleted, of which no entry may have been replayed here.
  tools_.store.raise_version_floor(order_.safe_version);
  RC_FAILPOINT("master.recovery.before_commit");
  change_.enter = replay_.side().segments();
  for (const log::Segment* segment : change_.enter) entered_.push_back(segment->id());
  StatusCode code = log_.commit(change_, log::Roll::kNow);
  const Time limit = reactor_.now() + kMostWithoutMemory;
  while (code == StatusCode::kOutOfMemory && may_get_memory(limit)) {
    co_await reactor_.sleep(kLogInterval);
    code = log_.commit(change_, log::Roll::kNow);
  }
  if (code != StatusCode::kOk) {
    co_return Status(code,
                     "no memory for a new head, with which the recovered segments enter the log");
  }
  while (!change_.done()) {
    if (!any(Fate::kOpen) && log_.withdraw(change_)) co_return Status();
    // From the fresh head on it cannot be withdrawn: then this only says what it waits for.
    if (Status status = may_get_frames(); !status.ok() && log_.withdraw(change_)) co_return status;
    co_await reactor_.sleep(kLogInterval);
  }
  RC_FAILPOINT("master.recovery.committed");
  committed_ = true;
  lacks_ = {};
  (void)replay_.side().release();
  co_return Status();
}

/// Removes everything when all tablets are given up. No tablet was ever served.
Task<void> TabletRecovery::undo() {
  const auto is_there = [&] {
    const auto tablets = tools_.store.tablets();
    return std::ranges::find(tablets, order_.attempt, &store::TabletCounts::attempt) !=
           tablets.end();
  };
  while (is_there()) co_await reactor_.sleep(kLogInterval);
  // No slot points at the entries any more. Other threads may still read them, so the memory is
  // reused after a grace period.
  if (committed_) {
    co_await leave_log();
  } else {
    replay_.side().abort();
  }
}

/// Makes the recovered segments leave the log. If a cleaning pass has claimed a segment, the pass
/// removes it; neither waits for the other. Copies in its survivors are dead, because no slot
/// points at them. If the pass is given up, the segment stays without live entries, and is cleaned
/// like any other.
Task<void> TabletRecovery::leave_log() {
  change_.enter.clear();
  for (const uint64_t id : std::exchange(entered_, {})) {
    log::Segment* segment = log_.find_segment(id);
    if (segment != nullptr && store::claim(tools_.store, *segment)) {
      change_.leave.push_back(segment);
      entered_.push_back(id);
    } else {
      RC_SOMETIMES("recovery.committed_segments_are_left_to_cleaning");
    }
  }
  if (entered_.empty()) co_return;
  RC_SOMETIMES("recovery.committed_segments_leave");
  change_.state.store(log::SegmentChange::State::kNew, std::memory_order_relaxed);
  StatusCode code = StatusCode::kOutOfMemory;
  while ((code = log_.commit(change_, log::Roll::kNow)) == StatusCode::kOutOfMemory) {
    co_await reactor_.sleep(kMemoryInterval);
  }
  if (code != StatusCode::kOk) {
    fatal(
        "recovery.segments_do_not_leave",
        {{"master", order_.master_id}, {"attempt", order_.attempt}, {"segments", entered_.size()}});
  }
  while (!change_.done()) co_await reactor_.sleep(kLogInterval);
  for (const uint64_t id : entered_) tools_.store.cleaned().segment_left(id);
}

}  // namespace ramcloud::master
