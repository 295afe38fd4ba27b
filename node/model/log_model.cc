// Interleavings of the log's head: several threads reserve, copy (large groups without the lock)
// and publish groups, another one replicates them, while the head is switched and segments enter
// and leave.
#include <gtest/gtest.h>

#include "log/invariants.h"
#include "log/log_test_support.h"
#include "log/side_log.h"
#include "model/replicating.h"

namespace ramcloud::log {
namespace {

using model::Schedule;

constexpr size_t kLarge = kMaxContiguousGroupBytes + 500;

/// A log with its replicator's actor, which ends when all others have.
struct Model {
  Model(Schedule& schedule, uint32_t segments)
      : arena(uint64_t{segments} * kSegmentBytes, {.try_huge_pages = false, .prefault = false}),
        log(arena, replicator, test_log_options()) {
    log.start();
    schedule.actor([this] {
      while (appending > 0 || log.durable() < log.head() || !log.ready()) {
        replicator.step(log);
        model::yield();
      }
    });
  }
  void appender(Schedule& schedule, std::vector<size_t> sizes) {
    ++appending;
    schedule.actor([this, sizes = std::move(sizes)] {
      for (const size_t size : sizes) append(size);
      --appending;
    });
  }
  /// Appends an object, and waits until it may be acknowledged.
  void append(size_t size) {
    const std::string value(size, 'v');
    Appended appended;
    const char* ref = nullptr;
    StatusCode status;
    while ((status = append_object(log, 1, ++version, "key", value, &appended, &ref)) ==
           StatusCode::kRetry) {
      model::yield();
    }
    if (status != StatusCode::kOk) return fail("append answers another code");
    while (log.durable() < appended.end) model::yield();
    if (!replicator.holds(appended.end)) fail("acknowledged, and not on the replica");
    if (!log.entry(ref).verify()) fail("acknowledged, and damaged");
    ++acknowledged;
  }
  void fail(const std::string& what) { wrong = what; }
  std::string check(Schedule& schedule, uint64_t appends) {
    const std::string stuck = schedule.run();
    if (!stuck.empty()) return stuck;
    if (!replicator.wrong().empty()) return replicator.wrong();
    if (!wrong.empty()) return wrong;
    if (acknowledged != appends) return "not all appends were acknowledged";
    const auto broken = Invariants(log).check();
    return broken.empty() ? "" : broken.front();
  }

  Arena arena;
  CheckingReplicator replicator;
  Log log;
  int appending = 0;
  uint64_t version = 0;
  uint64_t acknowledged = 0;
  std::string wrong;
};

std::string small_and_large_groups(Schedule& schedule) {
  Model model(schedule, 2);
  model.appender(schedule, {kLarge, 10});
  model.appender(schedule, {10, kLarge});
  model.appender(schedule, {kLarge});
  return model.check(schedule, 5);
}

std::string the_head_is_switched(Schedule& schedule) {
  Model model(schedule, 4);
  model.appender(schedule, {10, kLarge});
  model.appender(schedule, {kLarge, 10});
  ++model.appending;
  schedule.actor([&] {
    while (!model.log.ready()) model::yield();
    if (model.log.roll_head() != StatusCode::kOk) model.fail("no head to switch to");
    --model.appending;
  });
  std::string wrong = model.check(schedule, 4);
  if (wrong.empty() && model.log.head().segment_id() != 2) wrong = "the head was not switched";
  return wrong;
}

/// Creates a side log with one object, waits for its replication, and commits it. Returns the
/// object's address.
const char* commit_one(Model& model, SegmentChange& change) {
  Log& log = model.log;
  while (!log.ready()) model::yield();
  SideLog side(log);
  const TestObject object(1, 1, "side", "value");
  const char* ref = nullptr;
  if (side.append(std::span(&object.source, 1), &ref) != StatusCode::kOk) model.fail("no room");
  side.close();
  while (!side.all_durable()) model::yield();
  change.enter = side.release();
  if (log.commit(change, Roll::kNow) != StatusCode::kOk) model.fail("commit refuses");
  while (!change.done()) model::yield();
  return ref;
}

/// Segments enter and leave while others append and the head is switched: the change is done once,
/// segments that left are not used any more, and a pin keeps their memory.
std::string segments_enter_and_leave(Schedule& schedule) {
  Model model(schedule, 8);
  model.appender(schedule, {10, kLarge, 10});
  ++model.appending;
  schedule.actor([&] {
    Log& log = model.log;
    SegmentChange enter;
    const char* ref = commit_one(model, enter);
    if (!log.entry(ref).verify()) model.fail("an entry that entered is damaged");
    // The first head and the survivor's segment are closed by now.
    SegmentChange leave{.enter = {}, .leave = {log.segments().front()}};
    Pin pin(*leave.leave.front());
    const uint64_t id = leave.leave.front()->id();
    if (log.commit(leave, Roll::kNow) != StatusCode::kOk) model.fail("commit refuses to drop");
    while (!leave.done()) model::yield();
    if (log.find_segment(id) != nullptr) model.fail("it did not leave");
    std::vector<Segment*> retired;
    do {
      model::yield();
      retired = log.take_retired();
      log.reclaim(retired);
    } while (std::ranges::find(retired, leave.leave.front()) == retired.end());
    if (leave.leave.front()->id() != id) model.fail("pinned, and used again");
    pin.release();
    log.reclaim(log.take_retired());
    if (leave.leave.front()->id() == id) model.fail("its memory does not come back");
    --model.appending;
  });
  return model.check(schedule, 3);
}

/// Two threads commit at the same time: one head may carry both changes, or each has its own;
/// neither is lost.
std::string two_changes_at_once(Schedule& schedule) {
  Model model(schedule, 8);
  model.appender(schedule, {10, 10});
  for (int i = 0; i < 2; ++i) {
    ++model.appending;
    schedule.actor([&model] {
      SegmentChange change;
      (void)commit_one(model, change);
      if (model.log.find_segment(change.enter.front()->id()) == nullptr)
        model.fail("done, and not there");
      --model.appending;
    });
  }
  return model.check(schedule, 2);
}

/// The durable position never falls, for any thread that reads it.
std::string durable_only_rises(Schedule& schedule) {
  Model model(schedule, 2);
  model.appender(schedule, {10, 10});
  model.appender(schedule, {kLarge});
  schedule.actor([&] {
    LogPosition before;
    for (int i = 0; i < 8; ++i) {
      const LogPosition durable = model.log.durable();
      if (durable < before) model.fail("the durable position went back");
      before = durable;
      if (!model.replicator.holds(durable)) model.fail("durable, and not on the replica");
    }
  });
  return model.check(schedule, 3);
}

/// An entry has died, and the cleaner is about to find it: OUT_OF_MEMORY would be final, and wrong.
std::string cleaning_begins_to_help(Schedule& schedule) {
  Model model(schedule, 2);
  model.log.set_cleaning_helps(false, model.log.segment_changes());
  model.log.want_look(1);
  schedule.actor([&] { model.log.set_cleaning_helps(true, model.log.segment_changes()); });
  schedule.actor([&] {
    if (!model.log.cleaning_helps()) model.fail("a writer gives up before the cleaner has looked");
  });
  return model.check(schedule, 0);
}

TEST(LogModel, SmallAndLargeGroups) {
  EXPECT_EQ(model::explore(1, 40'000, small_and_large_groups).wrong, "");
}

TEST(LogModel, TheHeadIsSwitched) {
  EXPECT_EQ(model::explore(1, 30'000, the_head_is_switched).wrong, "");
}

TEST(LogModel, SegmentsEnterAndLeave) {
  EXPECT_EQ(model::explore(1, 15'000, segments_enter_and_leave).wrong, "");
}

TEST(LogModel, TwoChangesAtOnce) {
  EXPECT_EQ(model::explore(1, 15'000, two_changes_at_once).wrong, "");
}

TEST(LogModel, CleaningBeginsToHelp) {
  EXPECT_EQ(model::explore(1, 2'000, cleaning_begins_to_help).wrong, "");
}

TEST(LogModel, DurableOnlyRises) {
  EXPECT_EQ(model::explore(1, 20'000, durable_only_rises).wrong, "");
}

}  // namespace
}  // namespace ramcloud::log
