// Lets a task wait for an operation that reports its end to a callback.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/status.h"
#include "runtime/reactor.h"
#include "runtime/task.h"

namespace ramcloud {

/// Usage: `Outcome outcome(reactor); begin(outcome.callback()); status = co_await outcome.wait();`
class Outcome {
 public:
  explicit Outcome(Reactor& reactor) : state_(std::make_shared<State>(reactor)) {}

  /// To be called once, on the reactor. The task that waits may be gone by then.
  std::function<void(Status)> callback() const {
    return [state = state_](Status status) {
      state->status = std::move(status);
      state->there.set();
    };
  }
  /// The status that the callback was called with, as soon as it was.
  Task<Status> wait() const { return wait_for(state_); }

 private:
  struct State {
    explicit State(Reactor& reactor) : there(reactor) {}
    Event there;
    Status status;
  };
  static Task<Status> wait_for(std::shared_ptr<State> state) {
    co_await state->there;
    co_return state->status;
  }
  std::shared_ptr<State> state_;
};

}  // namespace ramcloud
