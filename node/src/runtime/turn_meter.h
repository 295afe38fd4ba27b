// How long the turns of a reactor are, in processor time of its thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/metrics.h"

namespace ramcloud {

/// Reading the processor time is a system call (0.25 to 0.5 us), which is too much for every turn.
/// A turn that took at most kShort of wall-clock time is recorded as that, which is never less than
/// its processor time. Of a longer one, which may have lost its core meanwhile, the processor time
/// is measured: the time since the latest mark, less what short turns took since then. Marks are
/// kMarkEvery of work apart, so they cost less than 0.5 %.
class TurnMeter {
 public:
  static constexpr int64_t kShort = 50'000;       // ns
  static constexpr int64_t kMarkEvery = 100'000;  // ns of turns that did work
  static constexpr int64_t kIdleMark = 20'000;    // ns of turns that did none
  /// Processor time of the calling thread, in ns.
  using ReadCpu = int64_t (*)();

  /// Made on any thread; from the first turn on used by one.
  TurnMeter(Histogram& turns, ReadCpu read_cpu) : turns_(turns), read_cpu_(read_cpu) {}

  void worked(int64_t wall_ns) {
    if (wall_ns > kShort) {
      const int64_t cpu = read_cpu_();
      record(has_mark_ ? std::clamp<int64_t>(cpu - mark_ - known_, 0, wall_ns) : wall_ns);
      return set_mark(cpu);
    }
    record(wall_ns);
    known_ += wall_ns;
    if (known_ >= kMarkEvery || !has_mark_) set_mark(read_cpu_());
  }
  /// A turn that found nothing to do, and the yielding or sleeping behind it.
  void idle(int64_t wall_ns) {
    idle_ += wall_ns;
    if (idle_ >= kIdleMark) set_mark(read_cpu_());
  }

 private:
  void record(int64_t ns) { turns_.record_alone(static_cast<uint64_t>(std::max<int64_t>(ns, 0))); }
  void set_mark(int64_t cpu) {
    mark_ = cpu;
    known_ = idle_ = 0;
    has_mark_ = true;
  }
  Histogram& turns_;
  ReadCpu read_cpu_;
  bool has_mark_ = false;
  int64_t mark_ = 0;
  int64_t known_ = 0;  // processor time since the mark that short turns account for
  int64_t idle_ = 0;
};

/// CLOCK_THREAD_CPUTIME_ID: system calls are in it.
int64_t thread_cpu_ns();

}  // namespace ramcloud
