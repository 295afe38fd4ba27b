#include "sim/fault_plan.h"

#include <fmt/core.h>

#include <algorithm>

namespace ramcloud::sim {
namespace {

constexpr const char* kKindNames[] = {"cut one way",
                                      "cut from the coordinator",
                                      "swizzle",
                                      "slow link",
                                      "slow disk",
                                      "sync errors",
                                      "pause",
                                      "pause all",
                                      "pause in a turn",
                                      "break sessions",
                                      "kill",
                                      "reboot the host",
                                      "jump of the wall clock"};

constexpr uint64_t kMostFaults = 12;
constexpr uint64_t kWithinMs = 3'000;
constexpr uint64_t kOwnerMs = 250;  // a silence this short does not make a server with tablets be
                                    // given up
constexpr uint64_t kSpareMs = 4'000;
constexpr int32_t kMostRateError = 200;  // in millionths, like a bad oscillator

Duration ms(uint64_t count) {
  return std::chrono::milliseconds(count);
}

}  // namespace

FaultPlan::FaultPlan(Cluster& cluster, std::vector<size_t> owners, std::vector<size_t> spares,
                     uint64_t seed, const std::optional<std::vector<uint32_t>>& only)
    : cluster_(cluster), owners_(std::move(owners)), spares_(std::move(spares)), random_(seed) {
  const auto count = static_cast<uint32_t>(1 + random_.below(kMostFaults));
  for (uint32_t i = 0; i < count; ++i) {
    Planned fault = draw(i);
    if (!only || std::ranges::count(*only, i) > 0) faults_.push_back(fault);
  }
}

bool FaultPlan::is_spare(size_t server) const {
  return std::ranges::count(spares_, server) > 0;
}

size_t FaultPlan::any_server() {
  const uint64_t chosen = random_.below(owners_.size() + spares_.size());
  return chosen < owners_.size() ? owners_[chosen] : spares_[chosen - owners_.size()];
}

FaultPlan::Planned FaultPlan::draw(uint32_t number) {
  Planned fault;
  fault.number = number;
  fault.kind = static_cast<Kind>(random_.below(static_cast<uint64_t>(Kind::kCount)));
  fault.at = std::chrono::microseconds(random_.below(kWithinMs * 1000));
  const bool needs_spare =
      fault.kind == Kind::kKill || fault.kind == Kind::kReboot || fault.kind == Kind::kSwizzle;
  fault.a = needs_spare ? any_spare() : any_server();
  do {
    fault.b = any_server();
  } while (fault.b == fault.a);
  const bool brief = !is_spare(fault.a) || fault.kind == Kind::kPauseAll;
  fault.length = ms(1 + random_.below(brief || random_.chance(0.4) ? kOwnerMs : kSpareMs));
  fault.dice = random_.next();
  return fault;
}

std::string FaultPlan::Planned::text() const {
  return fmt::format("at {:.3f} s for {:.3f} s: {}, servers {} and {}",
                     std::chrono::duration<double>(at).count(),
                     std::chrono::duration<double>(length).count(),
                     kKindNames[static_cast<size_t>(kind)], a + 1, b + 1);
}

std::map<uint32_t, std::string> FaultPlan::texts() const {
  std::map<uint32_t, std::string> texts;
  for (const Planned& fault : faults_) texts[fault.number] = fault.text();
  return texts;
}

void FaultPlan::begin() {
  for (size_t i = 0; i < cluster_.servers(); ++i) {
    const auto error = static_cast<int32_t>(random_.below(2 * kMostRateError + 1)) - kMostRateError;
    for (SimNode* node : cluster_.nodes_of_server(i)) node->clock().set_rate_error(error);
    if (error != 0) cluster_.scheduler().note(Fault::kClockRate);
  }
  cluster_.set_failpoint_probe([this](size_t number, const Cluster::Role& role) {
    if (role.coordinator) return;
    for (Trap& trap : traps_) {
      if (trap.number != number || trap.passes_left == 0 || --trap.passes_left > 0) continue;
      cluster_.pause_server(role.index, trap.length);
    }
  });
  for (const Planned& fault : faults_) {
    cluster_.scheduler().after(fault.at, [this, &fault] {
      ++begun_;
      strike(fault);
    });
  }
}

void FaultPlan::undo(Duration after, std::function<void()> fn) {
  ++going_on_;
  cluster_.scheduler().after(after, [this, fn = std::move(fn)] {
    --going_on_;
    fn();
  });
}

void FaultPlan::strike(const Planned& fault) {
  SimNetwork& network = cluster_.network();
  SimNode& node = cluster_.server_sim_node(fault.a);
  switch (fault.kind) {
    case Kind::kCutOneWay:
      cluster_.cut_off_one_way(fault.a, fault.b);
      return undo(fault.length, [&network] { network.heal_all(); });
    case Kind::kCutFromCoordinator: {
      SimNode& coordinator = cluster_.coordinator_sim_node(0);
      if (fault.dice % 2 == 0) {
        network.partition_one_way(node, coordinator);
      } else {
        network.partition_one_way(coordinator, node);
      }
      return undo(fault.length, [&network] { network.heal_all(); });
    }
    case Kind::kSwizzle:
      return swizzle(fault);
    case Kind::kSlowLink:
      cluster_.slow_link(fault.a, fault.b, ms(1 + fault.dice % 40));
      return undo(fault.length, [this, &fault] { cluster_.slow_link(fault.a, fault.b, {}); });
    case Kind::kSlowDisk:
      cluster_.disk(fault.a).set_slow(ms(10 + fault.dice % 400));
      return undo(fault.length, [this, &fault] { cluster_.disk(fault.a).set_slow({}); });
    case Kind::kSyncErrors:
      if (failing_disk_.value_or(fault.a) != fault.a) return;
      failing_disk_ = fault.a;
      cluster_.disk(fault.a).fail_syncs(1 + static_cast<uint32_t>(fault.dice % 3));
      return undo(fault.length, [this, &fault] { cluster_.disk(fault.a).fail_syncs(0); });
    case Kind::kPause:
      return cluster_.pause_server(fault.a, fault.length);
    case Kind::kPauseAll:
      for (size_t i = 0; i < cluster_.servers(); ++i) cluster_.pause_server(i, fault.length);
      return;
    case Kind::kPauseInTurn:
      traps_.push_back({.number = fault.dice % kFailpointCount,
                        .passes_left = 1 + fault.dice / kFailpointCount % 20,
                        .length = std::min(fault.length, ms(kOwnerMs))});
      return;
    case Kind::kBreakSessions:
      for (size_t i = 0; i < cluster_.servers(); ++i) {
        if (i == fault.a || fault.dice % 4 == 0)
          network.break_sessions_to(cluster_.server_sim_node(i));
      }
      return;
    case Kind::kKill:
    case Kind::kReboot:
      return take_down(fault);
    case Kind::kJumpClock:
      for (SimNode* one : cluster_.nodes_of_server(fault.a)) {
        one->clock().jump_wall(static_cast<int64_t>(fault.dice % 7'200'000) - 3'600'000);
      }
      return cluster_.scheduler().note(Fault::kClockJumped);
    case Kind::kCount:
      return;
  }
}

/// Cuts spare servers off from the others one after the other, and heals them in another order.
void FaultPlan::swizzle(const Planned& fault) {
  Random random(fault.dice);
  SimScheduler& scheduler = cluster_.scheduler();
  for (const size_t owner : owners_) {
    const auto most = static_cast<uint64_t>(fault.length / 1us) + 2;
    const auto cut = std::chrono::microseconds(random.below(most / 2));
    const auto healed = std::chrono::microseconds(most / 2 + random.below(most / 2 + 1));
    scheduler.after(cut, [this, owner, spare = fault.a] { cluster_.cut_off(owner, spare); });
    undo(healed, [this, owner, spare = fault.a] {
      for (const SimNode* a : cluster_.nodes_of_server(owner)) {
        for (const SimNode* b : cluster_.nodes_of_server(spare)) cluster_.network().heal(*a, *b);
      }
    });
  }
}

void FaultPlan::take_down(const Planned& fault) {
  if (!down_.insert(fault.a).second) return;
  if (fault.kind == Kind::kKill) {
    cluster_.kill_server(fault.a);
  } else {
    cluster_.reboot_server(fault.a);
  }
  undo(fault.length, [this, server = fault.a] {
    cluster_.restart_server(server);
    down_.erase(server);
  });
}

}  // namespace ramcloud::sim
