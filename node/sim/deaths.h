// Faults of servers with data in a simulated cluster, and of the coordinator that leads, drawn from
// a seed before it begins. FaultPlan never makes servers with tablets be given up; here they are,
// and their tablets are recovered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "sim/cluster.h"

namespace ramcloud::sim {

class Deaths {
 public:
  /// Never so many that data loss would be correct. `only`: the numbers of the faults to inject, if
  /// not all.
  Deaths(Cluster& cluster, const ClusterOptions& options, Random& random,
         const std::optional<std::vector<uint32_t>>& only);
  /// Starts the faults. When over() is true, all faults have ended and every server is back.
  void begin();
  bool over() const { return going_on_ == 0; }
  /// The number of faults that had an effect.
  uint64_t strikes() const { return strikes_; }
  /// For people, by number.
  const std::map<uint32_t, std::string>& texts() const { return texts_; }

 private:
  enum class Kind : uint8_t {
    kKill,
    kReboot,
    kSuspend,
    kCutOff,
    kLeader,
    kColdStart,
    kCutOneWay,
    kPauseInTurn,
    kDamage,
    kInRecovery,
    kCount
  };
  struct Death {
    Kind kind = Kind::kKill;
    Duration at{};    // since begin()
    Duration away{};  // until it is undone
    size_t server = 0;
    uint64_t dice = 0;  // random bits for other choices
    std::string text() const;
  };
  /// A pause within a turn: at the given future pass of a failpoint.
  struct Trap {
    size_t number = 0;
    uint64_t passes_left = 0;
    Duration length{};
  };
  Death draw(Random& random);
  void bound(Death& death);
  void strike(const Death& death);
  void take_down(const Death& death, bool reboot, uint32_t damaged_sectors);
  void cut_off(const Death& death);
  void cut_one_way(const Death& death);
  void kill_leader(Duration away);
  void cold_start(const Death& death);
  void wait_for_a_recovery(const Death& death, Time until);
  bool strike_recovery(const Death& death);
  std::optional<size_t> recovery_master(bool is_one);
  bool down(size_t server, bool reboot);
  void back(size_t server);
  /// Calls `fn` when the time of the death is over.
  void undo(Duration after, std::function<void()> fn);

  Cluster& cluster_;
  ClusterOptions options_;
  std::vector<Death> deaths_;
  std::map<uint32_t, std::string> texts_;
  std::set<size_t> down_;
  std::vector<Trap> traps_;
  uint32_t page_caches_left_ = 0;  // page caches that may still be lost without losing acknowledged
                                   // data
  bool damaged_ = false;
  uint64_t strikes_ = 0;
  uint32_t going_on_ = 0;
};

}  // namespace ramcloud::sim
