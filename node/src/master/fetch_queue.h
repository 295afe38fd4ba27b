// The segments of a dead master that a recovery master has not fetched yet, and the order in which
// it fetches them (docs/design/recovery.md#recovery-of-one-server).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "wire/recovery_messages.h"

namespace ramcloud::master {

/// How many segments of one backup are fetched at once, after `segments` with `bytes` of entries:
/// those that have about RecoveryFetchRequest::kBytesAtOnce together. The first ones are fetched one
/// by one.
size_t segments_at_once(uint64_t segments, uint64_t bytes);

/// In rounds: a round has, of each backup, the newest segment that no earlier round has. So all
/// masters are in about the same round, and a backup reads a segment once for all of them. Within a
/// round each master begins with another backup, far from where those with the next ids begin.
/// Otherwise all would ask the same few backups at the same time, and the others' devices would
/// wait. A segment counts for the backup that is tried first.
class FetchQueue {
 public:
  FetchQueue() = default;
  FetchQueue(FetchQueue&&) = default;
  FetchQueue& operator=(FetchQueue&&) = default;

  /// By falling id. The segment outlives this, and stays where it is.
  void add(const wire::RecoverySegment& segment);
  /// Call it after the last add(). `fetchers` share what is left at the end.
  void start(uint64_t own_id, uint32_t fetchers);

  bool empty() const { return left_ == 0; }
  /// Its segments are taken one at a time from now on.
  void slow_down(uint64_t server_id);
  /// Up to `most` segments of the backup whose turn it is, the newest first; none if no segment is
  /// left. Precondition: most > 0.
  std::vector<const wire::RecoverySegment*> next(size_t most);
  /// Segments that next() returned in this order, and that were not fetched after all: they are the
  /// next ones of their backup.
  void put_back(std::span<const wire::RecoverySegment* const> segments);

 private:
  using Segment = const wire::RecoverySegment*;
  struct Backup {
    Segment take();
    bool empty() const { return next == segments.size() && back.empty(); }
    std::vector<Segment> segments;  // by falling id
    size_t next = 0;
    std::vector<Segment> back;  // were put back, the next one last
    bool slow = false;
  };
  std::map<uint64_t, Backup> backups_;            // by id
  std::map<uint64_t, Backup>::iterator at_ = {};  // whose turn it is
  uint32_t fetchers_ = 1;
  size_t left_ = 0;  // segments
};

}  // namespace ramcloud::master
