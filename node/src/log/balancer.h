// When to clean, and how [Rumble14 §5.2]: decided from figures alone, with the reason in words.
#pragma once

#include <cstdint>
#include <string>

#include "log/cleaning_order.h"

namespace ramcloud::log {

struct BalancerOptions {
  /// Cleaning starts when less than this share of the memory is free.
  double start_below = 0.10;
  /// With compaction: combined cleaning comes to its help below this share.
  double combined_below = 0.02;
  /// The replicas of a log may take so many times the disk space of as many full segments as its
  /// memory has. Combined cleaning begins a tenth below it.
  double disk_expansion = 2.5;
  double disk_margin = 0.10;
  /// And no more segments than this, which does not grow with the memory; but least_expansion times
  /// the memory in any case.
  uint64_t disk_segments = ~uint64_t{0};
  double least_expansion = 1.2;
  /// Compaction leaves tombstones where they are: above this share of the live bytes it gives way
  /// to combined cleaning.
  double most_tombstones = 0.30;
  /// Segments can be compacted in memory alone (two-level cleaning).
  bool compaction = false;
};

/// Of a log, at one moment.
struct BalancerFigures {
  uint64_t total_seglets = 0;
  uint64_t free_seglets = 0;
  /// Of segments that left the log: free once their replicas are released and no reader is left.
  uint64_t leaving_seglets = 0;
  /// While the log shrinks: what is to be given back, which nobody may count as free.
  uint64_t excess_seglets = 0;
  /// What ordinary heads may not take: kept for cleaning, deletes, and emergency heads.
  uint64_t reserved_seglets = 0;
  /// Each of them has a whole frame on every backup: those in the log, and those that left it and
  /// are not released.
  uint64_t disk_segments = 0;
  /// The log cannot have more of them, however small they are.
  uint64_t most_segments = ~uint64_t{0};
  uint64_t live_bytes = 0;       // tombstones included
  uint64_t tombstone_bytes = 0;  // of them
  /// What combined cleaning would free, of all segments that are worth it: memory, and disk space. They
  /// are the same if no segment is ever compacted.
  uint64_t gain_bytes = 0;
  uint64_t disk_gain_bytes = 0;
  uint64_t compaction_gain_bytes = 0;  // of memory
};

enum class CleaningKind : uint8_t { kNone, kCompaction, kCombined };
/// As it is shown to people.
enum class CleanerMode : uint8_t { kIdle, kCompacting, kCombined, kEmergency };

struct CleaningDecision {
  CleaningKind kind = CleaningKind::kNone;
  CleanerMode mode = CleanerMode::kIdle;
  /// Memory is short and nothing can be freed: writes are told OUT_OF_MEMORY instead of RETRY.
  bool exhausted = false;
  /// Memory is short, and no segment is known to be worth it.
  bool nothing_to_win = false;
  /// Memory is so short that a pass should not wait for others before its segments are used again.
  bool urgent = false;
  std::string why;  // a sentence
};

/// Pure: the same figures give the same decision.
CleaningDecision decide(const BalancerOptions& options, const BalancerFigures& figures);

/// Free memory below which cleaning starts: a tenth of all, and in a small log at least what heads
/// need beside the reserves. In seglets.
uint64_t cleaning_starts_below(const BalancerOptions& options, const BalancerFigures& figures);

}  // namespace ramcloud::log
