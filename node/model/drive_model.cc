// Interleavings of reactors that drive replication: no reactor waits for the lock, and everything
// that was published before a note is sent.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/model_schedule.h"
#include "replication/drive_lock.h"

namespace ramcloud {
namespace {

using model::Schedule;

/// Several reactors publish and try to drive; the one that drives takes everything it sees. Another
/// reactor has the control: it acts when it was asked to, or told that the lock is free.
struct Model {
  void publish_and_drive() {
    published.fetch_add(1);
    if (!lock.try_enter(DriveLock::Note::kAgain)) return;
    take();
    if (lock.leave([this] { take(); })) told.store(true);
  }
  /// The first reactor's turn; true if it got the lock.
  bool control() {
    if (!lock.try_enter(DriveLock::Note::kFirst)) return false;
    controlled = true;
    take();
    (void)lock.leave([this] { take(); });
    return true;
  }
  void take() {
    const int before = inside.fetch_add(1);
    if (before != 0) wrong = "two are inside";
    taken = published.load();
    inside.fetch_sub(1);
  }

  DriveLock lock;
  Atomic<int> published{0};
  Atomic<int> inside{0};
  Atomic<bool> told{false};
  int taken = 0;  // guarded by the lock
  bool controlled = false;
  std::string wrong;
};

std::string several_drive(Schedule& schedule) {
  Model model;
  for (int i = 0; i < 3; ++i) {
    schedule.actor([&] {
      model.publish_and_drive();
      model.publish_and_drive();
    });
  }
  const std::string stuck = schedule.run();
  if (!stuck.empty()) return stuck;
  if (model.taken != 6) return "left lying: " + std::to_string(6 - model.taken);
  return model.wrong;
}

std::string the_first_is_told(Schedule& schedule) {
  Model model;
  for (int i = 0; i < 2; ++i) schedule.actor([&] { model.publish_and_drive(); });
  schedule.actor([&] {
    while (!model.control()) {
      while (!model.told.load()) model::yield();
      model.told.store(false);
    }
  });
  const std::string stuck = schedule.run();
  if (!stuck.empty()) return "the first reactor was never told: " + stuck;
  if (model.taken != 2) return "left lying: " + std::to_string(2 - model.taken);
  return model.wrong;
}

/// Replaying one seed is one interleaving.
bool replays() {
  return std::getenv("MODEL_SEEDS") != nullptr;
}

TEST(DriveModel, NothingIsLeftLying) {
  const auto explored = model::explore(1, 4'000, several_drive);
  EXPECT_EQ(explored.wrong, "");
  if (!replays()) EXPECT_GT(explored.distinct, 500u);
}

TEST(DriveModel, TheFirstReactorIsToldWhenItMayEnter) {
  const auto explored = model::explore(1, 4'000, the_first_is_told);
  EXPECT_EQ(explored.wrong, "");
  if (!replays()) EXPECT_GT(explored.distinct, 200u);
}

}  // namespace
}  // namespace ramcloud
