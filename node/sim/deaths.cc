#include "sim/deaths.h"

#include <fmt/core.h>

#include <algorithm>

#include "backup/frame_format.h"
#include "store/object_store.h"

namespace ramcloud::sim {
namespace {

constexpr uint64_t kWithinMs = 8'000;
constexpr uint64_t kMostAwayMs = 6'000;
constexpr Duration kStayAway = 45s;  // servers that are missing at a cold start
constexpr Duration kRecoveryBeginsWithin = 30s;
constexpr Duration kLookForRecovery = 500us;

constexpr const char* kNames[] = {"kill",
                                  "reboot the host of",
                                  "suspend",
                                  "cut off",
                                  "kill the leader, not",
                                  "kill all, not only",
                                  "cut one way",
                                  "pause within a turn, by the dice, not",
                                  "kill, and flip a bit on the device of",
                                  "in a recovery, strike by the dice, not"};

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string Deaths::Death::text() const {
  return fmt::format("at {:.3f} s for {:.3f} s: {} server {}", seconds(at), seconds(away),
                     kNames[static_cast<size_t>(kind)], server + 1);
}

Deaths::Deaths(Cluster& cluster, const ClusterOptions& options, Random& random,
               const std::optional<std::vector<uint32_t>>& only)
    : cluster_(cluster), options_(options) {
  const auto count = static_cast<uint32_t>(1 + random.below(5));
  const bool together = random.chance(0.3);
  // Acknowledged data is in R page caches, so at most R - 1 hosts may lose theirs.
  page_caches_left_ = std::max(options.replicas, 1u) - 1;
  std::optional<Duration> first;
  for (uint32_t i = 0; i < count; ++i) {
    Death death = draw(random);
    const auto soon = std::chrono::microseconds(random.below(10'000));
    if (together && first) death.at = *first + soon;
    first = first.value_or(death.at);
    bound(death);
    texts_[i] = death.text();
    if (!only || std::ranges::count(*only, i) > 0) deaths_.push_back(death);
  }
}

Deaths::Death Deaths::draw(Random& random) {
  Death death;
  death.kind = static_cast<Kind>(random.below(static_cast<uint64_t>(Kind::kCount)));
  death.at = std::chrono::microseconds(random.below(kWithinMs * 1000));
  death.away = std::chrono::milliseconds(1 + random.below(kMostAwayMs));
  death.server = random.below(options_.servers);
  death.dice = random.next();
  return death;
}

/// Replaces a fault that would lose the last of R replicas by a milder one.
void Deaths::bound(Death& death) {
  const bool takes_cache = death.kind == Kind::kReboot && !options_.synced;
  if (!takes_cache && death.kind != Kind::kDamage) return;
  const bool damage = death.kind == Kind::kDamage;
  if (page_caches_left_ == 0 || (damage && damaged_)) {
    death.kind = Kind::kKill;
    return;
  }
  --page_caches_left_;
  damaged_ = damaged_ || damage;
}

void Deaths::begin() {
  cluster_.set_failpoint_probe([this](size_t number, const Cluster::Role& role) {
    for (Trap& trap : traps_) {
      if (trap.number != number || trap.passes_left == 0 || --trap.passes_left > 0) continue;
      ++strikes_;
      if (role.coordinator) {
        cluster_.pause_coordinator(role.index, trap.length);
      } else {
        cluster_.pause_server(role.index, trap.length);
      }
    }
  });
  for (const Death& death : deaths_) undo(death.at, [this, &death] { strike(death); });
}

void Deaths::undo(Duration after, std::function<void()> fn) {
  ++going_on_;
  cluster_.scheduler().after(after, [this, fn = std::move(fn)] {
    fn();
    --going_on_;
  });
}

bool Deaths::down(size_t server, bool reboot) {
  if (!cluster_.server_runs(server)) return false;
  ++strikes_;
  down_.insert(server);
  reboot ? cluster_.reboot_server(server) : cluster_.kill_server(server);
  return true;
}

void Deaths::back(size_t server) {
  if (down_.erase(server) > 0) cluster_.restart_server(server);
}

void Deaths::strike(const Death& death) {
  switch (death.kind) {
    case Kind::kKill:
      return take_down(death, false, 0);
    case Kind::kReboot:
      return take_down(death, true, 0);
    case Kind::kDamage:
      return take_down(death, false, 1);
    case Kind::kSuspend:
      if (!cluster_.server_runs(death.server)) return;
      ++strikes_;
      cluster_.pause_server(death.server, death.away);
      return undo(death.away, [] {});
    case Kind::kCutOff:
      return cut_off(death);
    case Kind::kCutOneWay:
      return cut_one_way(death);
    case Kind::kLeader:
      return kill_leader(death.away);
    case Kind::kColdStart:
      return cold_start(death);
    case Kind::kPauseInTurn:
      traps_.push_back({.number = death.dice % kFailpointCount,
                        .passes_left = 1 + death.dice / kFailpointCount % 20,
                        .length = death.away});
      return;
    case Kind::kInRecovery:
      return wait_for_a_recovery(death, cluster_.scheduler().now() + kRecoveryBeginsWithin);
    case Kind::kCount:
      return;
  }
}

void Deaths::take_down(const Death& death, bool reboot, uint32_t damaged_sectors) {
  if (!down(death.server, reboot)) return;
  // Damages only replicas of an earlier server, because a live master compares its replicas.
  if (damaged_sectors > 0) cluster_.disk(death.server).damage(damaged_sectors, kSuperblockBytes);
  undo(death.away, [this, server = death.server] { back(server); });
}

void Deaths::cut_off(const Death& death) {
  for (size_t i = 0; i < cluster_.servers(); ++i) {
    if (i != death.server) cluster_.cut_off(death.server, i);
  }
  for (size_t i = 0; i < cluster_.coordinators(); ++i) {
    for (SimNode* node : cluster_.nodes_of_server(death.server)) {
      cluster_.network().partition(*node, cluster_.coordinator_sim_node(i));
    }
  }
  ++strikes_;
  undo(death.away, [this] { cluster_.network().heal_all(); });
}

/// Cuts one direction: from or to one other server, from or to all coordinators, or everything that
/// the server sends.
void Deaths::cut_one_way(const Death& death) {
  const size_t other =
      (death.server + 1 + death.dice / 8 % (options_.servers - 1)) % options_.servers;
  const bool out = death.dice % 2 == 0;
  if (death.dice % 8 < 4) {
    out ? cluster_.cut_off_one_way(death.server, other)
        : cluster_.cut_off_one_way(other, death.server);
  }
  if (death.dice % 8 >= 4) {
    SimNode& server = cluster_.server_sim_node(death.server);
    for (size_t i = 0; i < cluster_.coordinators(); ++i) {
      SimNode& coordinator = cluster_.coordinator_sim_node(i);
      out ? cluster_.network().partition_one_way(server, coordinator)
          : cluster_.network().partition_one_way(coordinator, server);
    }
  }
  if (death.dice % 8 == 7) {
    for (size_t i = 0; i < cluster_.servers(); ++i) {
      if (i != death.server) cluster_.cut_off_one_way(death.server, i);
    }
  }
  ++strikes_;
  undo(death.away, [this] { cluster_.network().heal_all(); });
}

void Deaths::kill_leader(Duration away) {
  size_t leader = 0;
  if (cluster_.coordinator(&leader) == nullptr) return;
  ++strikes_;
  cluster_.kill_coordinator(leader);
  undo(away, [this, leader] { cluster_.restart_coordinator(leader); });
}

/// R - 1 servers may return much later than the others.
void Deaths::cold_start(const Death& death) {
  const bool reboot = options_.synced && death.dice % 2 == 0;
  const size_t late = death.dice / 2 % std::max(options_.replicas, 1u);
  for (size_t n = 0; n < cluster_.servers(); ++n) {
    const size_t server = (death.server + n) % cluster_.servers();
    if (!down(server, reboot)) continue;
    const Duration away = n < late ? kStayAway : Duration(death.away + n * 50ms);
    undo(away, [this, server] { back(server); });
  }
}

void Deaths::wait_for_a_recovery(const Death& death, Time until) {
  if (strike_recovery(death) || cluster_.scheduler().now() >= until) return;
  undo(kLookForRecovery, [this, &death, until] { wait_for_a_recovery(death, until); });
}

/// False: there is no recovery in that state.
bool Deaths::strike_recovery(const Death& death) {
  using Phase = RecoveryProgress::Phase;
  Coordinator* leading = cluster_.coordinator();
  if (leading == nullptr) return false;
  const Phase phase = death.dice % 2 == 0 ? Phase::kReplaying : Phase::kHandingOver;
  const bool there = std::ranges::any_of(leading->state().recoveries, [&](const auto& recovery) {
    return recovery.second.phase == phase;
  });
  if (!there) return false;
  const uint64_t whom = death.dice / 2 % 4;
  if (whom == 3) {
    kill_leader(death.away);
    return true;
  }
  const std::optional<size_t> victim = recovery_master(whom != 2);
  if (!victim || !down(*victim, false)) return false;
  undo(death.away, [this, server = *victim] { back(server); });
  return true;
}

/// A recovery master, or (`is_one` false) another server: a source.
std::optional<size_t> Deaths::recovery_master(bool is_one) {
  for (size_t i = 0; i < cluster_.servers(); ++i) {
    if (!cluster_.server_runs(i)) continue;
    const auto* store = cluster_.server(i).parts().store;
    const bool recovers =
        store != nullptr && std::ranges::any_of(store->tablets(), [](const auto& tablet) {
          return tablet.state == store::TabletState::kRecovering;
        });
    if (recovers == is_one) return i;
  }
  return std::nullopt;
}

}  // namespace ramcloud::sim
