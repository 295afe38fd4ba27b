// Which segments to clean: those with the best ratio of benefit to cost
// [Ousterhout15 §4.3; Rumble14 §3]. docs/design/log.md#which-segments compares the formulas.
//
// Overwrites change the figures of a segment on any thread, and time changes its score. So nothing
// is kept sorted by score. Segments are in classes of similar utilisation (1/256 each), sorted by
// age within a class: of two segments in one class the older has the better score, now and later.
// The best one is among the oldest of the classes, so a choice compares at most 256 segments;
// moving a segment costs O(log n). The figures are those of the last set(): the Cleaner calls it
// when a segment's class may have changed (Log::take_changed). The chosen segment may be worse than
// the best by at most one step of utilisation.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace ramcloud::log {

/// The formula of the score; u: utilisation, the live part of a segment's memory.
enum class CleaningPolicy : uint8_t {
  kCostBenefit,  // (1 - u) * age / u, age: segments that were written since
  kObjectAge,    // (1 - u) * age / u, age: the average of the live objects [Rumble14 §3]
  kGreedy,       // 1 - u: least live bytes first
  kLfs,          // (1 - u) * age / (1 + u), age: of the youngest object, as in LFS [Rosenblum92]
};

/// The figures of a segment that could be cleaned.
struct CleaningFigures {
  uint32_t memory_bytes = 0;     // memory that the segment takes
  uint32_t live_bytes = 0;       // that would be copied
  uint64_t segment_id = 0;       // ids rise: it tells when the segment was written
  uint32_t average_s = 0;        // average time stamp of its live objects, Unix time
  uint32_t youngest_s = 0;       // of its youngest object
  uint32_t tombstone_bytes = 0;  // part of live_bytes
  bool operator==(const CleaningFigures&) const = default;

  /// 0 to 1.
  double utilisation() const;
  /// A pass must free at least this share of a segment's memory. Otherwise it may take more than it
  /// frees, because the last seglet of a survivor may be nearly empty [Rumble14 §7].
  static constexpr double kLeastGain = 0.02;
  bool worth_cleaning() const { return gains(kLeastGain); }
  /// Whether cleaning would free this share of the segment's memory.
  bool gains(double share) const { return utilisation() <= 1 - share; }
};

/// What ages are relative to.
struct CleaningTime {
  uint64_t segment_id = 0;  // of the head
  uint32_t unix_s = 0;
};

/// Higher is better. What is from the future has age 0.
double cleaning_score(CleaningPolicy policy, const CleaningFigures& figures,
                      const CleaningTime& now);

/// One thread at a time. Segments are named by a number below `capacity`.
class CleaningOrder {
 public:
  /// Segments whose cleaning would free less than `least_gain` of their memory are never chosen.
  CleaningOrder(CleaningPolicy policy, uint32_t capacity,
                double least_gain = CleaningFigures::kLeastGain);

  /// Adds the segment with these figures, or replaces its figures.
  void set(uint32_t segment, const CleaningFigures& figures);
  /// Removes the segment; does nothing if it is not there.
  void erase(uint32_t segment);

  struct Chosen {
    uint32_t segment = 0;
    CleaningFigures figures;
  };
  /// The best segment; none if no segment is worth cleaning.
  std::optional<Chosen> best(const CleaningTime& now) const;

  /// What one pass may take. The first segment is taken whatever the limit of all says. That limit
  /// is memory rather than a number of segments: a pass must free more than the heads that commit
  /// it take, and segments may be as small as one seglet.
  struct Limits {
    uint64_t memory_bytes = 0;                 // segments are taken until they have so much memory
    uint64_t live_bytes = ~uint64_t{0};        // of all of them together: the room in survivors
    uint64_t first_live_bytes = ~uint64_t{0};  // of the first one
    size_t segments = ~size_t{0};
  };
  /// Removes and returns the best segments. Those that exceed the rest of the limit stay.
  std::vector<Chosen> take(const CleaningTime& now, const Limits& limits);

  uint32_t segments() const { return segments_; }
  /// Sum over all segments here, whether or not they are worth cleaning.
  uint64_t live_bytes() const { return live_bytes_; }
  uint64_t memory_bytes() const { return memory_bytes_; }
  /// What cleaning of all segments worth cleaning would free.
  uint64_t gain_bytes() const { return gain_bytes_; }

 private:
  static constexpr uint32_t kClasses = 256;
  static constexpr uint16_t kNowhere = 0xffff;
  static constexpr uint16_t kFull = kClasses;  // never chosen: in no class
  struct Place {
    CleaningFigures figures;
    uint16_t in_class = kNowhere;
  };
  /// The order within a class: by age, or by the other figure that the policy uses.
  struct Key {
    uint64_t order = 0;
    uint32_t segment = 0;
    auto operator<=>(const Key&) const = default;
  };
  Key key_of(uint32_t segment) const;
  uint16_t class_of(const CleaningFigures& figures) const;

  const CleaningPolicy policy_;
  const double least_gain_;
  std::vector<Place> places_;  // by segment
  std::array<std::set<Key>, kClasses> classes_;
  std::bitset<kClasses> has_some_;  // classes
  uint32_t segments_ = 0;
  uint64_t live_bytes_ = 0, memory_bytes_ = 0, gain_bytes_ = 0;
};

}  // namespace ramcloud::log
