// The backups that have replicas of this master: which replicas, whether new ones may go there, and
// which of them are being lost. The first reactor's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "replication/placement.h"
#include "replication/replica_slot.h"

namespace ramcloud {

class BackupTable {
 public:
  /// How long a backup that refused a replica gets no new ones; doubled with each refusal in a row,
  /// up to the maximum.
  struct Options {
    Duration refused_delay;
    Duration max_refused_delay;
    /// The maximum for copies, if it had no frame for one. Shorter than a recovery waits for frames
    /// before it gives its own back (master/tablet_recovery.cc).
    Duration max_no_frame_delay;
  };
  explicit BackupTable(Options options) : options_(options) {}

  /// @name Replicas
  /// @{ The replica was placed on slot.server_id().
  void add(ReplicaSlot& slot);
  /// The replica leaves slot.server_id().
  void remove(ReplicaSlot& slot);
  uint64_t replicas_on(uint64_t server_id) const;
  /// The backup with the lowest id from this one on.
  std::optional<uint64_t> first_from(uint64_t server_id) const;
  /// One of them; `index` is below replicas_on(). When a replica leaves, the last takes its index.
  ReplicaSlot& replica_on(uint64_t server_id, size_t index) const {
    return *backups_.at(server_id).slots[index];
  }
  /// Any replica there; null if there is none.
  ReplicaSlot* any_on(uint64_t server_id) const;
  /// The replicas there in turn, one a call; null if there is none.
  ReplicaSlot* next_on(uint64_t server_id);
  /// For checks: the table has this placed replica under its backup.
  bool knows(const ReplicaSlot& slot) const;
  /// @}

  /// @name Whether new replicas may go there
  /// @{
  void accepted(uint64_t server_id) { backups_[server_id].refusals = 0; }
  enum class Kind : uint8_t { kHead, kCopy };
  void refused(uint64_t server_id, Time now);
  /// It has no frame for a copy. It may have one for a head, because the last ones are kept for them.
  void has_no_frame_for_copies(uint64_t server_id, Time now);
  /// Adds the state of the backup; one that refused this kind of replica lately, or is being lost,
  /// is not usable.
  void describe(PlacementServer& server, Kind kind, Time now) const;
  /// @}

  /// @name Backups of protocol versions without leases: they are asked by a ping instead
  /// @{
  void has_no_leases(uint64_t server_id) { without_leases_.insert(server_id); }
  bool knows_leases(uint64_t server_id) const { return !without_leases_.contains(server_id); }
  /// @}

  /// @name Losing all that is on a backup, a little at a time
  /// @{ No new replica is placed there until end_losing(). A second call changes nothing.
  void begin_losing(uint64_t server_id, const Status& why);
  bool is_being_lost(uint64_t server_id) const;
  /// In the order of begin_losing().
  const std::deque<uint64_t>& losing() const { return losing_; }
  const Status& why_lost(uint64_t server_id) const { return *backups_.at(server_id).lost; }
  /// For the first backup of losing(), when no replica is left on it. `forget`: the server has
  /// crashed and will not return.
  void end_losing(bool forget);
  /// @}

  /// @name Backups that segments miss, because their replicas there were lost
  /// @{
  void missed(uint64_t server_id) { ++missed_[server_id]; }
  void not_missed(uint64_t server_id);
  const std::map<uint64_t, uint64_t>& missed_by() const { return missed_; }
  /// @}

  /// What this log needs of backups that share a volume.
  struct Need {
    uint64_t counted = 0;  // replicas placed there, acknowledged or not
    /// Lost replicas on these backups whose segments do not yet have all R replicas elsewhere. If
    /// the master crashes now, recovery may need the copy on this volume.
    uint64_t missed = 0;
  };
  Need need_of(std::span<const uint64_t> server_ids) const;

 private:
  struct Backup {
    std::vector<ReplicaSlot*> slots;  // placed there; each knows its index
    uint32_t primaries = 0;
    uint32_t refusals = 0;  // in a row
    Time usable_from{};
    Time usable_for_copies_from{};
    size_t next = 0;             // for next_on()
    std::optional<Status> lost;  // why all its replicas are lost; set while it is in losing_
  };

  Time next_try(Backup& backup, Time now, Duration most) const;

  Options options_;
  std::map<uint64_t, Backup> backups_;
  std::deque<uint64_t> losing_;
  std::map<uint64_t, uint64_t> missed_;  // by backup: segments that miss it
  std::set<uint64_t> without_leases_;
};

}  // namespace ramcloud
