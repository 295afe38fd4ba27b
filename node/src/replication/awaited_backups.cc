#include "replication/awaited_backups.h"

#include <algorithm>

namespace ramcloud {

void AwaitedBackups::expect(uint64_t server_id, Time until) {
  backups_.try_emplace(server_id, Backup{.until = until, .segments = {}});
}

bool AwaitedBackups::expects(uint64_t server_id) const {
  const auto found = backups_.find(server_id);
  return found != backups_.end() && !found->second.over;
}

void AwaitedBackups::put_off(SegmentReplicas& replicas, uint64_t server_id) {
  replicas.awaits = server_id;
  backups_.at(server_id).segments.push_back(replicas.segment->id());
}

void AwaitedBackups::give_up(uint64_t server_id) {
  const auto found = backups_.find(server_id);
  if (found != backups_.end()) found->second.over = true;
}

void AwaitedBackups::give_up_all() {
  for (auto& [id, backup] : backups_) backup.over = true;
}

void AwaitedBackups::end_until(Time now) {
  for (auto& [id, backup] : backups_) backup.over = backup.over || backup.until <= now;
}

Time AwaitedBackups::next_end() const {
  Time next = kNever;
  for (const auto& [id, backup] : backups_) {
    if (!backup.over) next = std::min(next, backup.until);
  }
  return next;
}

std::optional<AwaitedBackups::PutOff> AwaitedBackups::take() {
  for (auto at = backups_.begin(); at != backups_.end();) {
    auto& [id, backup] = *at;
    if (backup.over && backup.segments.empty()) {
      at = backups_.erase(at);
    } else if (backup.over) {
      const PutOff next{backup.segments.back(), id};
      backup.segments.pop_back();
      return next;
    } else {
      ++at;
    }
  }
  return std::nullopt;
}

}  // namespace ramcloud
