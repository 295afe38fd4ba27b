// Asks several reactors whether they still turn, by letting each of them turn.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/reactor.h"

namespace ramcloud {

/// Belongs to one reactor. A round is a post to each of the others; when it has come back from all,
/// what waited for it is called, on this reactor. A reactor that hangs never lets it come back, so
/// callbacks that wait for it are never called: a ping that is answered from here says that all are
/// well.
class TurnRound {
 public:
  /// `others` outlive this, and turn, or are stopped, while it lives.
  TurnRound(Reactor& reactor, std::vector<Reactor*> others)
      : reactor_(reactor), others_(std::move(others)) {}
  TurnRound(const TurnRound&) = delete;
  TurnRound& operator=(const TurnRound&) = delete;

  /// `fn` runs when every other reactor has turned since this call: at once if there is none.
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
