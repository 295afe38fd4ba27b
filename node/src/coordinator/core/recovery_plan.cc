#include "coordinator/core/recovery_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

namespace ramcloud {
namespace {

/// The number of hashes minus one, because the number itself may be 2^64.
uint64_t width(const LostRange& range) {
  return range.end_hash - range.start_hash;
}

struct Piece {
  LostRange range;
  double bytes = 0;
};

/// The weight of a log: by bytes or by entries, whichever fills a part first.
double weight_of(const PlanInput& input, const PlanLimits& limits) {
  const double by_entries = static_cast<double>(input.entries) *
                            static_cast<double>(limits.part_bytes) /
                            static_cast<double>(limits.part_entries);
  return std::max(static_cast<double>(input.bytes), by_entries);
}

std::vector<Piece> estimate(const PlanInput& input, double weight) {
  double hashes = 0;
  for (const LostRange& range : input.tablets) hashes += static_cast<double>(width(range)) + 1;
  std::vector<Piece> pieces;
  for (const LostRange& range : input.tablets) {
    const double share = (static_cast<double>(width(range)) + 1) / hashes;
    pieces.push_back({range, weight * share * weight_in(input.weights, range.table_id)});
  }
  return pieces;
}

/// The number of pieces of about `target` into which a tablet is divided.
uint64_t pieces_of(const Piece& tablet, double target, uint64_t smallest) {
  const double most = std::floor(tablet.bytes / static_cast<double>(smallest));
  const double wanted = std::min(std::ceil(tablet.bytes / target), most);
  if (wanted <= 1) return 1;
  const uint64_t hashes = width(tablet.range);
  const auto count = static_cast<uint64_t>(wanted);
  return hashes < count ? hashes + 1 : count;
}

/// The start hashes of the pieces of a range, except the first.
std::vector<uint64_t> cuts(const LostRange& range, uint64_t pieces) {
  std::vector<uint64_t> at;
  const uint64_t step = width(range) / pieces;
  const uint64_t rest = width(range) % pieces + 1;  // hashes beyond `step` a piece
  uint64_t begin = range.start_hash;
  for (uint64_t i = 0; i + 1 < pieces; ++i) {
    begin += step + (i < rest ? 1 : 0);
    at.push_back(begin);
  }
  return at;
}

/// Cuts tablets into pieces, as long as parts have room for them.
class Splitting {
 public:
  Splitting(const PlanInput& input, const PlanLimits& limits, double weight, RecoveryPlan& plan)
      : plan_(plan), splits_(limits.splits), for_speed_(limits.splits_for_speed) {
    const uint64_t most =
        std::ranges::max(input.masters, {}, &RecoveryMaster::most_bytes).most_bytes;
    smallest_ = std::min(limits.piece_bytes, std::max(most, limits.least_piece_bytes));
    // No server can take more at once.
    needed_ = static_cast<double>(std::min(limits.part_bytes, std::max(most, smallest_)));
    fast_ = needed_;
    const bool few = input.tablets.size() < input.masters.size();
    if (few && input.bytes > limits.split_above) {
      fast_ = std::min(needed_, weight / static_cast<double>(input.masters.size()));
    }
    for (const RecoveryMaster& master : input.masters) {
      room_ += static_cast<double>(std::min(limits.part_bytes, master.most_bytes));
    }
  }
  void add(const Piece& tablet) {
    const uint64_t count = pieces_of(tablet);
    const double bytes = tablet.bytes / static_cast<double>(count);
    uint64_t begin = tablet.range.start_hash;
    for (const uint64_t at : cuts(tablet.range, count)) {
      if (room_ <= 0) break;
      cut(tablet.range.table_id, at);
      take({{tablet.range.table_id, begin, at - 1}, bytes});
      begin = at;
    }
    if (room_ <= 0) {
      ++plan_.left_over;
    } else {
      take({{tablet.range.table_id, begin, tablet.range.end_hash}, bytes});
    }
  }
  std::vector<Piece> take_pieces() { return std::move(pieces_); }

 private:
  /// Splits that only make a recovery faster leave some of all tablets to those that are needed, and
  /// to new tables.
  uint64_t pieces_of(const Piece& tablet) const {
    const uint64_t needed =
        std::min<uint64_t>(ramcloud::pieces_of(tablet, needed_, smallest_), splits_ + 1);
    const uint64_t fast = std::min<uint64_t>(ramcloud::pieces_of(tablet, fast_, smallest_),
                                             std::min(splits_, for_speed_) + 1);
    return std::max(needed, fast);
  }
  void cut(uint64_t table_id, uint64_t at) {
    plan_.splits.push_back({table_id, at});
    --splits_;
    for_speed_ -= std::min<size_t>(for_speed_, 1);
  }
  void take(const Piece& piece) {
    pieces_.push_back(piece);
    room_ -= piece.bytes;
  }
  RecoveryPlan& plan_;
  size_t splits_, for_speed_;  // that are left
  uint64_t smallest_ = 0;
  double needed_ = 0, fast_ = 0;  // bytes of a piece
  double room_ = 0;               // of all parts, for more pieces
  std::vector<Piece> pieces_;
};

/// Leaves the part in front only about `target` bytes; the rest of it is held back. A range with more
/// than twice that is split.
void make_first_part(double target, const PlanLimits& limits, RecoveryPlan& plan) {
  PlannedPart& part = plan.parts.front();
  double hashes = 0;
  for (const LostRange& range : part.ranges) hashes += static_cast<double>(width(range)) + 1;
  const double a_hash = static_cast<double>(part.bytes) / hashes;
  double bytes = 0;
  auto range = part.ranges.begin();
  for (; range != part.ranges.end() && bytes < target; ++range) {
    const double own = a_hash * (static_cast<double>(width(*range)) + 1);
    // A range with more than that has more hashes than are wanted.
    const bool is_large = bytes + own > 2 * target;
    const double wanted = is_large ? (target - bytes) / a_hash : 0;
    if (wanted >= 1 && plan.splits.size() < limits.splits) {
      range->end_hash = range->start_hash + (static_cast<uint64_t>(wanted) - 1);
      plan.splits.push_back({range->table_id, range->end_hash + 1});
      ++plan.held_back;
    }
    bytes += a_hash * (static_cast<double>(width(*range)) + 1);
  }
  plan.held_back += static_cast<size_t>(part.ranges.end() - range);
  part.ranges.erase(range, part.ranges.end());
  part.bytes = static_cast<uint64_t>(bytes);
  part.first = plan.held_back > 0;
}

/// Distributes the pieces: the largest first, each to the server that is filled least by it.
class Sharing {
 public:
  Sharing(const PlanInput& input, const PlanLimits& limits) : limits_(limits) {
    for (const RecoveryMaster& master : input.masters) {
      Share& share = shares_.emplace_back();
      share.part.server_id = master.server_id;
      share.free = std::max<double>(1, static_cast<double>(master.free_bytes));
      share.most = static_cast<double>(std::min(limits.part_bytes, master.most_bytes));
    }
  }
  bool add(const Piece& piece) {
    Share* best = nullptr;
    for (Share& share : shares_) {
      if (!fits(share, piece)) continue;
      if (best == nullptr || filled(share, piece) < filled(*best, piece)) best = &share;
    }
    // A piece that fits nowhere becomes a part of its own.
    if (best == nullptr) best = empty_share();
    if (best == nullptr) return false;
    best->part.ranges.push_back(piece.range);
    best->bytes += piece.bytes;
    return true;
  }
  std::vector<PlannedPart> take() {
    std::vector<PlannedPart> parts;
    for (Share& share : shares_) {
      if (share.part.ranges.empty()) continue;
      std::ranges::sort(share.part.ranges, {}, [](const LostRange& range) {
        return std::tuple(range.table_id, range.start_hash);
      });
      share.part.bytes = static_cast<uint64_t>(share.bytes);
      parts.push_back(std::move(share.part));
    }
    return parts;
  }

 private:
  struct Share {
    PlannedPart part;
    double free = 1, most = 0, bytes = 0;
  };
  bool fits(const Share& share, const Piece& piece) const {
    if (share.part.ranges.size() >= limits_.part_tablets) return false;
    return std::floor(share.bytes + piece.bytes) <= share.most;
  }
  /// The empty share that may take the most.
  Share* empty_share() {
    Share* best = nullptr;
    for (Share& share : shares_) {
      if (share.part.ranges.empty() && (best == nullptr || share.most > best->most)) best = &share;
    }
    return best;
  }
  static double filled(const Share& share, const Piece& piece) {
    return (share.bytes + piece.bytes) / share.free;
  }
  const PlanLimits& limits_;
  std::vector<Share> shares_;
};

}  // namespace

double weight_in(const std::map<uint64_t, double>& weights, uint64_t table_id) {
  const auto found = weights.find(table_id);
  return found == weights.end() ? 1 : found->second;
}

void learn_weights(std::map<uint64_t, double>& weights, const PlannedPart& part, uint64_t bytes) {
  if (bytes <= part.bytes) return;
  const double more = static_cast<double>(bytes) / std::max(static_cast<double>(part.bytes), 1.0);
  std::set<uint64_t> tables;
  for (const LostRange& range : part.ranges) tables.insert(range.table_id);
  for (const uint64_t table : tables) weights[table] = weight_in(weights, table) * more;
}

RecoveryPlan plan_recovery(const PlanInput& input, const PlanLimits& limits) {
  RecoveryPlan plan;
  if (input.masters.empty()) {
    plan.left_over = input.tablets.size();
    return plan;
  }
  // Without a log all tablets have the same weight.
  const double weight = std::max(weight_of(input, limits), 1.0);
  Splitting splitting(input, limits, weight, plan);
  for (const Piece& tablet : estimate(input, weight)) splitting.add(tablet);
  std::vector<Piece> pieces = splitting.take_pieces();
  std::ranges::sort(pieces, {}, [](const Piece& piece) {
    return std::tuple(-piece.bytes, piece.range.table_id, piece.range.start_hash);
  });
  Sharing sharing(input, limits);
  for (const Piece& piece : pieces) plan.left_over += sharing.add(piece) ? 0 : 1;
  plan.parts = sharing.take();
  const bool is_long = input.bytes > limits.split_above;
  if (input.first_part && is_long && plan.parts.size() > 1) {
    make_first_part(weight / static_cast<double>(limits.first_part), limits, plan);
  }
  return plan;
}

}  // namespace ramcloud
