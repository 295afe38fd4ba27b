#include "replication/adoptions.h"

#include <algorithm>
#include <iterator>

namespace ramcloud {

void Adoptions::add(SegmentReplicas& replicas, uint64_t server_id) {
  if (is_given_up(server_id)) return;  // until none of its offers is left
  if (std::ranges::find(replicas.offered_by, server_id) != replicas.offered_by.end()) return;
  replicas.offered_by.push_back(server_id);
  backups_[server_id].segments.insert(replicas.segment->id());
}

void Adoptions::release(SegmentReplicas& replicas, uint64_t server_id) {
  std::erase(replicas.offered_by, server_id);
}

std::vector<uint64_t> Adoptions::backups() const {
  std::vector<uint64_t> ids;
  ids.reserve(backups_.size());
  for (const auto& [id, backup] : backups_) ids.push_back(id);
  return ids;
}

std::optional<uint64_t> Adoptions::take(uint64_t server_id) {
  const auto found = backups_.find(server_id);
  if (found == backups_.end() || found->second.asked >= kAskedAtOnce) return std::nullopt;
  return take_any(server_id);
}

std::optional<uint64_t> Adoptions::take_any(uint64_t server_id) {
  const auto found = backups_.find(server_id);
  if (found == backups_.end()) return std::nullopt;
  auto& segments = found->second.segments;
  if (segments.empty()) {
    forget_if_idle(found);
    return std::nullopt;
  }
  const uint64_t newest = *segments.rbegin();
  segments.erase(std::prev(segments.end()));
  return newest;
}

uint64_t Adoptions::asked(uint64_t server_id) {
  ++backups_[server_id].asked;
  return ++last_number_;
}

void Adoptions::answered(uint64_t server_id) {
  const auto found = backups_.find(server_id);
  --found->second.asked;
  forget_if_idle(found);
}

void Adoptions::give_up(uint64_t server_id) {
  const auto found = backups_.find(server_id);
  if (found != backups_.end()) found->second.given_up = true;
}

bool Adoptions::is_given_up(uint64_t server_id) const {
  const auto found = backups_.find(server_id);
  return found != backups_.end() && found->second.given_up;
}

void Adoptions::forget_if_idle(std::map<uint64_t, Backup>::iterator it) {
  if (it->second.segments.empty() && it->second.asked == 0) backups_.erase(it);
}

}  // namespace ramcloud
