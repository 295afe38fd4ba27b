#include "master/fetch_queue.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <ranges>

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
  return std::clamp<uint64_t>(wire::RecoveryFetchRequest::kBytesAtOnce / of_a_segment, 1, kMost);
}

FetchQueue::Segment FetchQueue::Backup::take() {
  if (back.empty()) return segments[next++];
  Segment last = back.back();
  back.pop_back();
  return last;
}

void FetchQueue::add(const wire::RecoverySegment& segment) {
  backups_[backup_of(segment)].segments.push_back(&segment);
  ++left_;
}

void FetchQueue::start(uint64_t own_id, uint32_t fetchers) {
  fetchers_ = fetchers;
  const size_t n = backups_.size();
  at_ = backups_.begin();
  if (n > 0) std::advance(at_, own_id % n * stride(n) % n);
}

std::vector<const wire::RecoverySegment*> FetchQueue::next(size_t most) {
  std::vector<Segment> taken;
  const auto turn = [this] {
    if (++at_ == backups_.end()) at_ = backups_.begin();
  };
  if (empty()) return taken;
  while (at_->second.empty()) turn();
  most = at_->second.slow ? 1 : std::min(most, (left_ + fetchers_ - 1) / fetchers_);
  while (taken.size() < most && !at_->second.empty()) taken.push_back(at_->second.take());
  turn();
  left_ -= taken.size();
  return taken;
}

void FetchQueue::slow_down(uint64_t server_id) {
  const auto backup = backups_.find(server_id);
  if (backup != backups_.end()) backup->second.slow = true;
}

void FetchQueue::put_back(std::span<const wire::RecoverySegment* const> segments) {
  for (Segment segment : std::views::reverse(segments)) {
    backups_.at(backup_of(*segment)).back.push_back(segment);
  }
  left_ += segments.size();
}

}  // namespace ramcloud::master
