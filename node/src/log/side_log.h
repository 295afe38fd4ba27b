// Side logs [Ousterhout15 §4.3, §7.4]: segments that are filled in parallel with the heads, and are
// not part of the log until they are committed (Log::commit). They hold survivors of cleaning, data
// of a crashed master, or data of a migration. They are replicated as they fill; recovery of this
// master does not see them before the commit.
//
// One thread at a time. A side log shares only memory with threads that append to the head, so its
// append takes no lock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "log/log.h"
#include "log/segment.h"
#include "log/segment_writer.h"

namespace ramcloud::log {

class SideLog {
 public:
  /// `log` outlives it. `purpose` decides how much memory must stay free for others.
  explicit SideLog(Log& log, MemoryPurpose purpose = MemoryPurpose::kWrites)
      : log_(log), purpose_(purpose) {}
  /// Aborts segments that were not released.
  ~SideLog() { abort(); }
  SideLog(const SideLog&) = delete;
  SideLog& operator=(const SideLog&) = delete;

  /// Appends one group with these entries, all or nothing. refs[i] is the address of entry i.
  ///   OUT_OF_MEMORY     no segment above the reserves for other purposes; appended entries stay
  ///   INVALID_ARGUMENT  as Log::append, or after close()
  StatusCode append(std::span<const EntrySource> entries, const char* refs[]);
  /// No more appends follow. The segments can be committed once all_durable().
  void close();
  /// The side log is closed, and all its segments are on their replicas. Log's progress listener is
  /// called when that changes.
  bool all_durable() const;
  /// Gives up the segments and their replicas. Only readers of this turn may refer to their
  /// entries. A change with these segments must be withdrawn first.
  void abort();
  /// Hands the segments over to the log (their change is done), or to the caller.
  std::vector<Segment*> release();

  const std::vector<Segment*>& segments() const { return segments_; }

 private:
  bool open();
  void close_open();

  Log& log_;
  const MemoryPurpose purpose_;
  std::vector<Segment*> segments_;
  Segment* open_ = nullptr;  // the last segment, until it is closed
  bool closed_ = false;
};

}  // namespace ramcloud::log
