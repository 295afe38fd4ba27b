// A lock for coroutines on one reactor, in order of arrival; waiting does not block the thread.
#pragma once

#include <coroutine>
#include <list>
#include <memory>
#include <utility>

#include "runtime/reactor.h"

namespace ramcloud {

/// `AsyncMutex::Lock lock = co_await mutex.lock();` holds until the Lock is destroyed or released.
/// A waiting coroutine that is destroyed leaves the queue. If the mutex is destroyed before its
/// locks and waiters, locks release nothing, and waiters stay suspended until their owner destroys
/// them.
class AsyncMutex {
 public:
  /// So many tasks may hold it at the same time.
  explicit AsyncMutex(Reactor& reactor, size_t holders = 1)
      : state_(std::make_shared<State>(reactor, holders)) {}
  ~AsyncMutex() { state_->dead = true; }
  AsyncMutex(const AsyncMutex&) = delete;
  AsyncMutex& operator=(const AsyncMutex&) = delete;

 private:
  struct Waiter;
  struct State {
    State(Reactor& r, size_t holders) : reactor(r), free(holders) {}
    Reactor& reactor;
    size_t free;
    bool dead = false;
    std::list<Waiter*> waiters;
  };

 public:
  class Lock {
   public:
    Lock() = default;
    Lock(Lock&& other) noexcept : state_(std::move(other.state_)) {}
    Lock& operator=(Lock&& other) noexcept {
      if (this != &other) {
        release();
        state_ = std::move(other.state_);
      }
      return *this;
    }
    ~Lock() { release(); }
    bool held() const { return state_ != nullptr; }
    void release() {
      if (auto state = std::exchange(state_, nullptr)) AsyncMutex::unlock(state);
    }

   private:
    friend class AsyncMutex;
    explicit Lock(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  auto lock() { return Waiter(state_); }
  bool is_locked() const { return state_->free == 0; }

 private:
  struct Waiter {
    explicit Waiter(std::shared_ptr<State> s) : state(std::move(s)) {}
    ~Waiter() {
      if (queued) state->waiters.erase(place);
      // Destroyed after it got the lock but before it was resumed: pass the lock on.
      if (granted) unlock(state);
    }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    bool await_ready() {
      if (state->free == 0) return false;
      --state->free;
      return granted = true;
    }
    void await_suspend(std::coroutine_handle<> handle) {
      waiting = handle;
      queued = true;
      place = state->waiters.insert(state->waiters.end(), this);
    }
    Lock await_resume() {
      granted = false;
      return Lock(state);
    }
    std::shared_ptr<State> state;
    std::coroutine_handle<> waiting{};
    std::list<Waiter*>::iterator place{};
    std::shared_ptr<bool> alive = std::make_shared<bool>(true);
    bool queued = false;
    bool granted = false;
  };

  /// Hands the lock to the next waiter, which is resumed in a later turn.
  static void unlock(const std::shared_ptr<State>& state) {
    if (state->waiters.empty() || state->dead) {
      ++state->free;
      return;
    }
    Waiter* next = state->waiters.front();
    state->waiters.pop_front();
    next->queued = false;
    next->granted = true;
    state->reactor.defer([next, alive = std::weak_ptr(next->alive)] {
      if (!alive.expired()) next->waiting.resume();
    });
  }

  std::shared_ptr<State> state_;
};

}  // namespace ramcloud
