// Who runs passes of cleaning in a server, and when they look for work
// (docs/design/log.md#who-cleans): threads beside the reactors, or the first reactor in its turns.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/metrics.h"
#include "log/cleaner.h"
#include "runtime/epoch.h"
#include "runtime/reactor.h"
#include "runtime/thread.h"
#include "server/master.h"
#include "store/segment_judge.h"

namespace ramcloud::server {

class Cleaning {
 public:
  struct Options {
    uint32_t threads = 1;  // 0: the first reactor cleans, a slice a turn
    log::CleanerOptions cleaner;
  };

  /// On the first reactor. Registers metrics, which must not be asked after this is destroyed.
  /// Everything passed in outlives it.
  Cleaning(Reactor& first, Epochs& epochs, Master& master, MetricsRegistry& metrics,
           Options options);
  /// While no reactor turns.
  ~Cleaning();
  Cleaning(const Cleaning&) = delete;
  Cleaning& operator=(const Cleaning&) = delete;

  /// From now on; once the log's listener knows of this.
  void start();
  /// A step of the first reactor's turn: a slice, if there are no threads for it. True if anything
  /// was done.
  bool on_turn();
  /// The log moved. Any thread: a load and a comparison, unless a new head takes data.
  void on_log_progress();

  /// Any thread.
  log::CleanerState state() const { return cleaner_.state(); }

  /// For how long a worker that found nothing to do sleeps at first, and at most: doubled each time,
  /// while it has no pass that waits. A new head ends it.
  static constexpr Duration kShortestSleep = std::chrono::milliseconds(1);
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(64);
  static constexpr Duration kLongestWhenFull = std::chrono::milliseconds(4);

 private:
  Duration next_sleep(const log::Cleaner::Worker& worker, Duration last) const;
  void run_thread();
  void sleep(Duration length, uint64_t seen);
  void wake();
  void register_metrics(MetricsRegistry& metrics);

  Reactor& first_;
  Epochs& epochs_;
  const uint32_t thread_count_;
  log::Log& log_;
  store::SegmentJudge judge_;
  log::Cleaner cleaner_;
  std::atomic<uint64_t> head_{0};  // id, when the log moved last

  // Without threads: the first reactor's.
  std::unique_ptr<log::Cleaner::Worker> in_turns_;
  Duration slept_{};
  Timer timer_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;            // guarded by mutex_
  uint64_t wakes_ = 0;           // guarded by mutex_
  std::vector<Thread> threads_;  // last: they use all of it
};

}  // namespace ramcloud::server
