// Interleavings of the object store: writes, deletes and reads of two keys while the log becomes
// durable and deletes are swept, and while a tablet is dropped.
#include <gtest/gtest.h>

#include "log/log_test_support.h"
#include "model/history.h"
#include "model/replicating.h"
#include "store/invariants.h"

namespace ramcloud::store {
namespace {

using log::LogPosition;
using model::Event;
using model::History;
using model::Schedule;

constexpr wire::RejectRules kNoRules{};

struct Model {
  explicit Model(Schedule& schedule)
      : arena(uint64_t{2} * log::kSegmentBytes, {.try_huge_pages = false, .prefault = false}),
        log(arena, replicator, log::test_log_options()),
        store(log, clock, {.buckets = 8, .max_pending_deletes = 128}) {
    log.start();
    replicator.step(log);
    if (!store.take_tablet(1, 0, ~uint64_t{0}).ok()) fail("the tablet is not taken");
    schedule.actor([this] {
      while (working > 0 || log.durable() < log.head()) {
        replicator.step(log);
        store.sweep();
        model::yield();
      }
      store.sweep();
    });
  }
  void worker(Schedule& schedule, std::function<void()> body) {
    ++working;
    schedule.actor([this, body = std::move(body)] {
      body();
      --working;
    });
  }
  void write(const std::string& key) {
    noted(key, [&](Event& event) {
      event.kind = Event::Kind::kWrite;
      LogPosition depends_on;
      const StatusCode status = store.write(1, key, key, kNoRules, event.value, depends_on);
      if (status != StatusCode::kOk) fail("write answers another code");
      return depends_on;
    });
  }
  void remove(const std::string& key) {
    noted(key, [&](Event& event) {
      event.kind = Event::Kind::kRemove;
      LogPosition depends_on;
      const StatusCode status = store.remove(1, key, kNoRules, event.value, depends_on);
      if (status != StatusCode::kOk) fail("remove answers another code");
      return depends_on;
    });
  }
  void read(const std::string& key) {
    noted(key, [&](Event& event) {
      ReadResult result;
      const StatusCode status = store.read(1, key, kNoRules, result);
      if (status != StatusCode::kOk && status != StatusCode::kNotFound) {
        fail("read answers another code");
      }
      event.value = status == StatusCode::kOk ? result.version : 0;
      return result.depends_on;
    });
  }
  /// An operation's reply leaves when the log is durable up to its dependency.
  template <typename Op>
  void noted(const std::string& key, Op&& op) {
    histories[key].note([&](Event& event) {
      const LogPosition depends_on = op(event);
      while (log.durable() < depends_on) model::yield();
      if (!replicator.holds(depends_on)) fail("answered, and not on the replica");
    });
  }
  void fail(const std::string& what) { wrong = what; }
  std::string check(Schedule& schedule) {
    const std::string stuck = schedule.run();
    if (!stuck.empty()) return stuck;
    if (!replicator.wrong().empty()) return replicator.wrong();
    if (!wrong.empty()) return wrong;
    if (store.pending_deletes() != 0) return "a durable delete was not swept";
    const auto broken = Invariants(store).check();
    if (!broken.empty()) return broken.front();
    for (const auto& [key, history] : histories) {
      if (!history.linearizable()) return "what key " + key + " answered has no explanation";
    }
    return "";
  }

  VirtualClock clock;
  log::Arena arena;
  log::CheckingReplicator replicator;
  log::Log log;
  ObjectStore store;
  int working = 0;
  std::map<std::string, History> histories;
  std::string wrong;
};

std::string writes_deletes_and_reads(Schedule& schedule) {
  Model model(schedule);
  model.worker(schedule, [&] {
    model.write("a");
    model.remove("a");
    model.write("a");
  });
  model.worker(schedule, [&] {
    model.remove("a");
    model.write("b");
    model.remove("b");
  });
  model.worker(schedule, [&] {
    model.read("a");
    model.read("b");
    model.read("a");
  });
  return model.check(schedule);
}

/// No read is answered from a tablet that is being purged, and no object of it remains.
std::string a_tablet_is_dropped(Schedule& schedule) {
  Model model(schedule);
  const auto take_turns = [&](const std::string& key) {
    uint64_t version = 0;
    LogPosition depends_on;
    ReadResult result;
    for (int i = 0; i < 2; ++i) {
      const StatusCode written = model.store.write(1, key, key, kNoRules, version, depends_on);
      const StatusCode read = model.store.read(1, key, kNoRules, result);
      const bool gone = written == StatusCode::kUnknownTablet;
      if (!gone && written != StatusCode::kOk) model.fail("write answers another code");
      if (gone && read != StatusCode::kUnknownTablet) model.fail("read from a tablet that is gone");
    }
  };
  model.worker(schedule, [&] { take_turns("a"); });
  model.worker(schedule, [&] { take_turns("b"); });
  model.worker(schedule, [&] {
    if (!model.store.drop_table(1).ok()) model.fail("there is nothing to drop");
    model.store.may_purge(model.store.drops());  // writers check the state under the stripe lock
    while (model.store.purge_step()) model::yield();
  });
  std::string wrong = model.check(schedule);
  if (wrong.empty() && model.store.table().entries() != 0) wrong = "an object was left behind";
  return wrong;
}

TEST(StoreModel, WritesDeletesAndReads) {
  EXPECT_EQ(model::explore(1, 30'000, writes_deletes_and_reads).wrong, "");
}

TEST(StoreModel, ATabletIsDropped) {
  EXPECT_EQ(model::explore(1, 20'000, a_tablet_is_dropped).wrong, "");
}

}  // namespace
}  // namespace ramcloud::store
