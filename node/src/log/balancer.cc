#include "log/balancer.h"

#include <fmt/core.h>

#include <algorithm>

#include "log/format.h"

namespace ramcloud::log {
namespace {

/// Heads that writers need next: the one being filled, and one opened ahead.
constexpr uint64_t kHeadsAhead = 2;
/// The cleaner looks at segments when limits are so many times as far as where cleaning starts.
constexpr int kEarlier = 2;

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// The limit of segments on disk. There is one without replication, too: a quarter of the possible
/// segments is kept for heads and for copies.
uint64_t disk_limit(const BalancerOptions& options, const BalancerFigures& f) {
  const auto memory = static_cast<double>(f.total_seglets / kSegletsPerSegment);
  const double share =
      std::max(static_cast<double>(options.disk_segments), options.least_expansion * memory);
  const double on_disk = std::min(options.disk_expansion * memory, share);
  return std::min(static_cast<uint64_t>(on_disk), f.most_segments / 4 * 3);
}

/// Free memory, as soon as segments that left the log are released.
uint64_t free_soon(const BalancerFigures& f) {
  const uint64_t free = f.free_seglets + f.leaving_seglets;
  return free - std::min(f.excess_seglets, free);
}

/// Whether segments on disk are within this share of their limit.
bool is_near_on_disk(const BalancerOptions& options, const BalancerFigures& f, double margin) {
  return static_cast<double>(f.disk_segments) >=
         (1 - margin) * static_cast<double>(disk_limit(options, f));
}

CleaningDecision combined(CleanerMode mode, bool urgent, std::string why) {
  CleaningDecision decision;
  decision.kind = CleaningKind::kCombined;
  decision.mode = mode;
  decision.urgent = urgent;
  decision.why = std::move(why);
  return decision;
}

CleaningDecision idle(bool exhausted, bool none_worth_cleaning, std::string why) {
  CleaningDecision decision;
  decision.exhausted = exhausted;
  decision.none_worth_cleaning = none_worth_cleaning;
  decision.why = std::move(why);
  return decision;
}

/// Whether no head for writers can be opened, not even when what leaves is free, and something is dead.
/// It need not be enough for a head: tombstones die with the segments that they name, and who is
/// answered OUT_OF_MEMORY must be sure that all was tried.
bool needs_any_gain(const BalancerFigures& f) {
  return free_soon(f) < f.reserved_seglets + kSegletsPerSegment && f.seglet_gain > 0;
}

CleaningDecision decide_by_gain(const BalancerOptions& options, const BalancerFigures& f) {
  const double free = share(f.free_seglets, f.total_seglets);
  const uint64_t start = cleaning_starts_below(options, f);
  const bool disk_is_near = is_near_on_disk(options, f, options.disk_margin);
  // While the log shrinks, the memory that passes hold is needed now, and the head that they wait
  // for may never be opened.
  const bool shrinks = f.excess_seglets > 0;
  if (free_soon(f) >= start && !disk_is_near) {
    CleaningDecision enough = idle(false, false,
                                   fmt::format("{} of the memory is free; cleaning starts below {}",
                                               percent(share(free_soon(f), f.total_seglets)),
                                               percent(share(start, f.total_seglets))));
    enough.urgent = shrinks;
    return enough;
  }
  // An ordinary head cannot be opened: writers wait, or will at the end of this head.
  const bool no_head = f.free_seglets < f.reserved_seglets + kSegletsPerSegment;
  if (disk_is_near && f.disk_gain_bytes > 0) {
    return combined(CleanerMode::kCombined, true,
                    fmt::format("{} segments on disk come near the limit of {}", f.disk_segments,
                                disk_limit(options, f)));
  }
  if (f.gain_bytes == 0 && f.compaction_gain_bytes == 0) {
    // A tombstone is needed as long as the segment that it names exists, and compaction leaves that
    // segment on disk.
    const double kept = share(f.tombstone_bytes, f.total_seglets * kSegletBytes);
    if (options.compaction && f.disk_gain_bytes > 0 && kept >= CleaningFigures::kLeastGain) {
      return combined(no_head ? CleanerMode::kEmergency : CleanerMode::kCombined, true,
                      fmt::format("{} of the memory is free, and {} has tombstones that wait for "
                                  "segments on disk",
                                  percent(free), percent(kept)));
    }
    if (needs_any_gain(f)) {
      CleaningDecision little =
          combined(CleanerMode::kEmergency, true,
                   fmt::format("{} of the memory is free, no segment has {} of dead bytes to win, "
                               "and many have a little",
                               percent(free), percent(CleaningFigures::kLeastGain)));
      little.none_worth_cleaning = true;
      return little;
    }
    // Not while segments that left the log will soon be free.
    const bool exhausted = no_head && f.leaving_seglets == 0;
    return idle(exhausted, true,
                fmt::format("{} of the memory is free, and no segment has {} of dead "
                            "bytes to win",
                            percent(free), percent(CleaningFigures::kLeastGain)));
  }
  if (no_head && f.gain_bytes > 0 &&
      !(options.compaction && f.compaction_gain_bytes > 0 && free >= options.combined_below)) {
    return combined(
        CleanerMode::kEmergency, true,
        fmt::format("{} of the memory is free: no new head can be opened", percent(free)));
  }
  const bool compacts = options.compaction && f.compaction_gain_bytes > 0;
  const double tombstones = share(f.tombstone_bytes, f.live_bytes);
  if (compacts && f.disk_gain_bytes > 0 && tombstones > options.most_tombstones) {
    return combined(CleanerMode::kCombined, no_head,
                    fmt::format("{} of the live bytes are tombstones, which compaction keeps",
                                percent(tombstones)));
  }
  const bool dwindles = free < options.combined_below && f.gain_bytes > 0;
  if (compacts && !dwindles) {
    CleaningDecision compaction =
        combined(CleanerMode::kCompacting, no_head || shrinks,
                 fmt::format("{} of the memory is free, less than {}", percent(free),
                             percent(share(start, f.total_seglets))));
    compaction.kind = CleaningKind::kCompaction;
    return compaction;
  }
  const double limit = compacts ? options.combined_below : share(start, f.total_seglets);
  return combined(
      CleanerMode::kCombined, dwindles || shrinks,
      fmt::format("{} of the memory is free, less than {}", percent(free), percent(limit)));
}

}  // namespace

uint64_t cleaning_starts_below(const BalancerOptions& options, const BalancerFigures& f) {
  const auto tenth =
      static_cast<uint64_t>(options.start_below * static_cast<double>(f.total_seglets));
  return std::max(tenth, f.reserved_seglets + kHeadsAhead * kSegletsPerSegment);
}

bool disk_is_short(const BalancerOptions& options, const BalancerFigures& f, bool was_short) {
  return is_near_on_disk(options, f, (was_short ? kEarlier : 1) * options.disk_margin);
}

bool disk_is_full(const BalancerOptions& options, const BalancerFigures& f) {
  return is_near_on_disk(options, f, 0);
}

bool cleaning_is_near(const BalancerOptions& options, const BalancerFigures& f) {
  return free_soon(f) < kEarlier * cleaning_starts_below(options, f) || f.excess_seglets > 0 ||
         is_near_on_disk(options, f, kEarlier * options.disk_margin);
}

CleaningDecision decide(const BalancerOptions& options, const BalancerFigures& f) {
  CleaningDecision decision = decide_by_gain(options, f);
  decision.any_gain = needs_any_gain(f);
  return decision;
}

}  // namespace ramcloud::log
