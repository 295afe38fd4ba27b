// Interleavings of writes to replicas on several reactors with events on the first that forbid
// them: a higher epoch, a list that condemns the master, its recovery, a freed frame.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backup/replica_table.h"
#include "base/atomic.h"
#include "base/model_schedule.h"

namespace ramcloud {
namespace {

using model::Schedule;

constexpr uint64_t kMaster = 7;

/// Takes bytes in small steps, so that concurrent events are detected.
class Model final : public ReplicaTable::Bytes {
 public:
  Model() : table(*this, 4) {
    table.set_live({kMaster});
    ReplicaTable::Shard& shard = table.shard_of(kMaster);
    const MutexGuard guard(shard.lock);
    Replica replica;
    replica.key = {kMaster, 1};
    replica.epoch = 1;
    replica.capacity = 100;
    shard.replicas.emplace(replica.key, replica);
  }
  Status append(uint32_t, uint32_t offset, ByteView bytes) override {
    if (forbidden.load()) wrong = "bytes are written that were forbidden";
    if (writing.exchange(true)) wrong = "two write to one frame";
    if (offset != end) wrong = "bytes come to the wrong place";
    end += static_cast<uint32_t>(bytes.size());
    writing.store(false);
    if (forbidden.load()) wrong = "bytes were being written when they were forbidden";
    return {};
  }
  /// Another reactor, with a message that was sent before anything was forbidden.
  void write(uint32_t offset) {
    wire::ReplicaWriteRequest request{};
    request.master_id = kMaster;
    request.segment_id = 1;
    request.epoch = 1;
    request.offset = offset;
    request.length = 2;
    (void)table.append_plain(request, "ab");
  }
  /// The first reactor: after `forbid` returns, none of those writes may change anything.
  template <typename Change>
  void forbid(Change change) {
    change();
    forbidden.store(true);
  }

  ReplicaTable table;
  Atomic<bool> forbidden{false};
  Atomic<bool> writing{false};
  uint32_t end = 0;  // guarded by the shard's lock
  std::string wrong;
};

/// Two reactors have the same bytes (a repeated message), and one has the next bytes.
template <typename Change>
std::string forbidden_while_they_write(Schedule& schedule, Change change) {
  Model model;
  schedule.actor([&] {
    model.write(0);
    model.write(2);
  });
  schedule.actor([&] { model.write(0); });
  schedule.actor([&] { model.forbid([&] { change(model.table); }); });
  const std::string stuck = schedule.run();
  return stuck.empty() ? model.wrong : stuck;
}

bool replays() {
  return std::getenv("MODEL_SEEDS") != nullptr;
}

void expect_forbidden(void (*change)(ReplicaTable&)) {
  const auto explored = model::explore(1, 3'000, [change](Schedule& schedule) {
    return forbidden_while_they_write(schedule, change);
  });
  EXPECT_EQ(explored.wrong, "");
  if (!replays()) EXPECT_GT(explored.distinct, 200u);
}

TEST(BackupModel, ACondemnedMasterWritesNothingOnceTheListHolds) {
  expect_forbidden([](ReplicaTable& table) { table.set_live({}); });
}

TEST(BackupModel, AFrozenMasterWritesNothingOnceItIsFrozen) {
  expect_forbidden([](ReplicaTable& table) { table.freeze(kMaster); });
}

TEST(BackupModel, AnEpochThatIsOverWritesNothing) {
  expect_forbidden([](ReplicaTable& table) {
    ReplicaTable::Shard& shard = table.shard_of(kMaster);
    const MutexGuard guard(shard.lock);
    shard.replicas.at({kMaster, 1}).epoch = 2;
  });
}

TEST(BackupModel, AFreedFrameIsNotWritten) {
  expect_forbidden([](ReplicaTable& table) {
    ReplicaTable::Shard& shard = table.shard_of(kMaster);
    const MutexGuard guard(shard.lock);
    shard.replicas.clear();
  });
}

TEST(BackupModel, AServiceThatStopsWritesNothing) {
  expect_forbidden([](ReplicaTable& table) { table.stop(); });
}

}  // namespace
}  // namespace ramcloud
