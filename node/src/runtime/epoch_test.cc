#include "runtime/epoch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.h"
#include "runtime/epoll_source.h"
#include "runtime/manual_source.h"
#include "runtime/reactor.h"
#include "runtime/sim/sim_scheduler.h"
#include "runtime/thread.h"

namespace ramcloud {
namespace {

TEST(Epochs, AnEpochHasPassedWhenEveryParticipantHas) {
  Epochs epochs;
  Epochs::Participant a(epochs), b(epochs);
  EXPECT_TRUE(epochs.passed(epochs.current()));
  const uint64_t epoch = epochs.advance(Time{});
  EXPECT_EQ(epoch, epochs.current());
  EXPECT_FALSE(epochs.passed(epoch));
  a.pass();
  EXPECT_FALSE(epochs.passed(epoch));
  EXPECT_EQ(epochs.oldest(), epoch - 1);
  b.pass();
  EXPECT_TRUE(epochs.passed(epoch));
}

TEST(Epochs, NobodyWaitsForParticipantsThatAreOfflineOrGone) {
  Epochs epochs;
  Epochs::Participant a(epochs);
  auto b = std::make_unique<Epochs::Participant>(epochs);
  auto c = std::make_unique<Epochs::Participant>(epochs);
  const uint64_t epoch = epochs.advance(Time{});
  a.pass();
  b->go_offline();
  EXPECT_FALSE(b->online());
  EXPECT_FALSE(epochs.passed(epoch));
  c.reset();
  EXPECT_TRUE(epochs.passed(epoch));
  // A participant that comes online is in the current epoch, not in the one that it left.
  b->go_online();
  EXPECT_TRUE(epochs.passed(epoch));
  EXPECT_FALSE(epochs.passed(epochs.advance(Time{})));
}

TEST(Epochs, TheAgeIsThatOfTheOldestGracePeriodUnderWay) {
  Epochs epochs;
  Epochs::Participant a(epochs);
  const Time start{};
  EXPECT_EQ(epochs.oldest_age(start + 5s), Duration::zero());
  epochs.advance(start + 5s);
  a.pass();
  epochs.advance(start + 7s);
  epochs.advance(start + 8s);
  EXPECT_EQ(epochs.oldest_age(start + 10s), Duration(5s));
  epochs.forget_passed();
  EXPECT_EQ(epochs.oldest_age(start + 10s), Duration(3s)) << "the first has passed";
  a.pass();
  epochs.forget_passed();
  EXPECT_EQ(epochs.oldest_age(start + 10s), Duration::zero());
}

Task<void> note_after_grace(Epochs& epochs, Reactor& reactor, bool& over) {
  co_await epochs.grace_period(reactor);
  over = true;
}

TEST(Epochs, AGracePeriodWaitsForTheTurnOfEveryReactor) {
  VirtualClock clock;
  ManualSource events;
  Epochs epochs;
  Epochs::Participant mine(epochs), other(epochs);
  Reactor reactor(clock, events, 1, {});
  Reactor second(clock, events, 2, {});
  reactor.set_epochs(&mine);
  second.set_epochs(&other);
  TaskScope tasks(reactor);
  bool over = false;
  const auto turn = [&](Reactor& one) {
    clock.advance(20us);
    one.turn();
  };
  tasks.spawn(note_after_grace(epochs, reactor, over));
  EXPECT_FALSE(over) << "this turn's handlers may hold pointers";
  for (int i = 0; i < 5; ++i) turn(reactor);
  EXPECT_FALSE(over) << "the other has not turned";
  turn(second);
  EXPECT_FALSE(over);
  turn(reactor);
  EXPECT_TRUE(over);

  over = false;
  other.go_offline();
  tasks.spawn(note_after_grace(epochs, reactor, over));
  turn(reactor);
  EXPECT_TRUE(over);
}

/// The event hash of a run of some grace periods, and when each was over.
uint64_t simulate(uint64_t seed, std::vector<Time>& ends) {
  SimScheduler scheduler(seed);
  SimNode& node = scheduler.add_node("node");
  Epochs epochs;
  Epochs::Participant participant(epochs);
  node.reactor().set_epochs(&participant);
  {
    TaskScope tasks(node.reactor());
    for (int i = 0; i < 3; ++i) {
      bool over = false;
      tasks.spawn(note_after_grace(epochs, node.reactor(), over));
      EXPECT_TRUE(scheduler.run_until([&] { return over; }, 1s));
      ends.push_back(scheduler.now());
    }
  }
  node.reactor().set_epochs(nullptr);
  return scheduler.event_hash();
}

TEST(Epochs, SimulationRepeatsItself) {
  std::vector<Time> first, second;
  EXPECT_EQ(simulate(3, first), simulate(3, second));
  EXPECT_EQ(first, second);
  EXPECT_LT(first.back(), VirtualClock().now() + 1ms);
}

/// A reactor with a thread of its own.
struct Running {
  SystemClock clock;
  EpollSource events;
  Reactor reactor{clock, events, 1, {.poll_for = 0us}};
  Epochs::Participant participant;
  Thread thread;
  explicit Running(Epochs& epochs) : participant(epochs) { reactor.set_epochs(&participant); }
  void start() {
    thread = Thread("turning", [this] { reactor.run(); });
  }
  void stop() {
    reactor.stop();
    thread.join();
  }
};

/// Shared by the threads: one that finds it alive must be able to use it until its turn ends.
struct Shared {
  std::atomic<bool> alive{true};
  uint64_t value = 17;  // not atomic: the thread sanitizer sees a free that comes too early
};

/// Reads the shared item in every turn, and sleeps now and then.
class Reader final : public TurnHook {
 public:
  Reader(Reactor& reactor, const std::atomic<Shared*>& shared, uint64_t seed)
      : reactor_(reactor), shared_(shared), random_(seed), timer_(reactor, [] {}) {
    reactor_.add_hook(this);
  }
  ~Reader() override { reactor_.remove_hook(this); }
  bool on_turn() override {
    const Shared* seen = shared_.load(std::memory_order_acquire);
    for (uint64_t i = random_.below(200); i > 0; --i) {
      if (!seen->alive.load(std::memory_order_relaxed) || seen->value != 17) {
        broken_.fetch_add(1, std::memory_order_relaxed);
      }
    }
    turns_.fetch_add(1, std::memory_order_relaxed);
    if (!random_.chance(0.1)) return true;  // turn again at once
    timer_.start_after(std::chrono::microseconds(random_.below(50)));
    return false;
  }
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  uint64_t broken() const { return broken_.load(std::memory_order_relaxed); }

 private:
  Reactor& reactor_;
  const std::atomic<Shared*>& shared_;
  Random random_;
  Timer timer_;
  std::atomic<uint64_t> turns_{0};
  std::atomic<uint64_t> broken_{0};
};

TEST(Epochs, NothingIsTakenFromThreadsThatStillLookAtIt) {
  Epochs epochs;
  std::atomic<Shared*> shared{new Shared};
  std::array<std::unique_ptr<Running>, 3> threads;
  std::vector<std::unique_ptr<Reader>> readers;
  for (auto& thread : threads) {
    thread = std::make_unique<Running>(epochs);
    readers.push_back(std::make_unique<Reader>(thread->reactor, shared, readers.size()));
  }
  for (auto& thread : threads) thread->start();
  Running writer(epochs);
  constexpr int kSwaps = 300;
  for (int i = 0; i < kSwaps; ++i) {
    Shared* old = shared.exchange(new Shared, std::memory_order_acq_rel);
    run_task(writer.reactor, epochs.grace_period(writer.reactor));
    old->alive.store(false, std::memory_order_relaxed);
    old->value = 0;
    delete old;
  }
  writer.participant.go_offline();
  for (auto& thread : threads) thread->stop();
  for (auto& reader : readers) {
    EXPECT_GT(reader->turns(), 0u);
    EXPECT_EQ(reader->broken(), 0u);
  }
  EXPECT_TRUE(epochs.passed(epochs.advance(Time{}))) << "all have stopped, so all are offline";
  readers.clear();
  delete shared.load();
}

TEST(Epochs, AReactorThatSleepsIsNotWaitedFor) {
  Epochs epochs;
  Running sleeper(epochs);
  sleeper.start();
  Running writer(epochs);
  // It has nothing to do, so it sleeps for an hour; a grace period does not wake it.
  while (sleeper.participant.online()) std::this_thread::yield();
  const uint64_t turns = sleeper.reactor.turns();
  for (int i = 0; i < 3; ++i) run_task(writer.reactor, epochs.grace_period(writer.reactor));
  EXPECT_EQ(sleeper.reactor.turns(), turns);
  sleeper.stop();
}

}  // namespace
}  // namespace ramcloud
