#include "replication/backup_table.h"

#include <algorithm>

namespace ramcloud {

void BackupTable::add(ReplicaSlot& slot) {
  Backup& backup = backups_[slot.server_id()];
  slot.set_index_on_backup(backup.slots.size());
  backup.slots.push_back(&slot);
  if (slot.primary()) ++backup.primaries;
}

void BackupTable::remove(ReplicaSlot& slot) {
  Backup& backup = backups_.at(slot.server_id());
  ReplicaSlot* last = backup.slots.back();
  backup.slots[slot.index_on_backup()] = last;
  last->set_index_on_backup(slot.index_on_backup());
  backup.slots.pop_back();
  if (slot.primary()) --backup.primaries;
}

uint64_t BackupTable::replicas_on(uint64_t server_id) const {
  const auto found = backups_.find(server_id);
  return found == backups_.end() ? 0 : found->second.slots.size();
}

std::optional<uint64_t> BackupTable::first_from(uint64_t server_id) const {
  const auto found = backups_.lower_bound(server_id);
  if (found == backups_.end()) return std::nullopt;
  return found->first;
}

ReplicaSlot* BackupTable::any_on(uint64_t server_id) const {
  const auto found = backups_.find(server_id);
  return found == backups_.end() || found->second.slots.empty() ? nullptr
                                                                : found->second.slots.back();
}

ReplicaSlot* BackupTable::next_on(uint64_t server_id) {
  const auto found = backups_.find(server_id);
  if (found == backups_.end() || found->second.slots.empty()) return nullptr;
  Backup& backup = found->second;
  return backup.slots[backup.next++ % backup.slots.size()];
}

bool BackupTable::knows(const ReplicaSlot& slot) const {
  const auto found = backups_.find(slot.server_id());
  if (found == backups_.end()) return false;
  const auto& slots = found->second.slots;
  return slot.index_on_backup() < slots.size() && slots[slot.index_on_backup()] == &slot;
}

/// Counts a refusal.
Time BackupTable::next_try(Backup& backup, Time now, Duration most) const {
  const Duration delay = options_.refused_delay * (1 << std::min(backup.refusals++, 10u));
  return now + std::min(delay, most);
}

void BackupTable::refused(uint64_t server_id, Time now) {
  Backup& backup = backups_[server_id];
  backup.usable_from = backup.usable_for_copies_from =
      next_try(backup, now, options_.max_refused_delay);
}

void BackupTable::has_no_frame_for_copies(uint64_t server_id, Time now) {
  Backup& backup = backups_[server_id];
  backup.usable_for_copies_from = next_try(backup, now, options_.max_no_frame_delay);
}

void BackupTable::describe(PlacementServer& server, Kind kind, Time now) const {
  const auto found = backups_.find(server.server_id);
  if (found == backups_.end()) return;
  const Backup& backup = found->second;
  server.replicas = static_cast<uint32_t>(backup.slots.size());
  server.primaries = backup.primaries;
  const Time from = kind == Kind::kCopy ? backup.usable_for_copies_from : backup.usable_from;
  server.usable = server.usable && now >= from && !backup.lost;
}

void BackupTable::begin_losing(uint64_t server_id, const Status& why) {
  Backup& backup = backups_[server_id];
  if (backup.lost) return;
  backup.lost = why;
  losing_.push_back(server_id);
}

bool BackupTable::is_being_lost(uint64_t server_id) const {
  const auto found = backups_.find(server_id);
  return found != backups_.end() && found->second.lost.has_value();
}

void BackupTable::end_losing(bool forget) {
  const auto found = backups_.find(losing_.front());
  losing_.pop_front();
  found->second.lost.reset();
  if (forget) backups_.erase(found);
}

void BackupTable::not_missed(uint64_t server_id) {
  const auto found = missed_.find(server_id);
  if (--found->second == 0) missed_.erase(found);
}

BackupTable::Need BackupTable::need_of(std::span<const uint64_t> server_ids) const {
  Need need;
  for (const uint64_t id : server_ids) {
    need.counted += replicas_on(id);
    if (const auto found = missed_.find(id); found != missed_.end()) need.missed += found->second;
  }
  return need;
}

}  // namespace ramcloud
