// The reactor: one thread's loop over its event source, timers and posted work, with adaptive
// polling (docs/design/runtime.md). The same class runs on the system's clock and sockets, and,
// stepped by the simulation's scheduler, on virtual time.
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
#include "base/time_trace.h"
#include "runtime/epoch.h"
#include "runtime/task.h"
#include "runtime/turn_budget.h"

namespace ramcloud {

/// The source of outside events: epoll in a real process; in simulation the scheduler delivers
/// them.
class EventSource {
 public:
  virtual ~EventSource() = default;
  /// The budget of the polling reactor. When it is spent, a source leaves the remaining events for
  /// the next poll().
  virtual void set_budget(TurnBudget*) {}
  /// Handles ready events, without waiting. True if there were any.
  virtual bool poll() = 0;
  /// All that the last poll() handled were heartbeats: nothing is expected to follow them soon.
  virtual bool only_heartbeats() const { return false; }
  /// It is `now`. Waits until something is ready, or until `until` (kNever: for ever), or less long.
  /// The next poll() handles what is ready, so handlers see the time after the wait.
  virtual void wait(Time now, Time until) = 0;
  /// Makes a wait() on another thread return, or the next one return at once. Any thread.
  virtual void wake() = 0;
};

/// Does work in each turn (for example drives replication) without an event.
class TurnHook {
 public:
  virtual ~TurnHook() = default;
  /// True if anything was done.
  virtual bool on_turn() = 0;
};

class Reactor;
class TurnMeter;

/// A timer; destroying it stops it. Fires once for each start.
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
  /// When it fires. Precondition: running().
  Time when() const { return when_; }

 private:
  friend class Reactor;
  static constexpr size_t kIdle = ~size_t{0};
  bool before(const Timer& other) const;
  Reactor& reactor_;
  std::function<void()> on_fire_;
  Time when_{};
  uint64_t sequence_ = 0;  // equal times fire in the order they were started
  size_t heap_index_ = kIdle;
};

class Reactor {
 public:
  struct Options {
    /// How long to poll for work before sleeping; every empty turn yields the core. 0: sleep at
    /// once; negative: poll for ever (pinned production cores). While work keeps arriving within
    /// kMostPolling times this, it polls that much longer: see adapt_polling().
    Duration poll_for = std::chrono::microseconds(50);
  };
  Reactor(Clock& clock, EventSource& events, uint64_t seed, Options options);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// The time at the beginning of this turn or of the latest event; cheap.
  Time now() const { return now_; }
  Clock& clock() { return clock_; }
  Random& random() { return random_; }

  /// Runs `fn` in a later turn. Any thread.
  void post(std::function<void()> fn);
  /// Makes sure that a turn begins after this call, so that hooks see a change. Any thread; costs a
  /// store, unless the reactor sleeps.
  void nudge();
  /// Runs `fn` in the next turn; reactor's thread only, no lock.
  void defer(std::function<void()> fn);
  void add_hook(TurnHook* hook);
  void remove_hook(TurnHook* hook);

  /// One turn without waiting; true if anything was done. The simulation's entry.
  bool turn();
  /// Runs turns until stop(); sleeps according to Options.
  void run();
  /// Runs turns (and sleeps) until `done()`; for clients that drive their own reactor.
  void run_until(const std::function<bool()>& done);
  /// For a program with its own event loop: runs turns until nothing is left to do. Returns how
  /// long the program may wait for the event source's descriptor before it calls this again; work
  /// posted by other threads makes the descriptor readable.
  Duration run_ready();
  void stop();  // any thread; the reactor must outlive the call, because run() may return during it
  /// When the earliest timer is due; kNever if none.
  Time next_deadline() const;
  /// True if the next turn has posted or deferred work. Reactor's thread.
  bool has_pending() const {
    return !deferred_.empty() || has_posted_.load(std::memory_order_relaxed) ||
           nudged_.load(std::memory_order_relaxed);
  }

  /// From now on every turn calls pass(), and sleeping is offline. Call it before the first turn,
  /// or with null after the last; the participant outlives its use here.
  void set_epochs(Epochs::Participant* participant) { epochs_ = participant; }

  /// The trace for trace_event(); null (in simulation): none. It outlives the reactor.
  void set_trace(TimeTrace* trace) { trace_ = trace; }
  /// Traces a step of an operation. `what` is a string literal; `id` the id of the call; the
  /// meaning of `value` depends on `what`.
  void trace_event(const char* what, uint64_t id, uint64_t value) {
    if (trace_ != nullptr) trace_->record(what, id, value);
  }

  /// The remaining budget of this phase. Handlers spend it, and leave further work to a later turn
  /// (docs/design/runtime.md#turns).
  TurnBudget& budget() { return budget_; }
  /// True if outside events were handled in this turn: work of a lower priority gives way to them.
  bool had_events() const { return had_events_; }
  /// The meter is called for each turn; null (in simulation): none. It outlives its use here.
  void set_meter(TurnMeter* meter) { meter_ = meter; }

  /// Turns so far: shows a health check that the event loop runs. Any thread.
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
  bool run_hooks();
  void wait_or_yield();
  void wait_for_work();
  void adapt_polling();
  void go_to_sleep();
  void wake_up();
  bool may_sleep() const;

  Clock& clock_;
  EventSource& events_;
  Random random_;
  static constexpr int kMostPolling = 4;
  Options options_;
  Duration poll_for_;  // options_.poll_for, or kMostPolling times that
  TimeTrace* trace_ = nullptr;
  TurnMeter* meter_ = nullptr;
  TurnBudget budget_;
  bool had_events_ = false;
  Epochs::Participant* epochs_ = nullptr;
  Time now_;
  Time last_arrival_;           // of work: a message, or work that another thread gave
  bool worked_ = false;         // the last turn did something
  std::vector<Timer*> timers_;  // binary heap by (when, sequence)
  uint64_t timer_sequence_ = 0;
  std::vector<TurnHook*> hooks_;
  std::vector<std::function<void()>> deferred_, running_;
  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by posted_mutex_
  std::atomic<bool> has_posted_{false};
  std::atomic<bool> nudged_{false};
  std::atomic<bool> sleeping_{false};
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

inline auto Reactor::sleep(Duration delay) {
  return detail::SleepAwaiter(*this, delay);
}

/// Owns root tasks of one owner; destroying it cancels them all. Finished ones are removed in a
/// later turn. Must not be destroyed by one of its own tasks, nor outlive its reactor while tasks
/// run.
class TaskScope {
 public:
  explicit TaskScope(Reactor& reactor) : reactor_(reactor) {}
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
  /// Starts the task at once; it runs until its first suspension.
  void spawn(Task<void> task);
  /// Tasks that have not finished.
  size_t running() const { return tasks_.size() - finished_; }
  /// Cancels all tasks; the scope can be used again.
  void cancel_all();

 private:
  struct Root {
    Task<void> task;
    TaskScope* scope;
    bool done = false;
  };
  static std::coroutine_handle<> on_root_done(void* root);
  void sweep();
  Reactor& reactor_;
  std::list<Root> tasks_;
  size_t finished_ = 0;  // tasks in tasks_ that wait for the sweep
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// An event that coroutines wait for: once set, waits return at once until reset. Waiters are
/// resumed in a later turn, in order of arrival; a reset() in between does not cancel that. If an
/// event is destroyed, its waiters stay suspended until their owner destroys them.
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
    Awaiter& operator=(const Awaiter&) = delete;
    bool await_ready() const { return event_->set_; }
    void await_suspend(std::coroutine_handle<> handle);
    void await_resume() const {}
    /// Stops waiting; the caller then resumes the coroutine.
    void leave();

   private:
    friend class Event;
    Event* event_;
    std::coroutine_handle<> waiting_{};
    std::list<Awaiter*>::iterator place_{};
    uint64_t sequence_ = 0;
    bool queued_ = false;
  };
  Awaiter operator co_await() { return Awaiter(*this); }

 private:
  void resume_waiters();
  Reactor& reactor_;
  bool set_ = false;
  bool resume_scheduled_ = false;
  std::list<Awaiter*> waiters_;
  uint64_t last_sequence_ = 0;
  uint64_t released_ = 0;  // waiters up to this sequence must be resumed
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// `bool set = co_await wait_until(reactor, event, deadline);` false: the deadline passed first (or
/// the event is over).
class EventWithDeadline {
 public:
  EventWithDeadline(Reactor& reactor, Event& event, Time deadline)
      : event_(event), deadline_(deadline), timer_(reactor, [this] { on_deadline(); }) {}
  bool await_ready() const { return event_.await_ready(); }
  void await_suspend(std::coroutine_handle<> handle) {
    waiting_ = handle;
    event_.await_suspend(handle);
    timer_.start_at(deadline_);
  }
  bool await_resume() {
    timer_.stop();
    return !timed_out_;
  }

 private:
  void on_deadline() {
    event_.leave();
    timed_out_ = true;
    waiting_.resume();
  }
  Event::Awaiter event_;
  Time deadline_;
  Timer timer_;
  std::coroutine_handle<> waiting_{};
  bool timed_out_ = false;
};
inline auto wait_until(Reactor& reactor, Event& event, Time deadline) {
  return EventWithDeadline(reactor, event, deadline);
}

/// Runs the reactor until the task is done and returns its result: for tests and for programs that
/// drive their own reactor. Must not be called from inside a turn.
template <typename T>
T run_task(Reactor& reactor, Task<T> task) {
  task.resume();
  reactor.run_until([&task] { return task.done(); });
  return task.take();
}

}  // namespace ramcloud
