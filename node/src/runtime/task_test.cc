#include "runtime/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/testing/sanitizer.h"
#include "runtime/manual_source.h"
#include "runtime/reactor.h"
#include "runtime/when_all.h"

namespace ramcloud {
namespace {

class TaskTest : public ::testing::Test {
 protected:
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
  std::vector<std::string> trace;
};

/// Writes to the trace when its frame goes.
struct Witness {
  std::vector<std::string>& trace;
  std::string name;
  ~Witness() { trace.push_back("~" + name); }
};

Task<int> answer() {
  co_return 42;
}

Task<int> later(Reactor& reactor, Duration delay, int value) {
  co_await reactor.sleep(delay);
  co_return value;
}

Task<std::unique_ptr<int>> move_only(Reactor& reactor) {
  co_await reactor.sleep(1ms);
  co_return std::make_unique<int>(7);
}

Task<void> note(std::vector<std::string>& trace, Event& event, std::string name) {
  const Witness witness{trace, name};
  co_await event;
  trace.push_back(name);
}

TEST_F(TaskTest, RunsToItsResultThroughNestedTasks) {
  struct Flow {
    static Task<int> run(Reactor& r) {
      const int a = co_await answer();
      const int b = co_await later(r, 3ms, 8);
      const auto c = co_await move_only(r);
      co_return a + b + *c;
    }
  };
  Task<int> task = Flow::run(reactor);
  task.resume();
  EXPECT_FALSE(task.done());
  advance(3ms);
  EXPECT_FALSE(task.done());
  advance(1ms);
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.take(), 57);
}

TEST_F(TaskTest, ALongChainOfSynchronousTasksDoesNotGrowTheStack) {
  struct Flow {
    static Task<uint64_t> run() {
      uint64_t sum = 0;
      for (int i = 0; i < 200'000; ++i) sum += static_cast<uint64_t>(co_await answer());
      co_return sum;
    }
  };
  if (testing::kSanitized) {
    GTEST_SKIP() << "sanitizers turn off the tail calls that symmetric transfer needs";
  }
  Task<uint64_t> task = Flow::run();
  task.resume();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.take(), 8'400'000u);
}

TEST_F(TaskTest, ScopeRemovesTasksThatFinishAtOnceOrLater) {
  TaskScope scope(reactor);
  struct Flow {
    static Task<void> at_once(int& runs) {
      ++runs;
      co_return;
    }
    static Task<void> sleeps(Reactor& r, int& runs) {
      co_await r.sleep(1ms);
      ++runs;
    }
  };
  int runs = 0;
  scope.spawn(Flow::at_once(runs));
  scope.spawn(Flow::sleeps(reactor, runs));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(scope.running(), 1u);
  run_until_idle();
  EXPECT_EQ(scope.running(), 1u);
  advance(1ms);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(scope.running(), 0u);
}

TEST_F(TaskTest, DestroyingAScopeDestroysEveryFrameOfASuspendedTree) {
  Event never(reactor);
  struct Flow {
    static Task<void> outer(std::vector<std::string>& trace, Event& event, Reactor& r) {
      const Witness witness{trace, "outer"};
      std::vector<Task<void>> inner;
      inner.push_back(note(trace, event, "a"));
      inner.push_back(note(trace, event, "b"));
      inner.push_back(sleeper(trace, r));
      co_await when_all(std::move(inner));
      trace.push_back("not reached");
    }
    static Task<void> sleeper(std::vector<std::string>& trace, Reactor& r) {
      const Witness witness{trace, "sleeper"};
      co_await r.sleep(1s);
    }
  };
  {
    TaskScope scope(reactor);
    scope.spawn(Flow::outer(trace, never, reactor));
    EXPECT_EQ(reactor.next_deadline(), reactor.now() + 1s);
  }
  EXPECT_EQ(reactor.next_deadline(), kNever);
  EXPECT_EQ(trace, (std::vector<std::string>{"~a", "~b", "~sleeper", "~outer"}));
  never.set();
  run_until_idle();
  EXPECT_EQ(trace.size(), 4u);
}

TEST_F(TaskTest, ScopeDestroyedWithFinishedTasksUnsweptIsFine) {
  int finished = 0;
  const auto held = std::make_shared<int>(0);
  {
    TaskScope scope(reactor);
    struct Flow {
      static Task<void> finish(int& count, std::shared_ptr<int>) {
        ++count;
        co_return;
      }
    };
    scope.spawn(Flow::finish(finished, held));
    EXPECT_EQ(finished, 1);
  }
  EXPECT_EQ(held.use_count(), 1) << "the scope leaves the finished task's frame behind";
  run_until_idle();
  EXPECT_EQ(finished, 1);
}

TEST_F(TaskTest, WhenAllGivesResultsInOrderOfTasksNotOfCompletion) {
  std::vector<Task<int>> tasks;
  tasks.push_back(later(reactor, 3ms, 1));
  tasks.push_back(answer());
  tasks.push_back(later(reactor, 1ms, 3));
  Task<std::vector<int>> all = when_all(std::move(tasks));
  all.resume();
  advance(2ms);
  EXPECT_FALSE(all.done());
  advance(1ms);
  ASSERT_TRUE(all.done());
  EXPECT_EQ(all.take(), (std::vector{1, 42, 3}));
}

TEST_F(TaskTest, WhenAllOfNothingAndOfFinishedTasksDoesNotSuspend) {
  Task<std::vector<int>> none = when_all(std::vector<Task<int>>{});
  none.resume();
  EXPECT_TRUE(none.done());
  std::vector<Task<int>> tasks;
  tasks.push_back(answer());
  tasks.push_back(answer());
  Task<std::vector<int>> both = when_all(std::move(tasks));
  both.resume();
  ASSERT_TRUE(both.done());
  EXPECT_EQ(both.take(), (std::vector{42, 42}));
}

TEST_F(TaskTest, EventResumesWaitersInOrderInALaterTurn) {
  TaskScope scope(reactor);
  Event event(reactor);
  scope.spawn(note(trace, event, "a"));
  scope.spawn(note(trace, event, "b"));
  event.set();
  EXPECT_TRUE(trace.empty());
  run_until_idle();
  EXPECT_EQ(trace, (std::vector<std::string>{"a", "~a", "b", "~b"}));
  scope.spawn(note(trace, event, "c"));  // set: does not wait
  EXPECT_EQ(trace.back(), "~c");
}

TEST_F(TaskTest, EventResetDoesNotTakeAWakeUpBackNorGiveItToLaterWaiters) {
  TaskScope scope(reactor);
  Event event(reactor);
  scope.spawn(note(trace, event, "early"));
  event.set();
  event.reset();
  scope.spawn(note(trace, event, "late"));
  run_until_idle();
  EXPECT_EQ(trace, (std::vector<std::string>{"early", "~early"}));
  EXPECT_EQ(scope.running(), 1u);
}

TEST_F(TaskTest, EventSurvivesWaitersDestroyedBetweenSetAndResume) {
  Event event(reactor);
  TaskScope keeper(reactor);
  auto scope = std::make_unique<TaskScope>(reactor);
  scope->spawn(note(trace, event, "gone"));
  keeper.spawn(note(trace, event, "kept"));
  event.set();
  scope.reset();
  run_until_idle();
  EXPECT_EQ(trace, (std::vector<std::string>{"~gone", "kept", "~kept"}));
}

TEST_F(TaskTest, AWaiterMayDestroyTheEventAndOtherWaitersWhileBeingResumed) {
  auto event = std::make_unique<Event>(reactor);
  auto victims = std::make_unique<TaskScope>(reactor);
  TaskScope scope(reactor);
  struct Flow {
    static Task<void> run(std::unique_ptr<Event>& e, std::unique_ptr<TaskScope>& v) {
      co_await *e;
      v.reset();
      e.reset();
    }
  };
  scope.spawn(Flow::run(event, victims));
  victims->spawn(note(trace, *event, "victim"));
  scope.spawn(note(trace, *event, "orphan"));
  event->set();
  run_until_idle();
  EXPECT_EQ(trace, std::vector<std::string>{"~victim"});
  EXPECT_EQ(scope.running(), 1u);  // the orphan stays suspended until its scope goes
}

TEST_F(TaskTest, EventDestroyedBeforeItsWaitersAndBeforeItsScheduledResume) {
  TaskScope scope(reactor);
  {
    Event event(reactor);
    scope.spawn(note(trace, event, "a"));
    event.set();
  }
  run_until_idle();
  EXPECT_TRUE(trace.empty());
}

Task<void> wait_with_deadline(Reactor& reactor, Event& event, Time deadline,
                              std::vector<std::string>& trace) {
  trace.push_back(co_await wait_until(reactor, event, deadline) ? "set" : "late");
}

TEST_F(TaskTest, WaitUntilGivesUpAtTheDeadline) {
  TaskScope scope(reactor);
  Event event(reactor);
  const Time start = reactor.now();
  scope.spawn(wait_with_deadline(reactor, event, start + 5ms, trace));
  scope.spawn(wait_with_deadline(reactor, event, start + 50ms, trace));
  advance(5ms);
  EXPECT_EQ(trace, std::vector<std::string>{"late"});
  event.set();
  run_until_idle();
  EXPECT_EQ(trace, (std::vector<std::string>{"late", "set"}));
  EXPECT_EQ(reactor.next_deadline(), kNever);
}

TEST_F(TaskTest, RunTaskDrivesTheReactor) {
  EXPECT_EQ(run_task(reactor, answer()), 42);
}

}  // namespace
}  // namespace ramcloud
