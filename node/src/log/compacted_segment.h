// Compaction [Rumble14 §4]: a closed segment is made again in memory with the entries that are needed,
// under the same id and in less memory. On disk nothing changes, and no digest does
// (docs/design/log.md#compaction).
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "log/log.h"
#include "log/segment.h"
#include "log/segment_writer.h"

namespace ramcloud::log {

/// What a segment will take whose groups are filled in order, each with kMaxGroupEntries entries and
/// `group_bytes` bytes of entries at most, unless one entry is larger. Entries that are left out later
/// make it no larger by more than the padding at the ends of seglets.
class CompactedSize {
 public:
  CompactedSize(uint32_t header_bytes, uint32_t group_bytes)
      : group_bytes_(group_bytes), at_(header_bytes) {}
  void add(uint32_t entry_bytes);
  /// With a footer.
  uint32_t seglets() const;

 private:
  static uint32_t end_of_group(uint32_t at, uint32_t entry_bytes);
  const uint32_t group_bytes_;
  uint32_t at_;
  uint32_t entries_ = 0, bytes_ = 0;  // of the group that is filled
};

/// One thread at a time. Nobody else makes the original leave the log meanwhile.
class CompactedSegment {
 public:
  /// Both outlive it. `original` is a closed member, and Log::may_compact().
  CompactedSegment(Log& log, Segment& original) : log_(log), original_(original) {}
  /// What did not replace the original is given up.
  ~CompactedSegment() { abort(); }
  CompactedSegment(const CompactedSegment&) = delete;
  CompactedSegment& operator=(const CompactedSegment&) = delete;

  /// Takes the memory; what is not used is given back by close().
  ///   OUT_OF_MEMORY     not so much above what is kept for emergency heads
  ///   INVALID_ARGUMENT  nothing would be won
  StatusCode open(uint32_t seglets);
  /// As SideLog::append(). OUT_OF_MEMORY: the memory that was taken is full.
  StatusCode append(std::span<const EntrySource> entries, const char* refs[]);
  /// No more comes. What is not in it was dead by what was appended until `judged`, or before the
  /// original was last compacted.
  void close(LogPosition judged);
  /// It takes the original's place. The original's memory is used again after a grace period: nothing
  /// but readers of this turn may refer to it.
  void replace();
  /// It is somebody else's, and stays as it is: slots refer to it, and the process ends.
  void release() { copy_ = nullptr; }
  /// Gives the memory back, unless it has replaced the original. Only readers of this turn may refer
  /// to it.
  void abort();

 private:
  Log& log_;
  Segment& original_;
  Segment* copy_ = nullptr;
};

}  // namespace ramcloud::log
