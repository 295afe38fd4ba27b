// Runs tasks concurrently and waits for all of them.
#pragma once

#include <cassert>
#include <utility>
#include <vector>

#include "runtime/task.h"

namespace ramcloud {
namespace detail {

/// Starts every task and resumes the awaiting one when the last is done. The tasks belong to the
/// awaiting coroutine, so cancelling it cancels them.
template <typename T>
struct AllDone {
  std::vector<Task<T>>& tasks;
  size_t pending = 0;
  std::coroutine_handle<> waiting{};

  bool await_ready() const { return tasks.empty(); }
  bool await_suspend(std::coroutine_handle<> handle) {
    waiting = handle;
    pending = tasks.size() + 1;  // one for this loop, so that nobody resumes us while it runs
    for (auto& task : tasks) {
      assert(task.valid());
      task.promise().on_done = &AllDone::on_task_done;
      task.promise().on_done_arg = this;
      task.resume();
    }
    return --pending > 0;
  }
  void await_resume() const {}

  static std::coroutine_handle<> on_task_done(void* arg) {
    auto& self = *static_cast<AllDone*>(arg);
    if (--self.pending == 0) return self.waiting;
    return std::noop_coroutine();
  }
};

}  // namespace detail

/// The results, in the order of the tasks.
template <typename T>
Task<std::vector<T>> when_all(std::vector<Task<T>> tasks) {
  co_await detail::AllDone<T>{tasks};
  std::vector<T> results;
  results.reserve(tasks.size());
  for (auto& task : tasks) results.push_back(task.take());
  co_return results;
}

inline Task<void> when_all(std::vector<Task<void>> tasks) {
  co_await detail::AllDone<void>{tasks};
}

}  // namespace ramcloud
