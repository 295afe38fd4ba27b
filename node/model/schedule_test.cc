// The scheduler of interleavings itself: it finds results that depend on the interleaving, and
// repeats a given one.
#include "base/model_schedule.h"

#include <gtest/gtest.h>

#include "base/atomic.h"
#include "base/spin_lock.h"
#include "model/history.h"

namespace ramcloud::model {
namespace {

/// Two that add by reading and writing.
std::string lost_update(Schedule& schedule) {
  Atomic<int> sum{0};
  for (int i = 0; i < 2; ++i) {
    schedule.actor([&] { sum.store(sum.load() + 1); });
  }
  std::string wrong = schedule.run();
  return wrong.empty() && sum.load() != 2 ? "an update was lost" : wrong;
}

TEST(Schedule, FindsALostUpdate) {
  EXPECT_NE(explore(1, 100, lost_update).wrong.find("lost"), std::string::npos);
}

TEST(Schedule, LocksExclude) {
  const auto explored = explore(1, 2'000, [](Schedule& schedule) -> std::string {
    SpinLock lock;
    Atomic<int> sum{0};
    for (int i = 0; i < 3; ++i) {
      schedule.actor([&] {
        SpinGuard guard(lock);
        sum.store(sum.load() + 1);
      });
    }
    std::string wrong = schedule.run();
    return wrong.empty() && sum.load() != 3 ? "an update was lost" : wrong;
  });
  EXPECT_EQ(explored.wrong, "");
  EXPECT_GT(explored.distinct, 100u);
}

TEST(Schedule, FindsADeadlock) {
  const auto explored = explore(1, 200, [](Schedule& schedule) {
    static SpinLock a, b;  // they outlive actors that are given up
    schedule.actor([] {
      SpinGuard first(a);
      SpinGuard second(b);
    });
    schedule.actor([] {
      SpinGuard first(b);
      SpinGuard second(a);
    });
    return schedule.run();
  });
  EXPECT_NE(explored.wrong.find("deadlock"), std::string::npos);
}

TEST(Schedule, FindsALivelock) {
  Atomic<bool> never{false};
  Schedule schedule({.most_steps = 1'000});
  schedule.actor([&] {
    while (!never.load()) yield();
  });
  EXPECT_NE(schedule.run().find("livelock"), std::string::npos);
}

TEST(Schedule, TheSameSeedGivesTheSameInterleaving) {
  const auto run = [](uint64_t seed, Policy policy) {
    Schedule schedule({.seed = seed, .policy = policy});
    Atomic<int> x{0};
    for (int i = 0; i < 3; ++i) {
      schedule.actor([&] {
        for (int k = 0; k < 5; ++k) x.fetch_add(1);
      });
    }
    EXPECT_EQ(schedule.run(), "");
    return schedule.trace();
  };
  for (const Policy policy : {Policy::kRandom, Policy::kPriority}) {
    EXPECT_EQ(run(7, policy), run(7, policy));
    EXPECT_NE(run(7, policy), run(8, policy));
  }
}

TEST(History, TellsWhatCanBeExplained) {
  using enum Event::Kind;
  const auto check = [](std::vector<Event> events) {
    History history;
    for (const Event& e : events) history.add(e);
    return history.linearizable();
  };
  EXPECT_TRUE(check({{kWrite, 1, 1, 2}, {kRead, 1, 3, 4}, {kRemove, 1, 5, 6}, {kRead, 0, 7, 8}}));
  EXPECT_FALSE(check({{kWrite, 1, 1, 2}, {kRead, 0, 3, 4}})) << "it was there";
  EXPECT_TRUE(check({{kWrite, 1, 1, 4}, {kRead, 0, 2, 3}})) << "perhaps not yet";
  EXPECT_FALSE(check({{kWrite, 1, 1, 8}, {kRead, 1, 2, 3}, {kRead, 0, 4, 5}})) << "back in time";
  EXPECT_FALSE(check({{kWrite, 2, 1, 2}, {kWrite, 1, 3, 4}})) << "versions go back";
  EXPECT_FALSE(check({{kWrite, 1, 1, 2}, {kRemove, 1, 3, 4}, {kRemove, 1, 3, 4}}));
}

}  // namespace
}  // namespace ramcloud::model
