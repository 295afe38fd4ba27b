// Which recoveries may begin while backups have few free frames: a value without side effects
// (docs/design/recovery.md#when-volumes-are-full).
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

namespace ramcloud {

/// The recoveries that want frames, in the order in which they get them. The frames of a log become
/// free when all of it is served elsewhere. Recoveries that took the last free frames together would
/// each get a part of what it needs, and none would end. So one begins when those in front of it and
/// itself have room; the first begins in any case.
class FrameLine {
 public:
  /// Joins the line, or tells how many bytes are left of it. Who wants the least is in front.
  void want(uint64_t master_id, uint64_t bytes) { all_[master_id].bytes = bytes; }
  /// `room`: bytes for which frames are free. `alone`: it found no frames beside others, so it begins
  /// only as the first.
  bool may_begin(uint64_t master_id, uint64_t room, bool alone) const;
  /// An attempt begins. It stays in front of those that have not begun.
  void begin(uint64_t master_id) { all_[master_id].begun = true; }
  /// The attempt has ended. While tablets are left it keeps its place; but if none was served, others
  /// are in front until they have tried as well.
  void end(uint64_t master_id, bool served);
  /// It is over, or waits for something else than frames.
  void leave(uint64_t master_id) { all_.erase(master_id); }
  /// In front of all; 0 if the line is empty.
  uint64_t first() const;

 private:
  struct Place {
    uint64_t bytes = 0;
    bool begun = false;
    uint64_t in_vain = 0;  // the number of its last attempt, if nothing of it was served
    auto rank(uint64_t master_id) const { return std::tuple(!begun, in_vain, bytes, master_id); }
  };
  std::map<uint64_t, Place> all_;  // by the dead server's id
  uint64_t attempts_in_vain_ = 0;
};

}  // namespace ramcloud
