#include "runtime/sim/sim_scheduler.h"

#include <gtest/gtest.h>

namespace ramcloud {
namespace {

TEST(SimScheduler, EventsRunInOrderOfTimeThenOfScheduling) {
  SimScheduler sim(1);
  std::string order;
  sim.after(2ms, [&] { order += 'c'; });
  sim.after(1ms, [&] { order += 'a'; });
  sim.after(1ms, [&] { order += 'b'; });
  const Time start = sim.now();
  sim.run_for(5ms);
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(sim.now(), start + 5ms);
}

TEST(SimScheduler, NodesTimersPostsAndDeliveriesRunInTheirTurns) {
  SimScheduler sim(1);
  SimNode& node = sim.add_node("a");
  std::string order;
  Timer timer(node.reactor(), [&] { order += 't'; });
  timer.start_after(2ms);
  node.reactor().post([&] { order += 'p'; });
  sim.deliver(node, sim.now() + 1ms, [&] { order += 'd'; });
  EXPECT_TRUE(sim.run_until([&] { return order.size() == 3; }, 10ms));
  EXPECT_EQ(order, "pdt");
}

TEST(SimScheduler, ANodeThatAlwaysHasWorkDoesNotStopTheClock) {
  SimScheduler sim(1);
  SimNode& busy = sim.add_node("busy");
  struct Hook : TurnHook {
    bool on_turn() override { return true; }
  } hook;
  busy.reactor().add_hook(&hook);
  sim.run_for(1ms);
  EXPECT_GE(busy.reactor().turns(), 900u);
  EXPECT_LE(busy.reactor().turns(), 1100u);
}

TEST(SimScheduler, KillDropsWhatWasMeantForThatLife) {
  SimScheduler sim(1);
  SimNode& node = sim.add_node("a");
  std::string order;
  sim.deliver(node, sim.now() + 1ms, [&] { order += 'x'; });
  node.reactor().post([&] { order += 'y'; });
  sim.kill(node);
  sim.run_for(500us);
  sim.restart(node);
  node.reactor().post([&] { order += 'z'; });
  sim.run_for(5ms);
  EXPECT_EQ(order, "z");
}

TEST(SimScheduler, AnObserverLooksOnAfterEveryStep) {
  const auto run = [](bool observed, std::string& seen) {
    SimScheduler sim(1);
    SimNode& a = sim.add_node("a");
    SimNode& b = sim.add_node("b");
    uint64_t steps = 0;
    if (observed) {
      sim.set_observer([&](SimNode* turned) {
        ++steps;
        seen += turned == nullptr ? "-" : turned->name();
      });
    }
    sim.deliver(b, sim.now() + 1ms, [&] { a.reactor().post([] {}); });
    sim.run_for(1s);
    if (observed) EXPECT_EQ(steps, sim.events());
    return sim.event_hash();
  };
  std::string seen, nothing;
  EXPECT_EQ(run(true, seen), run(false, nothing)) << "looking changes nothing";
  EXPECT_NE(seen.find("-b"), std::string::npos) << seen;
  EXPECT_NE(seen.find("a", seen.find("-b")), std::string::npos) << seen;
}

TEST(SimScheduler, RunUntilGivesUpAtItsLimit) {
  SimScheduler sim(1);
  SimNode& node = sim.add_node("a");
  Timer timer(node.reactor(), [&] { timer.start_after(1ms); });
  timer.start_after(1ms);
  EXPECT_FALSE(sim.run_until([] { return false; }, 1s));
  timer.stop();
  EXPECT_FALSE(sim.run_until([] { return false; }, 1s));
}

TEST(SimScheduler, APausedNodeTakesNoTurns) {
  SimScheduler sim(1);
  SimNode& node = sim.add_node("a");
  Time fired{};
  Timer timer(node.reactor(), [&] { fired = sim.now(); });
  timer.start_after(2ms);
  const Time until = sim.now() + 50ms;
  sim.pause(node, until);
  EXPECT_TRUE(sim.run_until([&] { return fired != Time{}; }, 1s));
  EXPECT_GE(fired, until);
  EXPECT_EQ(sim.faults().of(Fault::kProcessPaused), 1u);
}

TEST(SimScheduler, AFastClockFiresTimersEarly) {
  SimScheduler sim(1);
  SimNode& fast = sim.add_node("fast");
  SimNode& slow = sim.add_node("slow");
  fast.clock().set_rate_error(1000);
  slow.clock().set_rate_error(-1000);
  const Time begin = sim.now();
  Duration fast_took{}, slow_took{};
  Timer a(fast.reactor(), [&] { fast_took = sim.now() - begin; });
  Timer b(slow.reactor(), [&] { slow_took = sim.now() - begin; });
  a.start_after(10s);
  b.start_after(10s);
  EXPECT_TRUE(
      sim.run_until([&] { return fast_took != Duration{} && slow_took != Duration{}; }, 30s));
  EXPECT_NEAR(static_cast<double>(fast_took / 1us), 9.99e6, 2e2);
  EXPECT_NEAR(static_cast<double>(slow_took / 1us), 10.01e6, 2e2);
  const uint64_t before = fast.clock().unix_ms();
  fast.clock().jump_wall(-3'600'000);
  EXPECT_EQ(fast.clock().unix_ms(), before - 3'600'000);
}

TEST(SimScheduler, FaultsThatMeetAreCountedAsPairs) {
  SimScheduler sim(1);
  sim.note(Fault::kMessageLost);
  sim.run_for(100ms);
  sim.note(Fault::kDiskSlow);
  sim.run_for(5s);
  sim.note(Fault::kSyncFailed);  // alone
  EXPECT_EQ(sim.faults().by_pair(),
            (std::map<std::string, uint64_t>{{"message_lost+disk_slow", 1}}));
  EXPECT_EQ(sim.faults().by_kind().size(), 3u);
}

}  // namespace
}  // namespace ramcloud
