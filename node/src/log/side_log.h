// Side logs [Ousterhout15 §4.3, §7.4]: segments that are filled beside the heads and are no part of
// the log until they are committed (Log::commit): survivors of cleaning, what a crashed master had,
// what a migration brings. They are replicated as they fill, and recovery of this master does not
// see them before that.
//
// One thread at a time. Nothing is shared with those that append to the head but the memory: an
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
  /// `log` outlives it. `whose`: how much of the memory it leaves to others.
  explicit SideLog(Log& log, For whose = For::kWrites) : log_(log), whose_(whose) {}
  /// Segments that were not released are aborted.
  ~SideLog() { abort(); }
  SideLog(const SideLog&) = delete;
  SideLog& operator=(const SideLog&) = delete;

  /// Appends one group with these entries, all or nothing. refs[i] is the address of entry i.
  ///   OUT_OF_MEMORY     no segment above the reserves for other purposes; appended entries stay
  ///   INVALID_ARGUMENT  as Log::append, or after close()
  StatusCode append(std::span<const EntrySource> entries, const char* refs[]);
  /// No more comes. Its segments can be committed once all_durable().
  void close();
  /// It is closed, and all of its segments are on their replicas. Tell by Log's progress listener.
  bool all_durable() const;
  /// Gives its segments up, and their replicas. Nothing may refer to their entries but readers of
  /// this turn. Not while a change with them is committed: withdraw it first.
  void abort();
  /// The segments are the log's from now on (their change is done), or the caller's.
  std::vector<Segment*> release();

  const std::vector<Segment*>& segments() const { return segments_; }

 private:
  bool open();
  void close_open();

  Log& log_;
  const For whose_;
  std::vector<Segment*> segments_;
  Segment* open_ = nullptr;  // the last of them, until it is closed
  bool closed_ = false;
};

}  // namespace ramcloud::log
