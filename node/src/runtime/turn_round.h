// Checks that several reactors still run, by running a function on each of them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/reactor.h"

namespace ramcloud {

/// Belongs to one reactor. A round posts a function to each of the others. When all have run it,
/// the callbacks of the round are called on this reactor. If a reactor hangs, they are never
/// called; so a ping that is answered from a callback proves that all reactors run.
class TurnRound {
 public:
  /// `others` outlive this. They run, or are stopped, during its lifetime.
  TurnRound(Reactor& reactor, std::vector<Reactor*> others)
      : reactor_(reactor), others_(std::move(others)) {}
  TurnRound(const TurnRound&) = delete;
  TurnRound& operator=(const TurnRound&) = delete;

  /// `fn` runs when every other reactor has run a turn since this call; at once if there are no
  /// others.
  void after_all_turned(std::function<void()> fn) {
    if (others_.empty()) return fn();
    waiting_.push_back(std::move(fn));
    if (served_.empty()) start();
  }

 private:
  void start() {
    served_.swap(waiting_);
    auto left = std::make_shared<std::atomic<size_t>>(others_.size());
    for (Reactor* other : others_) {
      other->post([this, left, &home = reactor_, alive = std::weak_ptr(alive_)] {
        if (left->fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        home.post([this, alive] {
          if (!alive.expired()) finish();
        });
      });
    }
  }
  void finish() {
    for (auto& fn : std::exchange(served_, {})) fn();
    if (!waiting_.empty() && served_.empty()) start();
  }

  Reactor& reactor_;
  std::vector<Reactor*> others_;
  std::vector<std::function<void()>> waiting_;  // for the next round: the current one began before
  std::vector<std::function<void()>> served_;   // by the current round
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ramcloud
