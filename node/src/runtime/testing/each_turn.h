// For tests of parts of a reactor's turn: calls the parts in the given order.
#pragma once

#include <tuple>

#include "runtime/reactor.h"

namespace ramcloud::testing {

/// Calls on_turn() of the parts at the end of each turn, one after the other.
template <typename... Parts>
class EachTurn final : public TurnHook {
 public:
  EachTurn(Reactor& reactor, Parts&... parts) : reactor_(reactor), parts_(parts...) {
    reactor_.add_hook(this);
  }
  ~EachTurn() override { reactor_.remove_hook(this); }
  EachTurn(const EachTurn&) = delete;
  EachTurn& operator=(const EachTurn&) = delete;

  bool on_turn() override {
    bool worked = false;
    std::apply([&](auto&... part) { ((worked = part.on_turn() || worked), ...); }, parts_);
    return worked;
  }

 private:
  Reactor& reactor_;
  std::tuple<Parts&...> parts_;
};

}  // namespace ramcloud::testing
