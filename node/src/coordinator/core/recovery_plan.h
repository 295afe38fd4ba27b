// Distributes the tablets of a dead master among recovery masters: a pure function
// (docs/design/recovery.md#recovery-of-one-server; [Ousterhout15 §7.4]). The size of a tablet is
// not known before the log is read, so its share of the log is estimated by its share of hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ramcloud {

/// A tablet that must be recovered, or a piece of one.
struct LostRange {
  uint64_t table_id = 0;
  uint64_t start_hash = 0;  // inclusive
  uint64_t end_hash = 0;    // inclusive
  bool operator==(const LostRange&) const = default;
};

struct RecoveryMaster {
  uint64_t server_id = 0;
  uint64_t free_bytes = 0;  // free memory in its log
  /// The most that it takes, because it had no memory for more before.
  uint64_t most_bytes = ~uint64_t{0};
};

/// What a plan is made from: the ranges to recover, the part of the log that they have, and the
/// servers that can take them.
struct PlanInput {
  std::vector<LostRange> tablets;
  uint64_t bytes = 0;    // estimated
  uint64_t entries = 0;  // estimated
  std::vector<RecoveryMaster> masters;
  /// By table: how many times the average a hash has, where that turned out to be more.
  std::map<uint64_t, double> weights;
  /// One part shall be small, so that the first keys are served early.
  bool first_part = false;
};

struct PlanLimits {
  // The most that one part may have.
  uint64_t part_bytes = 500'000'000;
  uint64_t part_entries = 2'000'000;
  size_t part_tablets = 4096;
  /// Tablets of a shorter log are not split.
  uint64_t split_above = 64u << 20;
  /// No tablet is split into smaller pieces.
  uint64_t piece_bytes = 16u << 20;
  /// If no master has memory for that, pieces may be this small.
  uint64_t least_piece_bytes = 1u << 20;
  /// The number of tablets may rise by this where a part may not have a whole one, and by so much to
  /// give more masters a part.
  size_t splits = 1024;
  size_t splits_for_speed = 1024;
  /// A first part has one in so many bytes of the log.
  uint64_t first_part = 32;
};

/// The part of one recovery master.
struct PlannedPart {
  uint64_t server_id = 0;
  std::vector<LostRange> ranges;  // by table and hash
  uint64_t bytes = 0;             // estimated
  bool first = false;             // the first part, which is small
};

struct RecoveryPlan {
  struct Split {
    uint64_t table_id = 0;
    uint64_t at = 0;  // a tablet begins there
  };
  std::vector<Split> splits;
  std::vector<PlannedPart> parts;  // one for each server
  size_t left_over = 0;            // ranges left for a later attempt, because the parts are full
                                   // (not split before their turn)
  size_t held_back = 0;            // ranges left until the first part has been fetched
};

/// Of this table in `weights`.
double weight_in(const std::map<uint64_t, double>& weights, uint64_t table_id);
/// A part turned out to have so many bytes: raises the weights of its tables if that is more than
/// was estimated.
void learn_weights(std::map<uint64_t, double>& weights, const PlannedPart& part, uint64_t bytes);

/// At least one range is in a part if there is a master. A range that exceeds the limits and cannot
/// be split any more is alone in its part. Logs whose tablets are not split, and single masters, have
/// no first part.
RecoveryPlan plan_recovery(const PlanInput& input, const PlanLimits& limits);

}  // namespace ramcloud
