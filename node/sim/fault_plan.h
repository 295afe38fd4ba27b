// The faults of a simulated cluster, drawn from a seed before it begins, so that a failure can be
// replayed with fewer faults. Servers with tablets are never given up here (the scenario `recovery`
// does that), so their pauses and cuts are shorter than that takes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "sim/cluster.h"

namespace ramcloud::sim {

class FaultPlan {
 public:
  /// `owners` and `spares`: servers with and without tablets, at least two of each together and one
  /// spare. `only`: the numbers of the faults to inject, if not all.
  FaultPlan(Cluster& cluster, std::vector<size_t> owners, std::vector<size_t> spares, uint64_t seed,
            const std::optional<std::vector<uint32_t>>& only);
  /// Starts the faults. When over() is true, all have ended.
  void begin();
  bool over() const { return begun_ == faults_.size() && going_on_ == 0; }
  /// For people, by number.
  std::map<uint32_t, std::string> texts() const;

 private:
  enum class Kind : uint8_t {
    kCutOneWay,
    kCutFromCoordinator,
    kSwizzle,
    kSlowLink,
    kSlowDisk,
    kSyncErrors,
    kPause,
    kPauseAll,
    kPauseInTurn,
    kBreakSessions,
    kKill,
    kReboot,
    kJumpClock,
    kCount
  };
  struct Planned {
    uint32_t number = 0;
    Kind kind = Kind::kPause;
    Duration at{};        // since begin()
    Duration length{};    // until it is undone
    size_t a = 0, b = 0;  // servers
    uint64_t dice = 0;    // random bits for other choices
    std::string text() const;
  };
  Planned draw(uint32_t number);
  void strike(const Planned& fault);
  void swizzle(const Planned& fault);
  void take_down(const Planned& fault);
  /// Calls `fn` when the time of the fault is over.
  void undo(Duration after, std::function<void()> fn);
  size_t any_server();
  size_t any_spare() { return spares_[random_.below(spares_.size())]; }
  bool is_spare(size_t server) const;

  Cluster& cluster_;
  std::vector<size_t> owners_, spares_;
  Random random_;
  std::vector<Planned> faults_;
  std::set<size_t> down_;
  std::optional<size_t> failing_disk_;  // at most one, because its backup takes no replicas
                                        // afterwards
  size_t begun_ = 0;
  size_t going_on_ = 0;
  /// Pauses within a turn: at the given future pass of a failpoint, for a given time.
  struct Trap {
    size_t number = 0;
    uint64_t passes_left = 0;
    Duration length{};
  };
  std::vector<Trap> traps_;
};

}  // namespace ramcloud::sim
