// Task<T>: a lazily started coroutine for control tasks (enlisting, replication set-up, coordinator
// operations, client calls). Data-path handlers are plain functions, not coroutines.
//
// Ownership is cancellation: a Task owns its frame and everything it awaits. Destroying a suspended
// Task destroys the frames below it, and every awaiter cancels its registration (timer, call,
// waiter) in its destructor. So no callback ever reaches a destroyed task. Everything happens on
// the reactor's thread.
//
// Two things are forbidden. A task must not destroy its own frame while it runs (by destroying the
// scope it runs in). It must not be a lambda with captures that dies before the task: pass what it
// needs as parameters.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace ramcloud {

template <typename T = void>
class Task;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> continuation;
  // For root tasks (TaskScope, when_all): called when the task is done; returns the coroutine to
  // run next.
  std::coroutine_handle<> (*on_done)(void*) = nullptr;
  void* on_done_arg = nullptr;

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct Final {
    bool await_ready() noexcept { return false; }
    template <typename P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> self) noexcept {
      auto& promise = self.promise();
      if (promise.continuation) return promise.continuation;
      if (promise.on_done) return promise.on_done(promise.on_done_arg);
      return std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  Final final_suspend() noexcept { return {}; }
  // Errors are returned as Status; an exception that escapes a task is a bug.
  [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <typename U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() noexcept {}
  void take() {}
};

}  // namespace detail

template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool valid() const { return static_cast<bool>(handle_); }
  bool done() const { return handle_ && handle_.done(); }
  /// Starts or continues a root; only owners of roots (TaskScope, run loops) call it.
  void resume() { handle_.resume(); }
  /// The result of a task that is done.
  T take() { return handle_.promise().take(); }
  promise_type& promise() { return handle_.promise(); }

  /// Awaiting runs the task inside the awaiting one. The awaiter owns the frame meanwhile.
  auto operator co_await() && {
    struct Awaiter {
      Task task;
      bool await_ready() { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
        task.handle_.promise().continuation = caller;
        return task.handle_;
      }
      T await_resume() { return task.handle_.promise().take(); }
    };
    return Awaiter{std::move(*this)};
  }

 private:
  Handle handle_;
};

namespace detail {
template <typename T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace ramcloud
