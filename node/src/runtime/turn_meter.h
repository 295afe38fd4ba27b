// How long the turns of a reactor are, in processor time of its thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/metrics.h"

namespace ramcloud {

/// Reading the processor time is a system call (0.25 to 0.5 us), too much for every turn. A turn of
/// at most kShort of wall-clock time is recorded as that, which is never less than its processor
/// time. A longer turn may have lost its core meanwhile, so its processor time is measured: the
/// time since the latest mark, less what short turns took since then. Marks are kMarkEvery apart,
/// so they cost less than 0.5 %. A turn without work that took longer than kShortIdle has slept or
/// yielded its core. Its processor time is unknown, and is counted with the next long turn until
/// the next mark.
class TurnMeter {
 public:
  static constexpr int64_t kShort = 50'000;       // ns
  static constexpr int64_t kMarkEvery = 100'000;  // ns
  static constexpr int64_t kShortIdle = 5'000;    // ns
  /// Processor time of the calling thread, in ns.
  using ReadCpu = int64_t (*)();

  /// Constructed on any thread; used by one thread from the first turn on.
  TurnMeter(Histogram& turns, ReadCpu read_cpu) : turns_(turns), read_cpu_(read_cpu) {}

  void worked(int64_t wall_ns) {
    if (wall_ns > kShort) {
      const int64_t cpu = read_cpu_();
      record(has_mark_ ? std::clamp<int64_t>(cpu - mark_ - known_, 0, wall_ns) : wall_ns);
      return set_mark(cpu);
    }
    record(wall_ns);
    add_known(wall_ns);
  }
  /// Records a turn without work, and the yielding or sleeping after it.
  void idle(int64_t wall_ns) {
    if (wall_ns <= kShortIdle) return add_known(wall_ns);
    unknown_ += wall_ns;
    if (unknown_ >= kMarkEvery) set_mark(read_cpu_());
  }

 private:
  void record(int64_t ns) {
    turns_.record_from_one_thread(static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
  }
  void add_known(int64_t ns) {
    known_ += ns;
    if (known_ >= kMarkEvery || !has_mark_) set_mark(read_cpu_());
  }
  void set_mark(int64_t cpu) {
    mark_ = cpu;
    known_ = unknown_ = 0;
    has_mark_ = true;
  }
  Histogram& turns_;
  ReadCpu read_cpu_;
  bool has_mark_ = false;
  int64_t mark_ = 0;
  int64_t known_ = 0;    // processor time since the mark that short turns account for
  int64_t unknown_ = 0;  // wall-clock time since the mark in which other threads may have had the
                         // core
};

/// CLOCK_THREAD_CPUTIME_ID: includes system calls.
int64_t thread_cpu_ns();

}  // namespace ramcloud
