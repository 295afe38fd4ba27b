// Runs the cleaner of a server (docs/design/log.md#who-cleans): on threads beside the reactors, or
// in the turns of the first reactor. Decides when they look for work.
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
    uint32_t threads = 1;  // 0: the first reactor cleans, one slice in each turn
    log::CleanerOptions cleaner;
  };

  /// On the first reactor. Registers metrics, which must not be read after this is destroyed. All
  /// arguments outlive it.
  Cleaning(Reactor& first, Epochs& epochs, Master& master, MetricsRegistry& metrics,
           Options options);
  /// Precondition: no reactor runs.
  ~Cleaning();
  Cleaning(const Cleaning&) = delete;
  Cleaning& operator=(const Cleaning&) = delete;

  /// Starts cleaning. Precondition: the log's progress listener calls on_log_progress().
  void start();
  /// A step of the first reactor's turn: wakes the threads when memory came back or the log has another
  /// size; a slice of cleaning, if there are no threads for it. True if anything was done.
  bool on_turn();
  /// The log made progress. Any thread. Costs a load and a comparison, unless a new head takes
  /// data.
  void on_log_progress();

  /// Any thread.
  log::CleanerState state() const { return cleaner_.state(); }

  /// How long a worker without work sleeps, first and at most: doubled each time while no pass of
  /// it waits. A new head wakes it, and so do memory that became free and another size of the log.
  static constexpr Duration kShortestSleep = std::chrono::milliseconds(1);
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(64);
  static constexpr Duration kLongestWhenFull = std::chrono::milliseconds(4);
  /// While nothing is appended, and no memory is taken or given back.
  static constexpr Duration kLongestWhenIdle = std::chrono::milliseconds(1024);

 private:
  /// A worker's last sleep, and the log's memory when it began.
  struct Sleep {
    Duration length{};
    uint64_t appended_bytes = 0;
    uint32_t free_seglets = 0;
  };
  Sleep next_sleep(const log::Cleaner::Worker& worker, const Sleep& last) const;
  void run_thread();
  void sleep(Duration length, uint64_t seen);
  void wake();
  void room_changed();
  void register_metrics(MetricsRegistry& metrics);

  Reactor& first_;
  Epochs& epochs_;
  const uint32_t thread_count_;
  log::Log& log_;
  store::SegmentJudge judge_;
  log::Cleaner cleaner_;
  std::atomic<uint64_t> head_{0};  // id of the head at the last progress
  uint64_t room_changes_ = 0;      // Log::room_changes() at the last turn of the first reactor

  // The worker of the first reactor, if there are no threads.
  std::unique_ptr<log::Cleaner::Worker> in_turns_;
  uint64_t seen_head_ = 0;  // head_ when it was last woken by it
  Sleep slept_;
  Timer timer_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;            // guarded by mutex_
  uint64_t wakes_ = 0;           // guarded by mutex_
  std::vector<Thread> threads_;  // last member: they use all others
};

}  // namespace ramcloud::server
