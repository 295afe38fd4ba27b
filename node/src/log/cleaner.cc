#include "log/cleaner.h"

#include <algorithm>
#include <utility>

#include "base/sometimes.h"

namespace ramcloud::log {
namespace {

/// Segments that one step looks at: those whose live bytes changed, and some others in rotation,
/// because segments that their tombstones name may have left the log.
constexpr uint32_t kChangedAtOnce = 64;
constexpr uint32_t kInTurn = 16;
/// It looks at changed segments, and at others, at most this long each. When cleaning comes near, many
/// have changed, and each of them is read.
constexpr Duration kLooksFor = std::chrono::microseconds(200);
/// The same when memory is short and no segment is known that would free some.
constexpr uint32_t kInSearch = 256;
/// A pass claims and commits its victims in one slice each, however small they are.
constexpr size_t kMostVictims = 64;
/// Segments that are looked at for one that has room to be compacted.
constexpr size_t kMostTooLarge = 64;

/// At least this much of a survivor is filled: it ends when an entry does not fit, and no entry is
/// larger than the rest.
constexpr uint64_t kFilled = kSegmentBytes - kSegmentBytes / 4;

uint64_t seglets_of(uint64_t bytes) {
  return (bytes + kSegletBytes - 1) / kSegletBytes;
}

}  // namespace

Cleaner::Cleaner(Log& log, Clock& clock, CleanerOptions options, Judge judge, MakeWork make)
    : log_(log),
      clock_(clock),
      options_(options),
      judge_(std::move(judge)),
      make_(std::move(make)),
      order_(options.policy, log.most_segments_ever()),
      compaction_(options.policy, log.most_segments_ever()),
      by_seglets_(CleaningPolicy::kGreedy, log.most_segments_ever(), 0),
      parts_(log.most_segments_ever()),
      counts_disk_(options.balancer.compaction) {}

CleanerState Cleaner::state() const {
  const MutexGuard guard(mutex_);
  CleanerState state = state_;
  const uint64_t appended = log_.memory().appended_bytes;
  if (appended > 0) {
    state.write_cost = 1 + static_cast<double>(state.bytes_written) / static_cast<double>(appended);
  }
  return state;
}

// ---- what there is to clean

Cleaner::Looked Cleaner::look_again() {
  const std::vector<uint32_t> changed = log_.take_changed(kChangedAtOnce);
  Looked looked{.changed = changed.size(), .more = changed.size() >= kChangedAtOnce};
  const Time until = clock_.now() + kLooksFor;
  for (const uint32_t number : changed) {
    if (clock_.now() > until) {
      log_.want_look(number);  // in the next slice
      looked.more = true;
      continue;
    }
    look_at(number);
    free_at_failure_ = kNoFailure;  // a changed segment may need less memory to clean
  }
  if (const uint64_t gone = log_.segments_gone(); gone != segments_gone_) {
    segments_gone_ = gone;
    unlooked_ = log_.most_segments();
  }
  look_in_turn(kInTurn, Look::kQuick);
  return looked;
}

void Cleaner::look_in_turn(uint32_t most, Look look) {
  most = std::min(most, log_.most_segments());
  const Time until = clock_.now() + kLooksFor;
  uint32_t looked = 0;
  for (; looked < most && clock_.now() <= until; ++looked) {
    look_at(look_next_, look);
    look_next_ = (look_next_ + 1) % log_.most_segments();
  }
  unlooked_ -= std::min(unlooked_, looked);
}

void Cleaner::look_at(uint32_t number, Look look) {
  if (in_progress_.contains(number)) return;
  const Segment* segment = log_.closed_member(number);
  const auto figures = segment != nullptr ? judge_(*segment, look) : std::nullopt;
  if (figures) note_live(parts_[number], figures->live_bytes);
  put_off_.erase(number);
  empty_.erase(number);
  if (figures && fails_again(*segment, *figures)) put_off_.insert(number);
  if (!figures || put_off_.contains(number)) return take_off(number);
  count(parts_[number], figures->worth_cleaning() ? figures->memory_bytes - figures->live_bytes : 0,
        figures->tombstone_bytes);
  CleaningFigures combined = *figures;
  // On disk it takes a whole segment, however small it is in memory.
  if (counts_disk_) combined.memory_bytes = kSegmentBytes;
  order_.set(number, combined);
  if (figures->live_bytes == 0) empty_.insert(number);
  set_seglets(*segment, *figures);
  if (!compacts()) return;
  const auto compacted = for_compaction(*segment, *figures);
  compacted ? compaction_.set(number, *compacted) : compaction_.erase(number);
}

/// A pass has failed that had only this segment, which was as live, and no less memory.
bool Cleaner::fails_again(const Segment& segment, const CleaningFigures& figures) const {
  const Part& part = parts_[segment.number()];
  return part.failed_id == segment.id() && part.failed_live_bytes <= figures.live_bytes &&
         log_.memory().free_seglets <= part.failed_free_seglets;
}

/// With one level, heads that closed early take little memory, and their survivors no less. But each is
/// a whole segment on disk, and the log cannot have any number of segments.
void Cleaner::note_disk(const Log::Memory& memory) {
  if (compacts()) return;
  const bool counts = disk_is_short(options_.balancer, figures(memory), counts_disk_);
  if (counts == counts_disk_) return;
  counts_disk_ = counts;
  unlooked_ = log_.most_segments();
  for (uint32_t number = 0; number < log_.most_segments(); ++number) log_.want_look(number);
}

/// More memory is free than when they were put off: another pass may succeed.
void Cleaner::look_at_put_off(const Log::Memory& memory) {
  const std::vector<uint32_t> numbers(put_off_.begin(), put_off_.end());
  for (const uint32_t number : numbers) {
    if (memory.free_seglets > parts_[number].failed_free_seglets) look_at(number);
  }
}

/// What combined cleaning wins from a segment in whole seglets, whether it is worth it or not. Memory
/// behind the last entry does not count, because survivors lose as much. So only dead entries are won,
/// and a survivor has none: this comes to an end.
void Cleaner::set_seglets(const Segment& segment, const CleaningFigures& figures) {
  const uint64_t before = seglets_of(segment.published());
  const uint64_t after = seglets_of(figures.live_bytes);
  if (after >= before) return by_seglets_.erase(segment.number());
  CleaningFigures in_seglets = figures;
  in_seglets.memory_bytes = static_cast<uint32_t>(before) * kSegletBytes;
  in_seglets.live_bytes = static_cast<uint32_t>(after) * kSegletBytes;
  by_seglets_.set(segment.number(), in_seglets);
}

/// A segment of which less is live needs less memory. Tombstones die without a mark, and without memory
/// that becomes free.
void Cleaner::note_live(Part& part, uint32_t live_bytes) {
  if (live_bytes < part.live_bytes) free_at_failure_ = kNoFailure;
  part.live_bytes = live_bytes;
}

void Cleaner::count(Part& part, uint32_t gain_bytes, uint32_t tombstone_bytes) {
  memory_gain_bytes_ += uint64_t{gain_bytes} - part.gain_bytes;
  tombstone_bytes_ += uint64_t{tombstone_bytes} - part.tombstone_bytes;
  part.gain_bytes = gain_bytes;
  part.tombstone_bytes = tombstone_bytes;
}

void Cleaner::take_off(uint32_t number) {
  order_.erase(number);
  compaction_.erase(number);
  by_seglets_.erase(number);
  empty_.erase(number);
  count(parts_[number], 0, 0);
  parts_[number].live_bytes = 0;
}

/// Compaction frees whole seglets. One is added: the figures are an estimate. None: this segment must
/// not be compacted, or not now.
std::optional<CleaningFigures> Cleaner::for_compaction(const Segment& segment,
                                                       const CleaningFigures& figures) const {
  const Part& part = parts_[segment.number()];
  const bool no_gain =
      part.no_gain_id == segment.id() && part.no_gain_live_bytes == figures.live_bytes;
  if (no_gain || !log_.may_compact(segment)) return std::nullopt;
  CleaningFigures compacted = figures;
  const uint64_t bytes = segment.header_length() + figures.live_bytes;
  compacted.live_bytes = static_cast<uint32_t>(
      std::min<uint64_t>((seglets_of(bytes) + 1) * kSegletBytes, figures.memory_bytes));
  return compacted;
}

CleaningTime Cleaner::now() const {
  return {.segment_id = log_.head().segment_id(),
          .unix_s = static_cast<uint32_t>(clock_.unix_ms() / 1000)};
}

BalancerFigures Cleaner::figures(const Log::Memory& memory) const {
  return {.total_seglets = memory.total_seglets,
          .free_seglets = memory.free_seglets,
          .leaving_seglets = memory.leaving_seglets + gain_seglets_,
          .excess_seglets = memory.excess_seglets,
          .reserved_seglets = log_.must_stay_free(MemoryPurpose::kWrites),
          .disk_segments = memory.segments,
          .most_segments = log_.most_segments(),
          .live_bytes = order_.live_bytes(),
          .tombstone_bytes = tombstone_bytes_,
          .gain_bytes = memory_gain_bytes_,
          .disk_gain_bytes = order_.gain_bytes(),
          .compaction_gain_bytes = compaction_.gain_bytes(),
          .seglet_gain = by_seglets_.gain_bytes() / kSegletBytes};
}

/// Memory for copies: free memory without what emergency heads need and other passes may still
/// take.
uint64_t Cleaner::room_for_copies(const Log::Memory& memory) const {
  const uint64_t kept = log_.must_stay_free(MemoryPurpose::kSurvivors) + survivor_seglets_;
  return memory.free_seglets > kept ? memory.free_seglets - kept : 0;
}

bool Cleaner::memory_is_short(const Log::Memory& memory) const {
  const BalancerFigures now = figures(memory);
  return now.free_seglets + now.leaving_seglets < cleaning_starts_below(options_.balancer, now);
}

/// Compaction frees memory for heads, and each head is one more segment on disk. So it waits where
/// the disk has reached its limit and passes that free frames are in progress. Otherwise writers
/// would go on while copies to slow backups wait, until no frame or no segment is left for those
/// passes' commit.
bool Cleaner::disk_must_wait(const Log::Memory& memory) const {
  return combined_passes_ > 0 && disk_is_full(options_.balancer, figures(memory));
}

/// Whether the last pass failed with as much free memory.
bool Cleaner::failed_with(const Log::Memory& memory) const {
  return free_at_failure_ != kNoFailure && memory.free_seglets <= free_at_failure_;
}

std::unique_ptr<Cleaner::Worker::Pass> Cleaner::choose(const Log::Memory& memory,
                                                       const CleaningDecision& decision) {
  const uint64_t room = room_for_copies(memory);
  auto pass = decision.kind == CleaningKind::kCompaction ? choose_compaction(memory)
                                                         : choose_combined(order_, room);
  // The best pass for disk space may free no memory.
  if (pass == nullptr && decision.kind == CleaningKind::kCombined && memory_is_short(memory)) {
    pass = choose_compaction(memory);
  }
  // Not before all are known: others may win more.
  if (pass == nullptr && decision.any_gain && unlooked_ == 0) {
    pass = choose_combined(by_seglets_, room);
  }
  return pass;
}

/// False: it left the log since it was looked at, or must not be cleaned now.
bool Cleaner::may_be_victim(const Segment* segment) const {
  return segment != nullptr && judge_(*segment, Look::kQuick).has_value();
}

/// The best segment to compact whose live entries have room.
std::optional<Cleaner::Fitting> Cleaner::best_that_fits(uint64_t room) {
  std::optional<Fitting> fitting;
  std::vector<uint32_t> too_large;
  while (!fitting && too_large.size() < kMostTooLarge) {
    const auto best = compaction_.best(now());
    if (!best) break;
    Segment* segment = log_.closed_member(best->segment);
    if (!may_be_victim(segment)) {
      take_off(best->segment);
    } else if (seglets_of(best->figures.live_bytes) > room) {
      compaction_.erase(best->segment);
      too_large.push_back(best->segment);
    } else {
      fitting = {best->figures, segment};
    }
  }
  for (const uint32_t number : too_large) look_at(number);  // puts it back
  return fitting;
}

std::unique_ptr<Cleaner::Worker::Pass> Cleaner::choose_compaction(const Log::Memory& memory) {
  if (disk_must_wait(memory)) return nullptr;
  const auto best = best_that_fits(room_for_copies(memory));
  if (!best) return nullptr;
  const uint64_t needs = seglets_of(best->figures.live_bytes);
  auto pass = std::make_unique<Worker::Pass>();
  pass->kind = CleaningKind::kCompaction;
  pass->victims = {best->segment->number()};
  pass->live_bytes = best->figures.live_bytes;
  pass->gain_seglets = seglets_of(best->figures.memory_bytes) - needs;
  pass->survivor_seglets = needs;
  pass->first_live_bytes = parts_[best->segment->number()].live_bytes;
  take_off(best->segment->number());
  pass->work = make_(pass->kind, {best->segment});
  return pass;
}

/// Segments without live entries. The pass makes no survivor, so it waits for no frame of a backup.
std::unique_ptr<Cleaner::Worker::Pass> Cleaner::choose_empty() {
  std::vector<CleaningOrder::Chosen> chosen;
  for (const uint32_t number : empty_) {
    const Segment* segment = log_.closed_member(number);
    if (segment == nullptr) continue;
    chosen.push_back({number, {.memory_bytes = segment->memory_bytes()}});
    if (chosen.size() == kMostVictims) break;
  }
  if (chosen.empty()) return nullptr;
  RC_SOMETIMES("cleaner.cleans_empty_segments_beside_passes_that_wait");
  return combined_pass(chosen, 0);
}

/// The best segments, as many as survivors have room for.
std::unique_ptr<Cleaner::Worker::Pass> Cleaner::choose_combined(CleaningOrder& order,
                                                                uint64_t room) {
  CleaningOrder::Limits limits{.memory_bytes = uint64_t{options_.victims} * kSegmentBytes,
                               .live_bytes = room * kSegletBytes * kFilled / kSegmentBytes,
                               .segments = kMostVictims};
  limits.live_bytes = std::min(limits.live_bytes, most_live_bytes_);
  // With less than a whole segment a pass is begun only if all that is live surely fits.
  if (room < kSegletsPerSegment) {
    const uint64_t usable = room > Log::kLeastSurvivorSeglets ? room - 1 : 0;
    limits.first_live_bytes = usable * kSegletBytes;
  }
  const auto chosen = order.take(now(), limits);
  return chosen.empty() ? nullptr : combined_pass(chosen, room);
}

/// A pass with these segments; `room` in seglets. None, if it would free nothing.
std::unique_ptr<Cleaner::Worker::Pass> Cleaner::combined_pass(
    const std::vector<CleaningOrder::Chosen>& chosen, uint64_t room) {
  auto pass = std::make_unique<Worker::Pass>();
  pass->kind = CleaningKind::kCombined;
  std::vector<Segment*> victims;
  uint64_t memory_bytes = 0;
  for (const auto& [number, figures] : chosen) {
    const uint32_t live_bytes = parts_[number].live_bytes;
    take_off(number);
    Segment* segment = log_.closed_member(number);
    if (!may_be_victim(segment)) continue;
    if (victims.empty()) pass->first_live_bytes = live_bytes;
    victims.push_back(segment);
    pass->victims.push_back(number);
    pass->live_bytes += figures.live_bytes;
    memory_bytes += segment->memory_bytes();
  }
  const uint64_t live = pass->live_bytes;
  pass->victim_seglets = seglets_of(memory_bytes);
  pass->gain_seglets = pass->victim_seglets - std::min(seglets_of(live), pass->victim_seglets);
  const uint64_t survivors = live / kFilled + 1;
  const bool wins_disk = counts_disk_ && victims.size() > survivors;
  // In a small segment much may be dead, and still its survivor takes as many seglets.
  if (pass->gain_seglets <= freed_none_ && !wins_disk) {
    for (const auto& [number, figures] : chosen) look_at(number);
    return nullptr;
  }
  pass->survivor_seglets = std::min(room, survivors * kSegletsPerSegment);
  pass->work = make_(pass->kind, std::move(victims));
  return pass;
}

/// Decides what to do, and begins a pass if that is the decision.
Cleaner::Begun Cleaner::begin(MayBegin may) {
  const MutexGuard guard(mutex_);
  const uint64_t news = log_.segment_changes();
  Begun begun;
  // Not earlier: to read each segment as it closes costs writers memory bandwidth.
  const bool near = cleaning_is_near(options_.balancer, figures(log_.memory()));
  const Looked looked = near ? look_again() : Looked{};
  begun.looks_again = looked.more;
  // A changed segment may be so large that only a part of it was read (Log::want_look).
  const bool may_find = looked.changed > 0 || unlooked_ > 0;
  const Log::Memory memory = log_.memory();
  look_at_put_off(memory);
  note_disk(memory);
  CleaningDecision decision = decide(options_.balancer, figures(memory));
  const bool stuck = decision.none_worth_cleaning || decision.any_gain || failed_with(memory);
  if (stuck && may_find) {
    RC_SOMETIMES("cleaner.looks_at_all_for_dead_tombstones");
    look_in_turn(kInSearch, Look::kExact);
    decision = decide(options_.balancer, figures(memory));
    begun.looks_again = true;
  }
  const bool no_memory_again = failed_with(memory);
  // No memory will become free: no pass is in progress, and no segment that left still has memory.
  const bool nothing_to_come = in_progress_.empty() && memory.leaving_seglets == 0;
  const bool nothing_helps = nothing_to_come && (decision.exhausted || no_memory_again);
  log_.set_cleaning_helps(begun.looks_again || !nothing_helps, news);
  if (decision.kind != CleaningKind::kNone || in_progress_.empty()) state_.mode = decision.mode;
  state_.why = decision.why;
  // The memory that passes hold is needed now.
  begun.urgent = decision.urgent || !log_.has_segment_for(MemoryPurpose::kWrites);
  if (decision.kind == CleaningKind::kNone || no_memory_again) return begun;
  if (may == MayBegin::kWithoutCopies) {
    const bool is_short = memory_is_short(memory);
    if (is_short) begun.pass = choose_empty();
    if (is_short && begun.pass == nullptr && compacts()) begun.pass = choose_compaction(memory);
    if (begun.pass == nullptr) return begun;
  } else {
    begun.pass = choose(memory, decision);
  }
  if (begun.pass != nullptr) begun.pass->free_seglets = memory.free_seglets;
  if (begun.pass == nullptr) {
    begun.urgent = true;  // other passes have the memory for survivors, or no pass would free
                          // anything
    const bool all_known = !decision.any_gain || unlooked_ == 0;  // as in choose()
    if (all_known) free_at_failure_ = memory.free_seglets;
    begun.looks_again = begun.looks_again || may_find;
    if (nothing_to_come && !begun.looks_again) log_.set_cleaning_helps(false, news);
    return begun;
  }
  in_progress_.insert(begun.pass->victims.begin(), begun.pass->victims.end());
  if (begun.pass->kind == CleaningKind::kCombined) ++combined_passes_;
  gain_seglets_ += begun.pass->gain_seglets;
  survivor_seglets_ += begun.pass->survivor_seglets;
  return begun;
}

/// A pass freed nothing: do not compact this segment again until less of it is live.
void Cleaner::note_no_gain(uint32_t number) {
  RC_SOMETIMES("cleaner.compaction_gains_nothing");
  const Segment* segment = log_.closed_member(number);
  const auto figures = segment != nullptr ? judge_(*segment, Look::kQuick) : std::nullopt;
  if (!figures) return;
  parts_[number].no_gain_id = segment->id();
  parts_[number].no_gain_live_bytes = figures->live_bytes;
}

/// What its survivors took is free again soon: the pass would fail with that, too. A pass with fewer
/// victims may need less memory. If it had one victim, another may; so may the same, if entries of it
/// died since the pass began.
void Cleaner::note_failure(const Worker::Pass& pass) {
  RC_SOMETIMES("cleaner.pass_finds_no_memory");
  ++state_.failed_runs;
  if (pass.victims.size() > 1) {
    most_live_bytes_ = std::max<uint64_t>(pass.live_bytes / 2, 1);
    return;
  }
  const Segment* segment = log_.closed_member(pass.victims.front());
  if (!may_be_victim(segment)) {
    free_at_failure_ = pass.free_seglets;
    return;
  }
  Part& part = parts_[segment->number()];
  part.failed_id = segment->id();
  part.failed_live_bytes = pass.first_live_bytes;
  part.failed_free_seglets = pass.free_seglets;
}

void Cleaner::end(const Worker::Pass& pass, CleaningWork::Progress how) {
  const MutexGuard guard(mutex_);
  gain_seglets_ -= pass.gain_seglets;
  survivor_seglets_ -= pass.survivor_seglets;
  if (pass.kind == CleaningKind::kCombined) --combined_passes_;
  for (const uint32_t number : pass.victims) {
    in_progress_.erase(number);
    if (how == CleaningWork::Progress::kNoGain) note_no_gain(number);
  }
  if (how == CleaningWork::Progress::kFailed) note_failure(pass);
  // New figures for those that stay in the log.
  for (const uint32_t number : pass.victims) look_at(number);
  if (how == CleaningWork::Progress::kFailed) return;
  free_at_failure_ = kNoFailure;  // others may have the memory that it had reserved
  if (most_live_bytes_ != kNoLimit) most_live_bytes_ *= 2;
  if (most_live_bytes_ > uint64_t{options_.victims} * kSegmentBytes) most_live_bytes_ = kNoLimit;
  const CleaningWork::Result result = pass.work->result();
  state_.bytes_read += result.bytes_read;
  if (how == CleaningWork::Progress::kNoGain) return;
  RC_SOMETIMES("cleaner.pass_is_over");
  const bool combined = pass.kind == CleaningKind::kCombined;
  if (combined && result.seglets >= pass.victim_seglets) {
    RC_SOMETIMES("cleaner.combined_pass_frees_nothing");
    freed_none_ = std::max(freed_none_, pass.gain_seglets);
  } else if (combined) {
    freed_none_ = 0;
  }
  ++(combined ? state_.combined_runs : state_.compaction_runs);
  (combined ? state_.bytes_written : state_.bytes_compacted) += result.bytes_written;
}

// ---- a worker

bool Cleaner::Worker::step() {
  for (size_t i = 0; i < passes_.size(); ++i) {
    if (!step_one(*passes_[i])) continue;
    std::erase_if(passes_, [](const auto& pass) { return pass->work == nullptr; });
    return true;
  }
  // No pass could work: all of them wait.
  Begun begun;
  if (passes_.size() < cleaner_.options_.waiting) {
    begun = cleaner_.begin(MayBegin::kAny);
  } else {
    if (may_begin_more()) begun = cleaner_.begin(MayBegin::kWithoutCopies);
    begun.urgent = true;
  }
  if (begun.pass != nullptr) {
    passes_.push_back(std::move(begun.pass));
    return true;
  }
  bool committed = false;
  for (const auto& pass : passes_) {
    if (!begun.urgent || std::exchange(pass->committed, true)) continue;
    pass->work->commit_now();
    committed = true;
  }
  return committed || begun.looks_again;
}

/// Passes with survivors have taken all places, and may wait for backups: for ever, if there is no
/// frame for the survivors. Passes without survivors go on, because they need none.
bool Cleaner::Worker::may_begin_more() const {
  const size_t places = cleaner_.options_.waiting;
  const auto copies = std::ranges::count_if(passes_, [](const auto& pass) {
    return pass->kind == CleaningKind::kCombined && pass->live_bytes > 0;
  });
  return static_cast<size_t>(copies) >= places && passes_.size() < 2 * places;
}

/// True if the pass made progress. A pass without `work` is over.
bool Cleaner::Worker::step_one(Pass& pass) {
  const CleaningWork::Progress progress = pass.work->step();
  if (progress == CleaningWork::Progress::kWaits) return false;
  if (progress == CleaningWork::Progress::kMore) return true;
  cleaner_.end(pass, progress);
  pass.work.reset();
  return true;
}

}  // namespace ramcloud::log
