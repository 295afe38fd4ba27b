// The reactor: one thread's loop over its event source, timers and posted work, with adaptive polling
// (engine.md §3). The same class runs on the system's clock and sockets, and, stepped by the
// simulation's scheduler, on virtual time.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "runtime/task.h"

namespace ramcloud {

/// Where outside events come from: epoll in a real process, nothing in simulation (there the
/// scheduler delivers directly).
class EventSource {
 public:
  virtual ~EventSource() = default;
  /// Handles what is ready; waits for at most `max_wait` (0: does not wait) if nothing is. True if
  /// anything was handled.
  virtual bool poll(Duration max_wait) = 0;
  /// Makes a poll() that waits on another thread return. Any thread.
  virtual void wake() = 0;
};

/// Does work at each turn (for example drives replication) without an event of its own.
class TurnHook {
 public:
  virtual ~TurnHook() = default;
  /// True if anything was done.
  virtual bool on_turn() = 0;
};

class Reactor;

/// A timer that belongs to its owner: destroying it stops it. Fires once a start.
class Timer {
 public:
  Timer(Reactor& reactor, std::function<void()> on_fire);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  void start_at(Time when);
  void start_after(Duration delay);
  void stop();
  bool running() const { return heap_index_ != kIdle; }

 private:
  friend class Reactor;
  static constexpr size_t kIdle = ~size_t{0};
  Reactor& reactor_;
  std::function<void()> on_fire_;
  Time when_{};
  uint64_t sequence_ = 0;  // equal times fire in the order they were started
  size_t heap_index_ = kIdle;
};

class Reactor {
 public:
  struct Options {
    /// How long to look for work before sleeping, giving the core away in every empty turn. 0 sleeps
    /// at once, negative spins for ever (pinned production cores).
    Duration poll_for = std::chrono::microseconds(50);
  };
  Reactor(Clock& clock, EventSource& events, uint64_t seed, Options options);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Time as of the begin of this turn or the latest event; cheap.
  Time now() const { return now_; }
  Clock& clock() { return clock_; }
  Random& random() { return random_; }

  /// Runs `fn` in a later turn. Any thread.
  void post(std::function<void()> fn);
  /// Runs `fn` in the next turn; reactor's thread only, no lock.
  void defer(std::function<void()> fn);
  void add_hook(TurnHook* hook);
  void remove_hook(TurnHook* hook);

  /// One turn without waiting; true if anything was done. The simulation's entry.
  bool turn();
  /// Turns until stop(); sleeps as Options say.
  void run();
  /// Turns (and sleeps) until `done()`; for clients that drive their own reactor.
  void run_until(const std::function<bool()>& done);
  void stop();  // any thread
  /// When the earliest timer is due; kNever if none.
  Time next_deadline() const;

  /// Turns so far: a health check sees that the loop moves. Any thread.
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  /// Nanoseconds spent in turns that did work. Any thread.
  uint64_t busy_ns() const { return busy_ns_.load(std::memory_order_relaxed); }

  /// co_await reactor.sleep(10ms)
  auto sleep(Duration delay);

 private:
  friend class Timer;
  void timer_insert(Timer& timer);
  void timer_remove(Timer& timer);
  void sift_up(size_t index);
  void sift_down(size_t index);
  bool fire_timers();
  bool run_posted();
  void wait_for_work();

  Clock& clock_;
  EventSource& events_;
  Random random_;
  Options options_;
  Time now_;
  Time last_work_;
  std::vector<Timer*> timers_;  // binary heap by (when, sequence)
  uint64_t timer_sequence_ = 0;
  std::vector<TurnHook*> hooks_;
  std::vector<std::function<void()>> deferred_, running_;
  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;
  std::atomic<bool> has_posted_{false};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> turns_{0};
  std::atomic<uint64_t> busy_ns_{0};
};

namespace detail {
struct SleepAwaiter {
  Reactor& reactor;
  Duration delay;
  std::coroutine_handle<> waiting{};
  Timer timer{reactor, [this] { waiting.resume(); }};
  SleepAwaiter(Reactor& r, Duration d) : reactor(r), delay(d) {}
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    waiting = handle;
    timer.start_after(delay);
  }
  void await_resume() const {}
};
}  // namespace detail

inline auto Reactor::sleep(Duration delay) { return detail::SleepAwaiter(*this, delay); }

/// Owns root tasks of one owner; destroying it cancels them all. Finished ones are removed in a later
/// turn.
class TaskScope {
 public:
  explicit TaskScope(Reactor& reactor) : reactor_(reactor), alive_(std::make_shared<bool>(true)) {}
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
  /// Starts the task at once; it runs until its first suspension.
  void spawn(Task<void> task);
  size_t running() const { return tasks_.size(); }

 private:
  struct Root;
  Reactor& reactor_;
  std::list<Root> tasks_;
  std::shared_ptr<bool> alive_;
};

/// Something a task can wait for and another flow can set: once set, waits return at once until
/// reset. Waiters are resumed in a later turn, in the order they came.
class Event {
 public:
  explicit Event(Reactor& reactor) : reactor_(reactor) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void set();
  void reset() { set_ = false; }
  bool is_set() const { return set_; }

  class Awaiter {
   public:
    explicit Awaiter(Event& event) : event_(&event) {}
    ~Awaiter();
    Awaiter(const Awaiter&) = delete;
    bool await_ready() const { return event_->set_; }
    void await_suspend(std::coroutine_handle<> handle);
    void await_resume() const {}

   private:
    friend class Event;
    Event* event_;
    std::coroutine_handle<> waiting_{};
    bool queued_ = false;
  };
  Awaiter operator co_await() { return Awaiter(*this); }

 private:
  void resume_waiters();
  Reactor& reactor_;
  bool set_ = false;
  bool resume_scheduled_ = false;
  std::list<Awaiter*> waiters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ramcloud
