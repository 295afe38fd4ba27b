// Compaction [Rumble14 §4]: a closed segment is rewritten in memory with only the entries that are
// needed, under the same id and in less memory. Replicas and digests do not change
// (docs/design/log.md#compaction).
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "log/log.h"
#include "log/segment.h"
#include "log/segment_writer.h"

namespace ramcloud::log {

/// The size that a compacted segment will have. Its groups are filled in order, each with at most
/// kMaxGroupEntries entries and `group_bytes` bytes of entries, unless one entry is larger. Entries
/// that are left out later can make it larger only by padding at the ends of seglets.
class CompactedSize {
 public:
  CompactedSize(uint32_t header_bytes, uint32_t group_bytes)
      : group_bytes_(group_bytes), at_(header_bytes) {}
  void add(uint32_t entry_bytes);
  /// Without a footer.
  uint32_t bytes() const { return entries_ > 0 ? end_of_group(at_, bytes_) : at_; }
  /// With a footer.
  uint32_t seglets() const;

 private:
  static uint32_t end_of_group(uint32_t at, uint32_t entry_bytes);
  const uint32_t group_bytes_;
  uint32_t at_;
  uint32_t entries_ = 0, bytes_ = 0;  // of the present group
};

/// One thread at a time. Meanwhile nothing else may make the original leave the log.
class CompactedSegment {
 public:
  /// Both outlive it. `original` is a closed member, and Log::may_compact().
  CompactedSegment(Log& log, Segment& original) : log_(log), original_(original) {}
  /// Gives the copy up if it has not replaced the original.
  ~CompactedSegment() { abort(); }
  CompactedSegment(const CompactedSegment&) = delete;
  CompactedSegment& operator=(const CompactedSegment&) = delete;

  /// Takes the memory; close() gives back what was not used.
  ///   OUT_OF_MEMORY     not so much above what is kept for emergency heads
  ///   INVALID_ARGUMENT  nothing would be won
  StatusCode open(uint32_t seglets);
  /// As SideLog::append(). OUT_OF_MEMORY: the memory taken by open() is full.
  StatusCode append(std::span<const EntrySource> entries, const char* refs[]);
  /// No more entries follow. Entries that were left out were dead because of what was appended
  /// until `judged`, or before the original was last compacted.
  void close(LogPosition judged);
  /// The copy replaces the original, whose memory is reused after a grace period: only readers of
  /// this turn may still refer to it.
  void replace();
  /// Keeps the copy as it is when the process ends: slots refer to it.
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
