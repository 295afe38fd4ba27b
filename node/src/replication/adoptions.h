// Former replicas that backups offer after they came back, until the backups are asked to adopt them
// (docs/design/recovery.md#adopting-former-frames). The first reactor's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "replication/segment_replicas.h"

namespace ramcloud {

class Adoptions {
 public:
  /// Requests that are outstanding at one backup. It reads one frame at a time; the second waits
  /// there, so that its device is not idle.
  static constexpr uint32_t kAskedAtOnce = 2;

  /// The backup may have a whole replica of the segment. From now on that replica is not copied.
  /// Does nothing if the backup offered it already.
  void add(SegmentReplicas& replicas, uint64_t server_id);
  /// The segment is not reserved for the backup any more. The offer itself may stay until take().
  static void release(SegmentReplicas& replicas, uint64_t server_id);

  bool empty() const { return backups_.empty(); }
  /// Backups that have offers or were asked, by rising id.
  std::vector<uint64_t> backups() const;
  /// The newest segment that the backup offers, if it may be asked now: syncs wait for the newest
  /// ones. The caller releases it.
  std::optional<uint64_t> take(uint64_t server_id);
  /// The same, whatever is outstanding: to give up its offers.
  std::optional<uint64_t> take_any(uint64_t server_id);
  /// A request was sent; `number` identifies it.
  uint64_t asked(uint64_t server_id);
  /// The request ended.
  void answered(uint64_t server_id);
  /// The backup does not answer, or is not UP: its offers are to be given up by take_any().
  void give_up(uint64_t server_id);
  bool is_given_up(uint64_t server_id) const;

 private:
  struct Backup {
    std::set<uint64_t> segments;
    uint32_t asked = 0;
    bool given_up = false;
  };
  void forget_if_idle(std::map<uint64_t, Backup>::iterator it);
  std::map<uint64_t, Backup> backups_;
  uint64_t last_number_ = 0;
};

}  // namespace ramcloud
