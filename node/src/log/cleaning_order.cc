#include "log/cleaning_order.h"

#include <algorithm>

namespace ramcloud::log {

double CleaningFigures::utilisation() const {
  if (memory_bytes == 0) return 1;
  return std::min(static_cast<double>(live_bytes) / memory_bytes, 1.0);
}

double cleaning_score(CleaningPolicy policy, const CleaningFigures& figures,
                      const CleaningTime& now) {
  // The least cost, and the least age, are not zero. Otherwise all empty segments would have the
  // same score, and all fresh ones.
  constexpr double kLeastCost = 1.0 / 512;
  const auto age = [](uint64_t then, uint64_t since) {
    return since > then ? 1 + static_cast<double>(since - then) : 1.0;
  };
  const double u = figures.utilisation();
  switch (policy) {
    case CleaningPolicy::kGreedy:
      return 1 - u;
    case CleaningPolicy::kLfs:
      return (1 - u) * age(figures.youngest_s, now.unix_s) / (1 + u);
    case CleaningPolicy::kObjectAge:
      return (1 - u) * age(figures.average_s, now.unix_s) / std::max(u, kLeastCost);
    case CleaningPolicy::kCostBenefit:
      break;
  }
  return (1 - u) * age(figures.segment_id, now.segment_id) / std::max(u, kLeastCost);
}

CleaningOrder::CleaningOrder(CleaningPolicy policy, uint32_t capacity, double least_gain)
    : policy_(policy), least_gain_(least_gain), places_(capacity) {}

uint16_t CleaningOrder::class_of(const CleaningFigures& figures) const {
  if (!figures.gains(least_gain_)) return kFull;
  return static_cast<uint16_t>(figures.utilisation() * kClasses);
}

CleaningOrder::Key CleaningOrder::key_of(uint32_t segment) const {
  const CleaningFigures& figures = places_[segment].figures;
  switch (policy_) {
    case CleaningPolicy::kGreedy:
      return {figures.live_bytes, segment};
    case CleaningPolicy::kLfs:
      return {figures.youngest_s, segment};
    case CleaningPolicy::kObjectAge:
      return {figures.average_s, segment};
    case CleaningPolicy::kCostBenefit:
      break;
  }
  return {figures.segment_id, segment};
}

void CleaningOrder::set(uint32_t segment, const CleaningFigures& figures) {
  Place& place = places_[segment];
  if (place.in_class != kNowhere && place.figures == figures) return;
  erase(segment);
  place.figures = figures;
  place.in_class = class_of(figures);
  ++segments_;
  live_bytes_ += figures.live_bytes;
  memory_bytes_ += figures.memory_bytes;
  if (place.in_class == kFull) return;
  gain_bytes_ += figures.memory_bytes - figures.live_bytes;
  classes_[place.in_class].insert(key_of(segment));
  has_some_.set(place.in_class);
}

void CleaningOrder::erase(uint32_t segment) {
  Place& place = places_[segment];
  if (place.in_class == kNowhere) return;
  --segments_;
  live_bytes_ -= place.figures.live_bytes;
  memory_bytes_ -= place.figures.memory_bytes;
  if (place.in_class != kFull) {
    gain_bytes_ -= place.figures.memory_bytes - place.figures.live_bytes;
    auto& members = classes_[place.in_class];
    members.erase(key_of(segment));
    has_some_.set(place.in_class, !members.empty());
  }
  place.in_class = kNowhere;
}

std::optional<CleaningOrder::Chosen> CleaningOrder::best(const CleaningTime& now) const {
  std::optional<Chosen> best;
  double highest = 0;
  for (uint32_t i = 0; i < kClasses; ++i) {
    if (!has_some_[i]) continue;
    const uint32_t segment = classes_[i].begin()->segment;
    const CleaningFigures& figures = places_[segment].figures;
    const double score = cleaning_score(policy_, figures, now);
    if (best && score <= highest) continue;
    highest = score;
    best = {segment, figures};
  }
  return best;
}

std::vector<CleaningOrder::Chosen> CleaningOrder::take(const CleaningTime& now,
                                                       const Limits& limits) {
  std::vector<Chosen> taken;
  uint64_t live_bytes = 0, memory_bytes = 0;
  while (memory_bytes < limits.memory_bytes && taken.size() < limits.segments) {
    const auto next = best(now);
    if (!next) break;
    live_bytes += next->figures.live_bytes;
    if (live_bytes > (taken.empty() ? limits.first_live_bytes : limits.live_bytes)) break;
    memory_bytes += next->figures.memory_bytes;
    taken.push_back(*next);
    erase(next->segment);
  }
  return taken;
}

}  // namespace ramcloud::log
