#include "runtime/reactor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "runtime/manual_source.h"

namespace ramcloud {
namespace {

class ReactorTest : public ::testing::Test {
 protected:
  /// Turns until nothing is left to do at this time.
  void run_until_idle() {
    while (reactor.turn()) {
    }
  }
  void advance(Duration d) {
    clock.advance(d);
    run_until_idle();
  }

  VirtualClock clock;
  ManualSource events;
  Reactor reactor{clock, events, 1, {}};
  std::vector<int> order;
};

TEST(TurnBudget, AfterASystemCallTheClockDecides) {
  VirtualClock clock;
  TurnBudget budget(clock);
  budget.begin(1000, clock.now() + 30us);
  EXPECT_FALSE(budget.spent());
  clock.advance(30us);
  EXPECT_FALSE(budget.spent()) << "no call, so nobody looks";
  budget.spend_on_call(1);
  EXPECT_TRUE(budget.spent());
  EXPECT_TRUE(budget.spent()) << "it stays so";
  budget.begin(1000, clock.now() + 30us);
  clock.advance(29us);
  budget.spend_on_call(1);
  EXPECT_FALSE(budget.spent());
  budget.spend(998);
  EXPECT_FALSE(budget.spent());
  budget.spend(1);
  EXPECT_TRUE(budget.spent());
}

TEST_F(ReactorTest, TimersFireInTimeOrderAndEqualOnesInStartOrder) {
  Timer a(reactor, [&] { order.push_back(1); });
  Timer b(reactor, [&] { order.push_back(2); });
  Timer c(reactor, [&] { order.push_back(3); });
  c.start_after(5ms);
  b.start_after(10ms);
  a.start_after(10ms);
  EXPECT_EQ(reactor.next_deadline(), reactor.now() + 5ms);
  advance(4ms);
  EXPECT_TRUE(order.empty());
  advance(6ms);
  EXPECT_EQ(order, (std::vector{3, 2, 1}));
  EXPECT_EQ(reactor.next_deadline(), kNever);
}

TEST_F(ReactorTest, ManyTimersStartedAndStoppedAtRandomFireExactlyWhenDue) {
  Random random(7);
  struct Entry {
    std::unique_ptr<Timer> timer;
    std::optional<Time> due;
  };
  std::vector<Entry> entries(200);
  Time now = reactor.now();
  for (auto& entry : entries) {
    entry.timer = std::make_unique<Timer>(reactor, [&] {
      ASSERT_TRUE(entry.due.has_value());
      EXPECT_LE(*entry.due, now);
      entry.due.reset();
    });
  }
  for (int step = 0; step < 2000; ++step) {
    for (int i = 0; i < 5; ++i) {
      Entry& entry = entries[random.below(entries.size())];
      if (random.chance(0.3)) {
        entry.timer->stop();
        entry.due.reset();
      } else {
        entry.due = reactor.now() + Duration(static_cast<int64_t>(1 + random.below(1'000'000)));
        entry.timer->start_at(*entry.due);
      }
    }
    clock.advance(20us);
    now = clock.now();
    run_until_idle();
    for (const auto& entry : entries) {
      EXPECT_EQ(entry.due.has_value(), entry.timer->running());
      if (entry.due) EXPECT_GT(*entry.due, now);
    }
  }
}

TEST_F(ReactorTest, ATimerCanStopOrDestroyAnotherInItsCallback) {
  Timer stopped(reactor, [&] { order.push_back(2); });
  auto destroyed = std::make_unique<Timer>(reactor, [&] { order.push_back(3); });
  Timer first(reactor, [&] {
    order.push_back(1);
    stopped.stop();
    destroyed.reset();
  });
  first.start_after(1ms);
  stopped.start_after(1ms);
  destroyed->start_after(1ms);
  advance(1ms);
  EXPECT_EQ(order, std::vector{1});
}

TEST_F(ReactorTest, ATimerCanDestroyItselfAndRestartItself) {
  std::unique_ptr<Timer> suicidal;
  suicidal = std::make_unique<Timer>(reactor, [&] {
    order.push_back(1);
    suicidal.reset();
  });
  suicidal->start_after(1ms);
  std::unique_ptr<Timer> periodic;
  periodic = std::make_unique<Timer>(reactor, [&] {
    order.push_back(2);
    if (order.size() < 5) periodic->start_after(0ms);
  });
  periodic->start_after(2ms);
  advance(2ms);
  EXPECT_EQ(order, (std::vector{1, 2, 2, 2, 2}));
}

TEST_F(ReactorTest, ADueTimerStartedByATimerWaitsForTheNextTurn) {
  Timer second(reactor, [&] { order.push_back(2); });
  Timer first(reactor, [&] {
    order.push_back(1);
    second.start_after(0ms);
  });
  first.start_after(0ms);
  EXPECT_TRUE(reactor.turn());
  EXPECT_EQ(order, std::vector{1});
  EXPECT_TRUE(reactor.turn());
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_F(ReactorTest, DeferredAndPostedWorkRunsInALaterTurn) {
  reactor.defer([&] {
    order.push_back(1);
    reactor.defer([&] { order.push_back(3); });
  });
  reactor.post([&] { order.push_back(2); });
  EXPECT_TRUE(reactor.has_pending());
  EXPECT_TRUE(reactor.turn());
  EXPECT_EQ(order, (std::vector{1, 2}));
  EXPECT_TRUE(reactor.turn());
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_FALSE(reactor.turn());
}

TEST_F(ReactorTest, HooksRunEveryTurnAndCanRemoveThemselves) {
  struct Hook : TurnHook {
    Reactor* reactor = nullptr;
    Hook* other = nullptr;
    int runs = 0;
    bool on_turn() override {
      ++runs;
      if (other != nullptr) reactor->remove_hook(other);
      return false;
    }
  };
  Hook a, b, c;
  a.reactor = b.reactor = &reactor;
  b.other = &b;
  a.other = &c;
  for (Hook* hook : {&a, &b, &c}) reactor.add_hook(hook);
  reactor.turn();
  reactor.turn();
  EXPECT_EQ(a.runs, 2);
  EXPECT_EQ(b.runs, 1);
  EXPECT_EQ(c.runs, 0);
  EXPECT_EQ(reactor.turns(), 2u);
}

TEST_F(ReactorTest, BusyTimeCountsOnlyTurnsThatDidWork) {
  reactor.turn();
  clock.advance(1ms);
  reactor.turn();
  EXPECT_EQ(reactor.busy_ns(), 0u);
  reactor.defer([&] { clock.advance(3us); });
  reactor.turn();
  reactor.turn();
  EXPECT_EQ(reactor.busy_ns(), 3000u);
}

TEST_F(ReactorTest, ATimerMayOutliveItsReactor) {
  auto mortal = std::make_unique<Reactor>(clock, events, 1, Reactor::Options{});
  Timer timer(*mortal, [] {});
  timer.start_after(1ms);
  mortal.reset();
  EXPECT_FALSE(timer.running());
}

/// A turn takes a microsecond; waits are kept.
struct TickingSource final : EventSource {
  explicit TickingSource(VirtualClock& c) : clock(c) {}
  bool poll() override {
    clock.advance(1us);
    return false;
  }
  void wait(Time now, Time until) override {
    waits.push_back(until - now);
    clock.advance_to(until);
  }
  void wake() override {}
  VirtualClock& clock;
  std::vector<Duration> waits;
};

TEST(ReactorPolling, LooksForWorkForAWhileThenSleepsUntilTheNextTimer) {
  for (const auto& [poll_for, waits, least_turns] :
       {std::tuple{Duration(0us), 1u, 2u}, {Duration(50us), 1u, 50u}, {Duration(-1us), 0u, 999u}}) {
    VirtualClock clock;
    TickingSource source(clock);
    Reactor reactor(clock, source, 1, {.poll_for = poll_for});
    bool fired = false;
    Timer timer(reactor, [&] { fired = true; });
    timer.start_after(1ms);
    reactor.run_until([&] { return fired; });
    EXPECT_EQ(source.waits.size(), waits);
    EXPECT_GE(reactor.turns(), least_turns);
    EXPECT_LE(reactor.turns(), least_turns + 5);
  }
}

/// What timers do is not the beginning of an exchange: nothing is waited for at full speed.
TEST(ReactorPolling, SleepsAtOnceAfterATimer) {
  VirtualClock clock;
  TickingSource source(clock);
  Reactor reactor(clock, source, 1, {.poll_for = 50us});
  int fired = 0;
  Timer timer(reactor, [&] {
    if (++fired < 10) timer.start_after(1ms);
  });
  timer.start_after(1ms);
  reactor.run_until([&] { return fired == 10; });
  EXPECT_EQ(source.waits.size(), 10u);
  EXPECT_LE(reactor.turns(), 50u + 10 * 3) << "it looks for work once, when it begins";
}

/// Work comes again so long after the last; a turn takes a microsecond.
struct PeriodicSource final : EventSource {
  PeriodicSource(VirtualClock& c, Duration e) : clock(c), every(e), next(c.now() + e) {}
  bool poll() override {
    clock.advance(1us);
    if (clock.now() < next) return false;
    next = clock.now() + every;
    ++works;
    return true;
  }
  bool only_heartbeats() const override { return heartbeats; }
  void wait(Time, Time until) override {
    ++sleeps;
    clock.advance_to(std::min(until, next));
  }
  void wake() override {}
  VirtualClock& clock;
  const Duration every;
  Time next;
  bool heartbeats = false;
  int works = 0, sleeps = 0;
};

TEST(ReactorPolling, LooksLongerWhileThatMeetsTheNextWork) {
  constexpr int kWorks = 20;
  // Sleeps, and turns without work before each of them, once the reactor knows how work comes.
  for (const auto& [poll_for, every, sleeps, looks] :
       {std::tuple{Duration(50us), Duration(40us), 0, 40},
        {50us, 100us, 1, 100},
        {50us, 190us, 1, 190},
        {50us, 300us, kWorks, 50},
        {0us, 100us, kWorks, 1}}) {
    SCOPED_TRACE(fmt::format("polls {} ns, work every {} ns", poll_for.count(), every.count()));
    VirtualClock clock;
    PeriodicSource source(clock, every);
    Reactor reactor(clock, source, 1, {.poll_for = poll_for});
    reactor.run_until([&] { return source.works == kWorks; });
    EXPECT_EQ(source.sleeps, sleeps);
    EXPECT_NEAR(static_cast<double>(reactor.turns()) / kWorks, looks, 10);
  }
}

TEST(ReactorPolling, SleepsAtOnceAfterHeartbeats) {
  constexpr int kWorks = 20;
  VirtualClock clock;
  PeriodicSource source(clock, 1ms);
  source.heartbeats = true;
  Reactor reactor(clock, source, 1, {.poll_for = 50us});
  reactor.run_until([&] { return source.works == kWorks; });
  EXPECT_EQ(source.sleeps, kWorks);
  EXPECT_LE(reactor.turns(), 50u + kWorks * 2) << "it polls once, when it begins";
}

TEST_F(ReactorTest, ANudgeIsWorkForOneTurn) {
  reactor.turn();
  EXPECT_FALSE(reactor.turn());
  reactor.nudge();
  reactor.nudge();
  EXPECT_TRUE(reactor.has_pending());
  EXPECT_TRUE(reactor.turn());
  EXPECT_FALSE(reactor.has_pending());
  EXPECT_FALSE(reactor.turn());
}

}  // namespace
}  // namespace ramcloud
