// When to clean, and how [Rumble14 §5.2]: a decision from figures alone, with its reason as text.
#pragma once

#include <cstdint>
#include <string>

#include "log/cleaning_order.h"

namespace ramcloud::log {

struct BalancerOptions {
  /// Cleaning starts when less than this share of the memory is free.
  double start_below = 0.10;
  /// With compaction: combined cleaning starts, too, below this share.
  double combined_below = 0.02;
  /// The segments on disk may be this many times the full segments that fit into memory. Combined
  /// cleaning begins a tenth below that.
  double disk_expansion = 2.5;
  double disk_margin = 0.10;
  /// A second limit of segments on disk, which does not grow with the memory. At least
  /// least_expansion times the memory is allowed in any case.
  uint64_t disk_segments = ~uint64_t{0};
  double least_expansion = 1.2;
  /// Compaction removes no tombstones. When they are more than this share of the live bytes,
  /// combined cleaning runs instead.
  double most_tombstones = 0.30;
  /// Whether segments can be compacted in memory alone (two-level cleaning).
  bool compaction = false;
};

/// The figures of a log at one moment.
struct BalancerFigures {
  uint64_t total_seglets = 0;
  uint64_t free_seglets = 0;
  /// Of segments that left the log: free once their replicas are released and no reader is left.
  uint64_t leaving_seglets = 0;
  /// While the log shrinks: seglets to give back to the system, which do not count as free.
  uint64_t excess_seglets = 0;
  /// Memory that ordinary heads may not take: reserved for cleaning, deletes, and emergency heads.
  uint64_t reserved_seglets = 0;
  /// Segments in the log, and segments that left it but are not released. Each has a whole frame on
  /// every backup of it.
  uint64_t disk_segments = 0;
  /// The log cannot have more segments than this, however small they are.
  uint64_t most_segments = ~uint64_t{0};
  uint64_t live_bytes = 0;       // tombstones included
  uint64_t tombstone_bytes = 0;  // part of live_bytes
  /// What combined cleaning of all segments worth cleaning would free, in memory and on disk. Both
  /// are the same if no segment is ever compacted.
  uint64_t gain_bytes = 0;
  uint64_t disk_gain_bytes = 0;
  uint64_t compaction_gain_bytes = 0;  // of memory
  /// What combined cleaning of all segments would free in memory, in whole seglets of each, also of
  /// segments that are not worth it.
  uint64_t seglet_gain = 0;
};

enum class CleaningKind : uint8_t { kNone, kCompaction, kCombined };
/// As shown in statistics.
enum class CleanerMode : uint8_t { kIdle, kCompacting, kCombined, kEmergency };

struct CleaningDecision {
  CleaningKind kind = CleaningKind::kNone;
  CleanerMode mode = CleanerMode::kIdle;
  /// Memory is short and another pass would free nothing: once none is in progress, writes are answered
  /// OUT_OF_MEMORY instead of RETRY.
  bool exhausted = false;
  /// Memory is short, and no segment is known to be worth cleaning.
  bool none_worth_cleaning = false;
  /// If nothing better frees memory, clean any segment that wins a seglet: no head can be opened
  /// otherwise.
  bool any_gain = false;
  /// Memory is so short that a pass should commit at once, without waiting for others.
  bool urgent = false;
  std::string why;  // a sentence
};

/// Pure: the same figures give the same decision.
CleaningDecision decide(const BalancerOptions& options, const BalancerFigures& figures);

/// Whether cleaning may begin soon: less than twice the memory is free that cleaning starts below,
/// segments on disk come near their limit, or the log shrinks. Until then the cleaner need not look
/// at segments.
bool cleaning_is_near(const BalancerOptions& options, const BalancerFigures& figures);

/// Whether segments on disk come near their limit. Once they did, until they are twice as far from it.
bool disk_is_short(const BalancerOptions& options, const BalancerFigures& figures, bool was_short);

/// Whether segments on disk have reached their limit.
bool disk_is_full(const BalancerOptions& options, const BalancerFigures& figures);

/// Free memory below which cleaning starts: a tenth of all memory; in a small log at least what
/// heads need in addition to the reserves. In seglets.
uint64_t cleaning_starts_below(const BalancerOptions& options, const BalancerFigures& figures);

}  // namespace ramcloud::log
