// Backups that stopped by a plan and are expected back with their replicas, and the settled
// segments whose copies are put off until then (docs/design/recovery.md#grace-period). The first
// reactor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "replication/segment_replicas.h"

namespace ramcloud {

class AwaitedBackups {
 public:
  /// The backup stopped by a plan, and is awaited until then. A second call changes nothing.
  void expect(uint64_t server_id, Time until);
  /// It stopped by a plan, and its grace period is not over.
  bool expects(uint64_t server_id) const;

  /// The segment lost its replica on this backup, which is expected. Its copy is put off.
  void put_off(SegmentReplicas& replicas, uint64_t server_id);

  bool empty() const { return backups_.empty(); }

  /// Ends the grace period of this backup; of all.
  void give_up(uint64_t server_id);
  void give_up_all();
  /// Ends the grace periods that last until this time.
  void end_until(Time now);
  /// When the next one ends by itself; kNever if there is none.
  Time next_end() const;

  struct PutOff {
    uint64_t segment_id = 0;
    uint64_t server_id = 0;  // the backup; if SegmentReplicas::awaits differs, its copy is not put
                             // off for this backup any more
  };
  /// A segment that was put off for a backup whose grace period is over; none: there are no more.
  std::optional<PutOff> take();

 private:
  struct Backup {
    Time until{};
    bool over = false;
    std::vector<uint64_t> segments;
  };
  std::map<uint64_t, Backup> backups_;
};

}  // namespace ramcloud
