#include "store/cleaned_segments.h"

namespace ramcloud::store {

bool CleanedSegments::begin(uint64_t victim) {
  const MutexGuard guard(mutex_);
  return victims_.insert(victim).second;
}

void CleanedSegments::give_up(uint64_t victim) {
  const MutexGuard guard(mutex_);
  victims_.erase(victim);
}

bool CleanedSegments::being_cleaned(uint64_t segment) const {
  const MutexGuard guard(mutex_);
  return victims_.contains(segment);
}

void CleanedSegments::note_dead_copy(uint64_t victim, uint64_t survivor) {
  const MutexGuard guard(mutex_);
  dead_copies_[victim].insert(survivor);
}

bool CleanedSegments::has_dead_copies(uint64_t segment) const {
  const MutexGuard guard(mutex_);
  return dead_copies_.contains(segment);
}

std::vector<uint64_t> CleanedSegments::with_dead_copies() const {
  const MutexGuard guard(mutex_);
  std::vector<uint64_t> victims;
  for (const auto& [victim, survivors] : dead_copies_) victims.push_back(victim);
  return victims;
}

std::set<uint64_t> CleanedSegments::survivors_with_dead_copies() const {
  const MutexGuard guard(mutex_);
  std::set<uint64_t> all;
  for (const auto& [victim, survivors] : dead_copies_)
    all.insert(survivors.begin(), survivors.end());
  return all;
}

void CleanedSegments::segment_left(uint64_t segment) {
  const MutexGuard guard(mutex_);
  victims_.erase(segment);
  for (auto& [victim, survivors] : dead_copies_) survivors.erase(segment);
  std::erase_if(dead_copies_, [](const auto& entry) { return entry.second.empty(); });
}

}  // namespace ramcloud::store
