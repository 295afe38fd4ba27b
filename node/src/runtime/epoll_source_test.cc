#include "runtime/epoll_source.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "runtime/thread.h"

namespace ramcloud {
namespace {

struct Calls : FdHandler {
  std::function<void(uint32_t)> fn;
  void on_ready(uint32_t events) override { fn(events); }
  bool only_heartbeats() const override { return heartbeats; }
  bool heartbeats = false;
};

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    a = UniqueFd(fds[0]);
    b = UniqueFd(fds[1]);
  }
  UniqueFd a, b;
};

class EpollSourceTest : public ::testing::Test {
 protected:
  SystemClock clock;
  EpollSource source;
  Reactor reactor{clock, source, 1, {.poll_for = 0us}};
};

TEST_F(EpollSourceTest, DeliversReadinessToASleepingReactor) {
  Pair pair;
  char got = 0;
  Calls handler;
  handler.fn = [&](uint32_t events) {
    EXPECT_TRUE(events & EPOLLIN);
    ASSERT_EQ(::read(pair.a.get(), &got, 1), 1);
  };
  ASSERT_TRUE(source.add(pair.a.get(), EPOLLIN, &handler).ok());
  const Thread writer("writer", [&] { ASSERT_EQ(::write(pair.b.get(), "x", 1), 1); });
  reactor.run_until([&] { return got == 'x'; });
  source.remove(pair.a.get());
}

TEST_F(EpollSourceTest, AHandlerCanRemoveAnotherDescriptorOfTheSameBatch) {
  Pair first, second;
  int calls = 0;
  Calls one, two;
  one.fn = two.fn = [&](uint32_t) {
    ++calls;
    source.remove(first.a.get());
    source.remove(second.a.get());
  };
  ASSERT_TRUE(source.add(first.a.get(), EPOLLIN, &one).ok());
  ASSERT_TRUE(source.add(second.a.get(), EPOLLIN, &two).ok());
  ASSERT_EQ(::write(first.b.get(), "x", 1), 1);
  ASSERT_EQ(::write(second.b.get(), "x", 1), 1);
  EXPECT_TRUE(source.poll());
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(source.poll());
}

TEST_F(EpollSourceTest, OneMessageAmongHeartbeatsIsNoHeartbeat) {
  Pair first, second;
  Calls heartbeats, messages;
  heartbeats.heartbeats = true;
  char got = 0;
  heartbeats.fn = [&](uint32_t) { ASSERT_EQ(::read(first.a.get(), &got, 1), 1); };
  messages.fn = [&](uint32_t) { ASSERT_EQ(::read(second.a.get(), &got, 1), 1); };
  ASSERT_TRUE(source.add(first.a.get(), EPOLLIN, &heartbeats).ok());
  ASSERT_TRUE(source.add(second.a.get(), EPOLLIN, &messages).ok());
  ASSERT_EQ(::write(first.b.get(), "x", 1), 1);
  EXPECT_TRUE(source.poll());
  EXPECT_TRUE(source.only_heartbeats());
  for (const Pair* pair : {&first, &second}) ASSERT_EQ(::write(pair->b.get(), "x", 1), 1);
  EXPECT_TRUE(source.poll());
  EXPECT_FALSE(source.only_heartbeats());
}

/// It might be closed because its peer crashed: that is news.
TEST_F(EpollSourceTest, ADescriptorThatIsRemovedHadNoHeartbeats) {
  Pair pair;
  Calls handler;
  handler.heartbeats = true;
  handler.fn = [&](uint32_t) { source.remove(pair.a.get()); };
  ASSERT_TRUE(source.add(pair.a.get(), EPOLLIN, &handler).ok());
  ASSERT_EQ(::write(pair.b.get(), "x", 1), 1);
  EXPECT_TRUE(source.poll());
  EXPECT_FALSE(source.only_heartbeats());
}

TEST_F(EpollSourceTest, ASpentBudgetLeavesTheRestToTheNextTurns) {
  std::array<Pair, 8> pairs;
  std::array<Calls, 8> handlers;
  std::array<int, 8> calls{};
  for (size_t i = 0; i < pairs.size(); ++i) {
    handlers[i].fn = [&, i](uint32_t) {
      ++calls[i];
      reactor.budget().spend(TurnBudget::kEvents / 2);
      char byte;
      ASSERT_EQ(::read(pairs[i].a.get(), &byte, 1), 1);
    };
    ASSERT_TRUE(source.add(pairs[i].a.get(), EPOLLIN, &handlers[i]).ok());
    ASSERT_EQ(::write(pairs[i].b.get(), "x", 1), 1);
  }
  const auto sum = [&] { return std::accumulate(calls.begin(), calls.end(), 0); };
  for (int handled = 2; handled <= 8; handled += 2) {
    EXPECT_TRUE(reactor.turn());
    EXPECT_EQ(sum(), handled);
  }
  EXPECT_EQ(*std::ranges::min_element(calls), 1) << "each had its turn";
  EXPECT_FALSE(reactor.turn());
  for (const Pair& pair : pairs) source.remove(pair.a.get());
}

TEST_F(EpollSourceTest, UrgentOnesGoFirst) {
  struct Urgent : Calls {
    bool urgent() const override { return true; }
  };
  std::array<Pair, 6> pairs;
  std::array<Calls, 5> clients;
  Urgent backup;
  std::string order;
  const auto note = [&](size_t i, char who) {
    char byte;
    ASSERT_EQ(::read(pairs[i].a.get(), &byte, 1), 1);
    order += who;
  };
  for (size_t i = 0; i < clients.size(); ++i) {
    clients[i].fn = [&, i](uint32_t) { note(i, 'c'); };
    ASSERT_TRUE(source.add(pairs[i].a.get(), EPOLLIN, &clients[i]).ok());
  }
  backup.fn = [&](uint32_t) { note(5, 'b'); };
  ASSERT_TRUE(source.add(pairs[5].a.get(), EPOLLIN, &backup).ok());
  for (const Pair& pair : pairs) ASSERT_EQ(::write(pair.b.get(), "x", 1), 1);
  while (reactor.turn()) {
  }
  EXPECT_EQ(order, "bccccc");
  for (const Pair& pair : pairs) source.remove(pair.a.get());
}

TEST_F(EpollSourceTest, PostFromOtherThreadsWakesASleepingReactor) {
  constexpr int kThreads = 4, kPosts = 500;
  int ran = 0;
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("poster", [&] {
        for (int i = 0; i < kPosts; ++i) reactor.post([&] { ++ran; });
      });
    }
    reactor.run_until([&] { return ran == kThreads * kPosts; });
  }
  EXPECT_EQ(ran, kThreads * kPosts);
}

TEST_F(EpollSourceTest, StopFromAnotherThreadEndsRun) {
  // It stops a reactor that sleeps: nothing else would wake it.
  std::atomic<bool> stopped{false};
  const Thread stopper("stopper", [&] {
    stopped.store(true);
    reactor.stop();
  });
  reactor.run();
  EXPECT_TRUE(stopped.load()) << "run() ended on its own";
}

TEST_F(EpollSourceTest, SleepsUntilTheNextTimerAndHandlersSeeTheTimeAfterTheSleep) {
  const Time start = reactor.now();
  Time fired{};
  Timer timer(reactor, [&] { fired = reactor.now(); });
  timer.start_after(20ms);
  reactor.run_until([&] { return fired != Time{}; });
  EXPECT_GE(fired, start + 20ms);
  // Asleep, not spinning: a turn for each wake-up, with room for interruptions.
  EXPECT_LE(reactor.turns(), 20u);
}

/// Sleeps until `until`; a thread wakes it long after that, so that a sleep without end fails.
/// Returns when it was over.
class EpollSleep : public EpollSourceTest {
 protected:
  Time sleep(Time now, Time until) {
    std::promise<void> over;
    const Thread waker("waker", [this, ended = over.get_future().share()] {
      if (ended.wait_for(5s) == std::future_status::timeout) source.wake();
    });
    source.wait(now, until);
    over.set_value();
    source.poll();
    return clock.now();
  }
  /// One that is over before it begins, because somebody wakes it.
  void sleep_shortly(Time until) {
    source.wake();
    sleep(clock.now(), until);
  }
};

TEST_F(EpollSleep, EachEndsInTime) {
  for (int i = 0; i < 3; ++i) {
    const Time until = clock.now() + 5ms;
    const Time end = sleep(clock.now(), until);
    EXPECT_GE(end, until);
    EXPECT_LT(end, until + 4s);
  }
}

TEST_F(EpollSleep, AnEarlierDeadlineThanTheLastOneIsKept) {
  sleep_shortly(clock.now() + 1h);
  const Time until = clock.now() + 5ms;
  EXPECT_LT(sleep(clock.now(), until), until + 4s);
}

TEST_F(EpollSleep, SleepsThatFollowEachOtherLeaveTheTimer) {
  const Time begin = clock.now();
  const Time first = begin + 300ms;
  sleep_shortly(first);
  const Time second = first + 4s;
  const Time end = sleep(begin, second);
  EXPECT_GE(end, first);
  EXPECT_LT(end, second) << "the timer was set again, which costs a system call";
  const Time third = clock.now() + 5ms;
  const Time end_of_third = sleep(begin, third);
  EXPECT_GE(end_of_third, third);
  EXPECT_LT(end_of_third, third + 4s);
}

TEST_F(EpollSleep, ARareOneIsNotEndedByAFormerDeadline) {
  for (const bool has_deadline : {true, false}) {
    const Time until = has_deadline ? clock.now() + 4s : kNever;
    const Time former = clock.now() + 20ms;
    sleep_shortly(former);
    const Time later = clock.now() + 2 * EpollSource::kOften;
    const Thread waker("waker", [&] {
      std::this_thread::sleep_for(80ms);
      source.wake();
    });
    EXPECT_GE(sleep(later, until), former + 30ms);
  }
}

}  // namespace
}  // namespace ramcloud
