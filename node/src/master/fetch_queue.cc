#include "master/fetch_queue.h"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <tuple>

namespace ramcloud::master {
namespace {

uint64_t backup_of(const wire::RecoverySegment& segment) {
  return segment.sources.empty() ? 0 : segment.sources.front().server_id;
}

/// Multiples of it, modulo n, are far from each other, and all of them differ: the golden section
/// of n, or the next number that has no factor in common with n.
size_t stride(size_t n) {
  size_t step = n * 618 / 1000 + 1;
  while (std::gcd(step, n) != 1) ++step;
  return step;
}

}  // namespace

size_t segments_at_once(uint64_t segments, uint64_t bytes) {
  constexpr size_t kMost = wire::RecoveryFetchRequest::kMostFurther + 1;
  if (segments == 0) return 1;
  const uint64_t of_a_segment = bytes / segments + 1;
  return std::clamp<uint64_t>(kBytesAtOnce / of_a_segment, 1, kMost);
}

FetchQueue::FetchQueue(std::span<const wire::RecoverySegment> segments, uint64_t own_id)
    : left_(segments.size()) {
  std::vector<const wire::RecoverySegment*> sorted;
  sorted.reserve(segments.size());
  for (const auto& segment : segments) sorted.push_back(&segment);
  std::ranges::sort(sorted, {}, [](const wire::RecoverySegment* segment) {
    return std::tuple(backup_of(*segment), segment->segment_id);
  });
  for (const auto* segment : sorted) {
    const uint64_t id = backup_of(*segment);
    if (backups_.empty() || backups_.back().server_id != id) backups_.push_back({id, {}});
    backups_.back().left.push_back(segment);
  }
  const size_t n = backups_.size();
  if (n > 0) at_ = own_id % n * stride(n) % n;
}

std::vector<const wire::RecoverySegment*> FetchQueue::next(size_t most) {
  std::vector<const wire::RecoverySegment*> taken;
  if (empty()) return taken;
  while (backups_[at_].left.empty()) at_ = (at_ + 1) % backups_.size();
  auto& left = backups_[at_].left;
  at_ = (at_ + 1) % backups_.size();
  const auto count = static_cast<std::ptrdiff_t>(std::min(most, left.size()));
  taken.assign(left.rbegin(), left.rbegin() + count);
  left.erase(left.end() - count, left.end());
  left_ -= taken.size();
  return taken;
}

void FetchQueue::put_back(std::span<const wire::RecoverySegment* const> segments) {
  for (const wire::RecoverySegment* segment : std::views::reverse(segments)) {
    const auto of = std::ranges::lower_bound(backups_, backup_of(*segment), {}, &Backup::server_id);
    of->left.push_back(segment);
  }
  left_ += segments.size();
}

}  // namespace ramcloud::master
