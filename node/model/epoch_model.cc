// Interleavings of epochs: readers pass, sleep, wake, are created and destroyed. Other threads
// unlink the items that are read, wait for a grace period, and free them.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>

#include "base/model_schedule.h"
#include "runtime/epoch.h"

namespace ramcloud {
namespace {

using model::Schedule;

class Model {
 public:
  Model() : shared_(&items_.emplace_back()) {}

  Epochs& epochs() { return epochs_; }
  /// Like a handler: takes a pointer, and reads the item until the turn ends.
  void read() {
    const Item* item = shared_.load();
    for (int i = 0; i < 2; ++i) {
      if (item->freed) wrong_ = "a reader looks at what was freed";
      model::point();
    }
    if (item->freed) wrong_ = "a reader looks at what was freed";
  }
  /// Replaces the shared item, and frees the old one when no reader uses it.
  void replace() {
    Item* old = shared_.exchange(&items_.emplace_back());
    const uint64_t epoch = epochs_.advance(Time{});
    while (!epochs_.passed(epoch)) model::yield();
    over_ = std::max(over_, epoch);
    old->freed = true;
  }
  /// The latest epoch whose grace period has ended.
  uint64_t over() const { return over_; }
  void fail(const char* what) { wrong_ = what; }
  std::string run(Schedule& schedule) {
    std::string stuck = schedule.run();  // a grace period that does not end is a livelock
    return stuck.empty() ? wrong_ : stuck;
  }

 private:
  struct Item {
    bool freed = false;  // not atomic: a reader that looks too late is detected
  };
  Epochs epochs_;
  std::deque<Item> items_;
  Atomic<Item*> shared_;
  uint64_t over_ = 0;
  std::string wrong_;
};

/// Readers that always run turns, like busy reactors.
std::string readers_pass(Schedule& schedule) {
  Model model;
  std::deque<Epochs::Participant> readers;
  for (int i = 0; i < 2; ++i) {
    auto& reader = readers.emplace_back(model.epochs());
    schedule.actor([&] {
      for (int turn = 0; turn < 3; ++turn) {
        model.read();
        reader.pass();
      }
      reader.go_offline();
    });
  }
  for (int i = 0; i < 2; ++i) {
    schedule.actor([&] { model.replace(); });
  }
  return model.run(schedule);
}

/// Readers that sleep between any two turns.
std::string readers_sleep(Schedule& schedule) {
  Model model;
  std::deque<Epochs::Participant> readers;
  for (int i = 0; i < 2; ++i) {
    auto& reader = readers.emplace_back(model.epochs());
    schedule.actor([&] {
      for (int turn = 0; turn < 3; ++turn) {
        reader.go_offline();
        reader.go_online();
        model.read();
      }
      reader.go_offline();
    });
  }
  schedule.actor([&] {
    model.replace();
    model.replace();
  });
  return model.run(schedule);
}

/// The reclaimer is a participant itself; a participant that sleeps for ever delays nobody.
std::string sleepers_are_not_waited_for(Schedule& schedule) {
  Model model;
  Epochs::Participant sleeper(model.epochs()), reader(model.epochs()), own(model.epochs());
  sleeper.go_offline();
  schedule.actor([&] {
    model.read();
    reader.go_offline();
  });
  schedule.actor([&] {
    own.go_offline();
    model.replace();
    own.go_online();
    model.read();
  });
  return model.run(schedule);
}

/// A thread that wakes is in the current epoch: a grace period that ended while it slept stays
/// ended.
std::string who_wakes_is_in_the_present_epoch(Schedule& schedule) {
  Model model;
  Epochs::Participant reader(model.epochs());
  reader.go_offline();
  schedule.actor([&] {
    for (int i = 0; i < 2; ++i) {
      reader.go_online();
      const uint64_t over = model.over();
      if (!model.epochs().passed(over)) model.fail("a grace period that was over is not any more");
      model.read();
      reader.go_offline();
    }
  });
  schedule.actor([&] {
    for (int i = 0; i < 3; ++i) model.replace();
  });
  return model.run(schedule);
}

/// Participants are created and destroyed while others wait.
std::string participants_come_and_leave(Schedule& schedule) {
  Model model;
  for (int i = 0; i < 2; ++i) {
    schedule.actor([&] {
      for (int turn = 0; turn < 2; ++turn) {
        Epochs::Participant reader(model.epochs());
        model.read();
        reader.pass();
        model.read();
      }
    });
  }
  schedule.actor([&] {
    model.replace();
    model.replace();
  });
  return model.run(schedule);
}

TEST(EpochModel, NothingIsFreedUnderReadersThatTurn) {
  EXPECT_EQ(model::explore(1, 30'000, readers_pass).wrong, "");
}

TEST(EpochModel, NothingIsFreedUnderReadersThatSleepAndWake) {
  EXPECT_EQ(model::explore(1, 30'000, readers_sleep).wrong, "");
}

TEST(EpochModel, SleepersAreNotWaitedFor) {
  EXPECT_EQ(model::explore(1, 20'000, sleepers_are_not_waited_for).wrong, "");
}

TEST(EpochModel, WhoWakesIsInThePresentEpoch) {
  EXPECT_EQ(model::explore(1, 30'000, who_wakes_is_in_the_present_epoch).wrong, "");
}

TEST(EpochModel, ParticipantsComeAndLeave) {
  EXPECT_EQ(model::explore(1, 20'000, participants_come_and_leave).wrong, "");
}

/// A grace period waits for a thread that is online and does not run.
TEST(EpochModel, WhoDoesNotTurnIsWaitedFor) {
  // Never destroyed, because the schedule is abandoned, perhaps with a lock held.
  static auto& model = *new Model;
  static auto& stuck = *new Epochs::Participant(model.epochs());
  (void)stuck;
  Schedule schedule({.most_steps = 1'000});
  schedule.actor([&] { model.replace(); });
  EXPECT_NE(model.run(schedule).find("livelock"), std::string::npos);
}

}  // namespace
}  // namespace ramcloud
