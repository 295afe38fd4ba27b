// The runtime of each daemon on a real machine: reactors on TCP, their threads, clock, metrics.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/time_trace.h"
#include "runtime/epoll_source.h"
#include "runtime/reactor.h"
#include "runtime/thread.h"
#include "runtime/turn_meter.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcloud::daemon {

class DaemonRuntime {
 public:
  /// A reactor with its thread, transport and trace; its counters are a shard of the daemon's.
  struct Lane {
    MetricsRegistry& metrics;
    TimeTrace trace;
    TurnMeter turns;
    EpollSource events;
    Reactor reactor;
    TcpTransport transport;
    Thread thread;
    Lane(Clock& clock, MetricsRegistry& m, Duration poll_for, const TcpOptions& limits,
         uint32_t index);
  };

  DaemonRuntime(Duration poll_for, const TcpOptions& limits, uint32_t reactors = 1);
  ~DaemonRuntime();
  DaemonRuntime(const DaemonRuntime&) = delete;
  DaemonRuntime& operator=(const DaemonRuntime&) = delete;

  Clock& clock() { return clock_; }
  MetricsRegistry& metrics() { return metrics_; }
  size_t reactors() const { return lanes_.size(); }
  Lane& lane(size_t i) { return *lanes_.at(i); }
  Reactor& reactor() { return lanes_.front()->reactor; }
  TcpTransport& transport() { return lanes_.front()->transport; }
  /// The trace of all reactors, sorted by time. Any thread.
  std::string trace_json() const;

  /// Gives free heap memory back to the system, on a separate thread, because that takes the heap's
  /// locks and a millisecond for 20 MiB. Any thread.
  void trim_heap();

  /// Starts the threads: `name`, `name`-1, …
  void start(const std::string& name);
  /// Runs `fn` on the first reactor and waits for it.
  void on_reactor(const std::function<void()>& fn);
  /// The other reactors stop before the first, which sends replies for them.
  void stop();

  /// The problem if a reactor has not run a turn for long although it was woken; empty if all run.
  /// Any thread.
  std::string check_turns();

 private:
  struct Watch {
    uint64_t seen_turns = 0;
    Time seen_at{};
  };
  std::string check_turns_of(size_t i);

  SystemClock clock_;
  MetricsRegistry metrics_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<bool> trimming_{false};  // the thread that sets it may use trimmer_
  Thread trimmer_;
  std::mutex watch_mutex_;
  std::vector<Watch> watches_;  // guarded by watch_mutex_
};

}  // namespace ramcloud::daemon
