#include "store/cleaned_segments.h"

#include <algorithm>

#include "base/sometimes.h"

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

/// By a version that is not lower: versions of a key only rise.
bool CleanedSegments::Copies::killed_by(const DeadCopy& tombstone) const {
  if (all.empty()) return true;
  const auto first = std::ranges::lower_bound(all, DeadCopy{tombstone.key_hash, 0});
  return first != all.end() && first->key_hash == tombstone.key_hash &&
         first->version <= tombstone.version;
}

void CleanedSegments::note_dead_copy(uint64_t victim, uint64_t survivor, const DeadCopy& copy) {
  const MutexGuard guard(mutex_);
  const auto [noted, first] = dead_copies_[victim].try_emplace(survivor);
  std::vector<DeadCopy>& all = noted->second.all;
  if (first) {
    victims_of_[survivor].insert(victim);
  } else if (all.empty()) {
    return;
  }
  if (all.size() == kMostCopies) {
    RC_SOMETIMES("store.survivor_has_many_dead_copies");
    all = {};
  } else {
    all.insert(std::ranges::upper_bound(all, copy), copy);
  }
}

bool CleanedSegments::has_dead_copies(uint64_t segment) const {
  const MutexGuard guard(mutex_);
  return dead_copies_.contains(segment);
}

bool CleanedSegments::kills_dead_copy(uint64_t segment, const DeadCopy& by) const {
  const MutexGuard guard(mutex_);
  const auto noted = dead_copies_.find(segment);
  return noted != dead_copies_.end() && std::ranges::any_of(noted->second, [&](const auto& one) {
           return one.second.killed_by(by);
         });
}

std::vector<std::pair<uint64_t, size_t>> CleanedSegments::with_dead_copies() const {
  const MutexGuard guard(mutex_);
  std::vector<std::pair<uint64_t, size_t>> victims;
  for (const auto& [victim, survivors] : dead_copies_) {
    size_t copies = 0;
    for (const auto& [survivor, of_it] : survivors) {
      const bool counted = copies != kUncounted && !of_it.all.empty();
      copies = counted ? copies + of_it.all.size() : kUncounted;
    }
    victims.emplace_back(victim, copies);
  }
  return victims;
}

std::set<uint64_t> CleanedSegments::survivors_with_dead_copies() const {
  const MutexGuard guard(mutex_);
  std::set<uint64_t> all;
  for (const auto& [survivor, victims] : victims_of_) all.insert(survivor);
  return all;
}

void CleanedSegments::segment_left(uint64_t segment) {
  const MutexGuard guard(mutex_);
  victims_.erase(segment);
  const auto kept = victims_of_.find(segment);
  if (kept == victims_of_.end()) return;
  for (const uint64_t victim : kept->second) {
    const auto noted = dead_copies_.find(victim);
    noted->second.erase(segment);
    if (noted->second.empty()) dead_copies_.erase(noted);
  }
  victims_of_.erase(kept);
}

}  // namespace ramcloud::store
