// Which segments to clean: those with the best ratio of benefit to cost
// [Ousterhout15 §4.3; Rumble14 §3].
//
// Figures of a segment change with each overwrite, on any thread, and a score changes with time
// alone. So nothing is kept sorted by score. Segments stand in classes of the same utilisation,
// 1/256 wide, and within a class by age: between two of one class the older is better, now and
// later. The best one is among the oldest of the classes, so a choice compares at most 256 of them,
// however many segments there are; to move a segment costs O(log n). The figures are those of the
// last set(): the Cleaner calls it when a segment's class may have changed (Log::take_moved).
// Within a class scores differ by less than a step of utilisation makes; that much a choice may be
// off the best.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace ramcloud::log {

/// By which formula segments are chosen; u: utilisation, the live part of a segment's memory.
enum class CleaningPolicy : uint8_t {
  kCostBenefit,  // (1 - u) * age / u, age: the average of the live objects [Rumble14 §3]
  kGreedy,       // 1 - u: least live bytes first
  kLfs,          // (1 - u) * age / (1 + u), age: of the youngest object, as in LFS [Rosenblum92]
};

/// What is known of a segment that could be cleaned.
struct CleaningFigures {
  uint32_t memory_bytes = 0;     // that it takes
  uint32_t live_bytes = 0;       // that would be copied
  uint32_t average_s = 0;        // average time stamp of its live objects, Unix time
  uint32_t youngest_s = 0;       // of its youngest object
  uint32_t tombstone_bytes = 0;  // of the live bytes
  bool operator==(const CleaningFigures&) const = default;

  /// 0 to 1.
  double utilisation() const;
  /// A pass has to win at least this share of a segment's memory, or it may use more than it frees:
  /// the last seglet of a survivor may be all but empty [Rumble14 §7].
  static constexpr double kLeastGain = 0.02;
  bool worth_cleaning() const { return utilisation() <= 1 - kLeastGain; }
};

/// Higher is better. Ages are counted from `now_s`, Unix time; a segment from the future is new.
double cleaning_score(CleaningPolicy policy, const CleaningFigures& figures, uint32_t now_s);

/// One thread at a time. Segments are named by a number below `capacity`.
class CleaningOrder {
 public:
  CleaningOrder(CleaningPolicy policy, uint32_t capacity);

  /// The segment can be chosen, with these figures; also when it was there already.
  void set(uint32_t segment, const CleaningFigures& figures);
  /// It cannot be chosen any more; nothing if it was not there.
  void erase(uint32_t segment);

  struct Chosen {
    uint32_t segment = 0;
    CleaningFigures figures;
  };
  /// The best one; none is worth cleaning: nothing.
  std::optional<Chosen> best(uint32_t now_s) const;

  /// What one pass may take. The first one chosen is within it, whatever its live bytes are.
  /// Memory and not segments are counted: a pass has to win more than the heads that commit it
  /// take, and those of passes before may be segments of a seglet each.
  struct Limits {
    uint64_t memory_bytes = 0;           // until they take so much
    uint64_t live_bytes = ~uint64_t{0};  // of all together: what survivors have room for
  };
  /// The best ones, which are erased here; those that do not fit the rest of the limit are left.
  std::vector<Chosen> take(uint32_t now_s, const Limits& limits);

  uint32_t segments() const { return segments_; }
  /// Of all segments here, whether or not they are worth cleaning.
  uint64_t live_bytes() const { return live_bytes_; }
  uint64_t memory_bytes() const { return memory_bytes_; }
  /// What cleaning all that are worth it would free.
  uint64_t gain_bytes() const { return gain_bytes_; }

 private:
  static constexpr uint32_t kClasses = 256;
  static constexpr uint16_t kNowhere = 0xffff;
  static constexpr uint16_t kFull = kClasses;  // not worth it: in no class
  struct Place {
    CleaningFigures figures;
    uint16_t in_class = kNowhere;
  };
  /// Within a class: by age, or whatever else the policy looks at.
  struct Key {
    uint32_t order = 0;
    uint32_t segment = 0;
    auto operator<=>(const Key&) const = default;
  };
  Key key_of(uint32_t segment) const;
  static uint16_t class_of(const CleaningFigures& figures);

  const CleaningPolicy policy_;
  std::vector<Place> places_;  // by segment
  std::array<std::set<Key>, kClasses> classes_;
  std::bitset<kClasses> has_some_;  // classes
  uint32_t segments_ = 0;
  uint64_t live_bytes_ = 0, memory_bytes_ = 0, gain_bytes_ = 0;
};

}  // namespace ramcloud::log
