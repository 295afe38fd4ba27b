#include "runtime/reactor.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "runtime/turn_meter.h"

namespace ramcloud {

// ---- Timer

Timer::Timer(Reactor& reactor, std::function<void()> on_fire)
    : reactor_(reactor), on_fire_(std::move(on_fire)) {}

Timer::~Timer() {
  stop();
}

void Timer::start_at(Time when) {
  stop();
  when_ = when;
  reactor_.timer_insert(*this);
}

void Timer::start_after(Duration delay) {
  const Time now = reactor_.now();
  start_at(delay >= kNever - now ? kNever : now + delay);
}

void Timer::stop() {
  if (running()) reactor_.timer_remove(*this);
}

// ---- Reactor

Reactor::Reactor(Clock& clock, EventSource& events, uint64_t seed, Options options)
    : clock_(clock),
      events_(events),
      random_(seed),
      options_(options),
      poll_for_(options.poll_for),
      budget_(clock),
      now_(clock.now()),
      last_arrival_(now_) {
  events_.set_budget(&budget_);
}

Reactor::~Reactor() {
  events_.set_budget(nullptr);
  // Timers whose owners outlive the reactor are stopped.
  for (Timer* timer : timers_) timer->heap_index_ = Timer::kIdle;
  timers_.clear();
}

void Reactor::post(std::function<void()> fn) {
  {
    const std::lock_guard guard(posted_mutex_);
    posted_.push_back(std::move(fn));
  }
  // Either we see that the reactor sleeps, or it sees the work before it sleeps (both seq_cst).
  has_posted_.store(true, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst)) events_.wake();
}

void Reactor::nudge() {
  // As in post(): either we see that it sleeps, or it sees the nudge before it sleeps.
  nudged_.store(true, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst)) events_.wake();
}

void Reactor::defer(std::function<void()> fn) {
  deferred_.push_back(std::move(fn));
}

void Reactor::add_hook(TurnHook* hook) {
  hooks_.push_back(hook);
}

void Reactor::remove_hook(TurnHook* hook) {
  // Set to null instead of erased, because a hook may remove itself or another while run_hooks()
  // walks the list.
  std::ranges::replace(hooks_, hook, static_cast<TurnHook*>(nullptr));
}

bool Reactor::turn() {
  const Time now = clock_.now();
  const auto took = (now - now_).count();
  if (worked_) busy_ns_.fetch_add(static_cast<uint64_t>(took), std::memory_order_relaxed);
  if (meter_ != nullptr) worked_ ? meter_->worked(took) : meter_->idle(took);
  now_ = now;
  if (epochs_ != nullptr) epochs_->pass();
  // Cleared before any source is checked, so that later work nudges again.
  const bool nudged =
      nudged_.load(std::memory_order_relaxed) && nudged_.exchange(false, std::memory_order_acq_rel);
  // Events first. After a long pause a coroutine that is started from outside must not send over a
  // connection whose end-of-file event is pending.
  budget_.begin(TurnBudget::kEvents, now_ + TurnBudget::kEventsUntil);
  had_events_ = events_.poll();
  budget_.begin(TurnBudget::kPosted, now_ + TurnBudget::kPostedUntil);
  // Heartbeats, and work that timers begin, are in no hurry: after them the reactor sleeps at once.
  const bool message = had_events_ && !events_.only_heartbeats();
  if (nudged || message || has_posted_.load(std::memory_order_relaxed)) last_arrival_ = now_;
  worked_ = run_posted() || nudged || had_events_;
  worked_ = fire_timers() || worked_;
  budget_.begin(TurnBudget::kPosted, now_ + TurnBudget::kHooksUntil);
  worked_ = run_hooks() || worked_;
  turns_.fetch_add(1, std::memory_order_relaxed);
  return worked_;
}

void Reactor::run() {
  if (epochs_ != nullptr) epochs_->go_online();
  while (!stop_.load(std::memory_order_relaxed)) {
    if (!turn()) wait_or_yield();
  }
  if (epochs_ != nullptr) epochs_->go_offline();
}

void Reactor::run_until(const std::function<bool()>& done) {
  // Once done() was true it is not called again, because it may be true only for a moment.
  while (!done() && !stop_.load(std::memory_order_relaxed)) {
    if (turn()) continue;
    if (done()) return;
    wait_or_yield();
  }
}

Duration Reactor::run_ready() {
  wake_up();
  while (turn()) {
  }
  go_to_sleep();
  if (!may_sleep()) return Duration::zero();
  const Time deadline = next_deadline();
  constexpr Duration kLongest = std::chrono::hours(1);
  return deadline == kNever ? kLongest : std::clamp(deadline - now_, Duration::zero(), kLongest);
}

void Reactor::stop() {
  stop_.store(true, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst)) events_.wake();
}

Time Reactor::next_deadline() const {
  return timers_.empty() ? kNever : timers_.front()->when_;
}

void Reactor::wait_or_yield() {
  if (poll_for_ < Duration::zero() || now_ - last_arrival_ < poll_for_) {
    sched_yield();
  } else {
    wait_for_work();
  }
}

void Reactor::go_to_sleep() {
  if (epochs_ != nullptr) epochs_->go_offline();
  sleeping_.store(true, std::memory_order_seq_cst);
}

void Reactor::wake_up() {
  sleeping_.store(false, std::memory_order_relaxed);
  if (epochs_ != nullptr) epochs_->go_online();
}

/// Called after go_to_sleep(): a thread that posts work after that sees that we sleep, and wakes
/// us.
bool Reactor::may_sleep() const {
  return deferred_.empty() && !has_posted_.load(std::memory_order_seq_cst) &&
         !nudged_.load(std::memory_order_seq_cst) && !stop_.load(std::memory_order_seq_cst);
}

void Reactor::wait_for_work() {
  go_to_sleep();
  if (may_sleep()) {
    const Time deadline = next_deadline();
    if (deadline > now_) {
      events_.wait(now_, deadline);
      if (poll_for_ > Duration::zero()) adapt_polling();
    }
  }
  wake_up();
}

/// Polling adapts (docs/design/runtime.md): called after a sleep. On virtual machines a wake may
/// take longer than the polling, 50 to 100 us. Then after one delayed message all processes of an
/// exchange would sleep in each step, because each waits for another that must be woken first. So
/// if longer polling would have caught the work, the next polling is longer. If not, longer polling
/// would only waste the core.
void Reactor::adapt_polling() {
  const Duration most = options_.poll_for * kMostPolling;
  poll_for_ = clock_.now() - last_arrival_ < most ? most : options_.poll_for;
}

int64_t thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

bool Reactor::run_posted() {
  if (deferred_.empty() && !has_posted_.load(std::memory_order_relaxed)) return false;
  running_.swap(deferred_);
  if (has_posted_.exchange(false, std::memory_order_acq_rel)) {
    const std::lock_guard guard(posted_mutex_);
    running_.insert(running_.end(), std::make_move_iterator(posted_.begin()),
                    std::make_move_iterator(posted_.end()));
    posted_.clear();
  }
  for (auto& fn : running_) {
    fn();
    fn = nullptr;  // destroys what `fn` captured now, in order
  }
  running_.clear();
  return true;
}

bool Reactor::run_hooks() {
  bool worked = false;
  bool blanks = false;
  for (size_t i = 0; i < hooks_.size(); ++i) {
    if (hooks_[i] != nullptr) {
      worked = hooks_[i]->on_turn() || worked;
    } else {
      blanks = true;
    }
  }
  if (blanks) std::erase(hooks_, nullptr);
  return worked;
}

// ---- the timer heap

void Reactor::timer_insert(Timer& timer) {
  timer.sequence_ = ++timer_sequence_;
  timer.heap_index_ = timers_.size();
  timers_.push_back(&timer);
  sift_up(timer.heap_index_);
}

void Reactor::timer_remove(Timer& timer) {
  const size_t index = timer.heap_index_;
  timer.heap_index_ = Timer::kIdle;
  Timer* last = timers_.back();
  timers_.pop_back();
  if (last == &timer) return;
  timers_[index] = last;
  last->heap_index_ = index;
  sift_up(index);
  sift_down(last->heap_index_);
}

namespace {
constexpr size_t parent_of(size_t index) {
  return (index - 1) / 2;
}
}  // namespace

bool Timer::before(const Timer& other) const {
  return when_ != other.when_ ? when_ < other.when_ : sequence_ < other.sequence_;
}

void Reactor::sift_up(size_t index) {
  Timer* moving = timers_[index];
  while (index > 0 && moving->before(*timers_[parent_of(index)])) {
    timers_[index] = timers_[parent_of(index)];
    timers_[index]->heap_index_ = index;
    index = parent_of(index);
  }
  timers_[index] = moving;
  moving->heap_index_ = index;
}

void Reactor::sift_down(size_t index) {
  Timer* moving = timers_[index];
  for (;;) {
    size_t child = 2 * index + 1;
    if (child >= timers_.size()) break;
    if (child + 1 < timers_.size() && timers_[child + 1]->before(*timers_[child])) ++child;
    if (!timers_[child]->before(*moving)) break;
    timers_[index] = timers_[child];
    timers_[index]->heap_index_ = index;
    index = child;
  }
  timers_[index] = moving;
  moving->heap_index_ = index;
}

bool Reactor::fire_timers() {
  bool fired = false;
  // Timers started by these callbacks wait for the next turn, even when already due.
  const uint64_t last = timer_sequence_;
  while (!timers_.empty() && timers_.front()->when_ <= now_ && timers_.front()->sequence_ <= last) {
    Timer& timer = *timers_.front();
    timer_remove(timer);
    fired = true;
    timer.on_fire_();  // may destroy the timer
  }
  return fired;
}

// ---- TaskScope

TaskScope::~TaskScope() {
  cancel_all();
}

void TaskScope::cancel_all() {
  finished_ = 0;
  // One by one, each removed from the list first, because a task's destructors may use the scope.
  while (!tasks_.empty()) {
    std::list<Root> dying;
    dying.splice(dying.begin(), tasks_, tasks_.begin());
  }
}

void TaskScope::spawn(Task<void> task) {
  Root& root = tasks_.emplace_back(std::move(task), this);
  root.task.promise().on_done = &TaskScope::on_root_done;
  root.task.promise().on_done_arg = &root;
  root.task.resume();
}

std::coroutine_handle<> TaskScope::on_root_done(void* arg) {
  auto& root = *static_cast<Root*>(arg);
  TaskScope& scope = *root.scope;
  root.done = true;
  if (scope.finished_++ == 0) {
    scope.reactor_.defer([&scope, alive = std::weak_ptr(scope.alive_)] {
      if (!alive.expired()) scope.sweep();
    });
  }
  return std::noop_coroutine();
}

void TaskScope::sweep() {
  std::list<Root> dead;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    const auto next = std::next(it);
    if (it->done) dead.splice(dead.end(), tasks_, it);
    it = next;
  }
  finished_ = 0;
}

// ---- Event

Event::~Event() {
  for (Awaiter* waiter : waiters_) {
    waiter->queued_ = false;
    waiter->event_ = nullptr;
  }
}

void Event::set() {
  set_ = true;
  if (waiters_.empty()) return;
  released_ = last_sequence_;
  if (resume_scheduled_) return;
  resume_scheduled_ = true;
  reactor_.defer([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) resume_waiters();
  });
}

void Event::resume_waiters() {
  resume_scheduled_ = false;
  const uint64_t up_to = released_;
  const std::weak_ptr<bool> alive = alive_;
  // A resumed coroutine may destroy other waiters, wait again, or destroy this event.
  while (!waiters_.empty() && waiters_.front()->sequence_ <= up_to) {
    Awaiter& waiter = *waiters_.front();
    waiters_.pop_front();
    waiter.queued_ = false;
    waiter.waiting_.resume();
    if (alive.expired()) return;
  }
}

Event::Awaiter::~Awaiter() {
  leave();
}

void Event::Awaiter::leave() {
  if (queued_) event_->waiters_.erase(place_);
  queued_ = false;
}

void Event::Awaiter::await_suspend(std::coroutine_handle<> handle) {
  waiting_ = handle;
  sequence_ = ++event_->last_sequence_;
  queued_ = true;
  place_ = event_->waiters_.insert(event_->waiters_.end(), this);
}

}  // namespace ramcloud
