// Side segments, abandoned heads and segments that left, on simulated backups: what a rebuild finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backup/testing/replication_rig.h"
#include "log/invariants.h"
#include "log/side_log.h"

namespace ramcloud {
namespace {

using ::testing::IsEmpty;
using testing::kMaster;

struct SideRig : testing::ReplicationRig {
  using ReplicationRig::ReplicationRig;

  /// An object that is known only in the side log.
  void put_aside(log::SideLog& side, const std::string& key, const std::string& value) {
    const log::TestObject object(1, ++version_, key, value);
    const char* refs[1];
    ASSERT_EQ(side.append({&object.source, 1}, refs), StatusCode::kOk);
    aside_[key] = value;
  }
  void fill_aside(log::SideLog& side, int objects = 100) {
    const std::string value(100'000, 's');
    for (int i = 0; i < objects; ++i) put_aside(side, "side" + std::to_string(i), value);
    side.close();
  }
  bool run_until(const std::function<bool()>& is_so) { return scheduler_.run_until(is_so, 60s); }
  bool all_are_durable(const log::SideLog& side) {
    return run_until([&] { return side.all_durable(); });
  }
  /// Soon one of the backups that have the first side segment, and not the head; none otherwise.
  std::optional<uint32_t> holder_beside_the_head(const log::SideLog& side) {
    const auto heads = manager_->replica_servers(1);
    std::optional<uint32_t> holder;
    (void)run_until([&] {
      for (uint32_t i = 0; i < backups_.size(); ++i) {
        const bool is_head = std::ranges::find(heads, i + 1) != heads.end();
        if (!is_head && backups_[i]->service->find(kMaster, side.segments()[0]->id())) holder = i;
      }
      return holder.has_value();
    });
    return holder;
  }
  /// Half a segment, so that the next head is opened ahead.
  void open_ahead() {
    const std::string value(100'000, 'v');
    for (int i = 0; log_->segments().size() < 2; ++i) must_put("k" + std::to_string(i), value);
    ASSERT_TRUE(all_durable());
  }
  /// The result of a rebuild from these folders; none if it refuses.
  std::optional<std::map<std::string, std::string>> rebuild(std::optional<uint32_t> without = {}) {
    std::vector<VolumeImage> volumes;
    for (uint32_t i = 0; i < images_.size(); ++i) {
      if (i != without) volumes.push_back({"b" + std::to_string(i + 1), images_[i]});
    }
    std::map<std::string, std::string> found;
    const Status status = rebuild_images(volumes, [&](const log::ReplayedObject& object) {
      found[std::string(object.key)] = std::string(object.value);
    });
    if (status.ok()) return found;
    ADD_FAILURE() << status.to_string();
    return std::nullopt;
  }
  void take_images() {
    for (uint32_t i = 0; i < nodes_.size(); ++i) images_.push_back(image_of(i));
  }
  std::map<std::string, std::string> with_aside() const {
    auto all = model_;
    all.insert(aside_.begin(), aside_.end());
    return all;
  }
  /// Backups that hold a replica of a segment.
  uint32_t replicas_of(uint64_t segment) const {
    return static_cast<uint32_t>(std::ranges::count_if(backups_, [&](const auto& role) {
      return role != nullptr && role->service->find(kMaster, segment).has_value();
    }));
  }

  std::map<std::string, std::string> aside_;
  std::vector<std::string> images_;
};

class SideSegmentsSim : public ::testing::TestWithParam<uint32_t>, protected SideRig {
 protected:
  SideSegmentsSim() : SideRig(77) { reactors_ = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Reactors, SideSegmentsSim, ::testing::Values(1u, 3u));

TEST_P(SideSegmentsSim, ACommittedOneIsFoundWhicheverFolderIsMissing) {
  start(4, 2);
  open_ahead();
  log::SideLog side(*log_);
  fill_aside(side);
  ASSERT_TRUE(all_are_durable(side));
  log::SegmentChange change;
  change.enter = side.release();
  ASSERT_EQ(log_->commit(change, log::Roll::kNow), StatusCode::kOk);
  ASSERT_TRUE(run_until([&] { return change.done(); }));
  must_put("after", "commit");
  ASSERT_TRUE(all_durable());
  EXPECT_EQ(manager_->check_counts(), "");
  EXPECT_THAT(log::Invariants(*log_).check(), IsEmpty());
  take_images();
  for (uint32_t missing = 0; missing < 4; ++missing) {
    const auto found = rebuild(missing);
    ASSERT_TRUE(found);
    EXPECT_TRUE(*found == with_aside()) << found->size() << " of " << with_aside().size();
  }
}

TEST_P(SideSegmentsSim, OneThatIsNotCommittedIsNotSeen) {
  start(4, 2);
  must_put("a", "1");
  log::SideLog side(*log_);
  fill_aside(side);
  ASSERT_TRUE(all_are_durable(side));
  must_put("b", "2");
  ASSERT_TRUE(all_durable());
  take_images();
  const auto found = rebuild();
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, model_);
  (void)side.release();
}

TEST_P(SideSegmentsSim, AbortedItIsFreedOnItsBackups) {
  start(4, 2);
  must_put("a", "1");
  log::SideLog side(*log_);
  fill_aside(side);
  const auto segments = side.segments();
  ASSERT_GE(segments.size(), 2u);
  const uint64_t first = segments.front()->id(), last = segments.back()->id();
  ASSERT_TRUE(run_until([&] { return replicas_of(first) > 0; }));
  side.abort();
  EXPECT_TRUE(run_until([&] { return replicas_of(first) == 0 && replicas_of(last) == 0; }));
  ASSERT_TRUE(run_until([&] { return log_->take_retired().size() == segments.size(); }));
  EXPECT_EQ(manager_->check_counts(), "");
  must_put("b", "2");
  EXPECT_TRUE(all_durable());
}

TEST_P(SideSegmentsSim, AbortedForLackOfFramesItLeavesFramesAndNoShortage) {
  log_bytes_ = 128 << 20;  // aborted segments keep their memory here
  start(2, 1, 16 << 20);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  {
    log::SideLog side(*log_);
    fill_aside(side, 300);
    const log::Segment& last = *side.segments().back();
    ASSERT_TRUE(run_until([&] { return log_->shortage_of(last) == StatusCode::kNoSpace; }));
    EXPECT_TRUE(log_->shortage_of(*side.segments().front()).ok()) << "it has its replica";
    EXPECT_EQ(manager_->stats().waiting, StatusCode::kNoSpace);
  }
  EXPECT_TRUE(run_until([&] { return manager_->stats().waiting.ok(); }))
      << "nothing waits: " << manager_->stats().waiting.to_string();
  log::SideLog next(*log_);
  fill_aside(next, 200);
  EXPECT_TRUE(all_are_durable(next));
}

/// A backup that refuses copies for lack of frames has kept some for heads.
TEST_P(SideSegmentsSim, HeadsTakeTheirReserveWhileCopiesAreRefused) {
  log_bytes_ = 128 << 20;
  start(1, 1, 64 << 20);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  ASSERT_GT(backups_[0]->frames->head_reserve(), 0u);
  log::SideLog side(*log_);
  fill_aside(side, 600);
  const log::Segment& last = *side.segments().back();
  ASSERT_TRUE(run_until([&] { return log_->shortage_of(last) == StatusCode::kNoSpace; }));
  scheduler_.run_for(5s);
  ASSERT_EQ(log_->shortage_of(last).code(), StatusCode::kNoSpace);
  const uint64_t head = log_->head().segment_id();
  const std::string value(100'000, 'v');
  for (int i = 0; log_->head().segment_id() == head; ++i) {
    must_put("k" + std::to_string(i), value);
    ASSERT_TRUE(all_durable(500ms)) << "write " << i << " waits with the copies";
  }
}

TEST_P(SideSegmentsSim, SegmentsThatLeftAreFreedOnTheirBackups) {
  start(4, 2);
  const std::string value(100'000, 'v');
  for (int i = 0; log_->head().segment_id() < 3; ++i) must_put("k" + std::to_string(i), value);
  ASSERT_TRUE(all_durable());
  log::SegmentChange change;
  change.leave = {log_->find_segment(1)};
  ASSERT_EQ(replicas_of(1), 2u);
  ASSERT_EQ(log_->commit(change, log::Roll::kNow), StatusCode::kOk);
  EXPECT_EQ(replicas_of(1), 2u) << "a digest with it may still decide";
  ASSERT_TRUE(run_until([&] { return change.done(); }));
  EXPECT_TRUE(run_until([&] { return replicas_of(1) == 0; }));
  log_->reclaim(log_->take_retired());
  EXPECT_THAT(log_->others(), IsEmpty());
  EXPECT_EQ(manager_->check_counts(), "");
  EXPECT_THAT(log::Invariants(*log_).check(), IsEmpty());
}

/// Its replica of the abandoned head stays open for ever: it is lost, so the epoch rises before the
/// change is done, and the replica does not count.
TEST_P(SideSegmentsSim, ABackupThatDoesNotConfirmTheAbandonedHeadIsFenced) {
  start(5, 2);
  open_ahead();
  ASSERT_TRUE(run_until([&] { return log_->find_segment(2)->opened_durable(); }));
  const auto heads = manager_->replica_servers(1);
  const auto ahead = manager_->replica_servers(2);
  const auto only_ahead = std::ranges::find_if(
      ahead, [&](uint64_t id) { return std::ranges::find(heads, id) == heads.end(); });
  ASSERT_NE(only_ahead, ahead.end()) << "five backups: the seed places the heads apart";
  const auto silent = static_cast<uint32_t>(*only_ahead - 1);
  log::SideLog side(*log_);
  fill_aside(side, 20);
  ASSERT_TRUE(all_are_durable(side));
  cut_off(*nodes_[silent]);
  log::SegmentChange change;
  change.enter = side.release();
  ASSERT_EQ(log_->commit(change, log::Roll::kNow), StatusCode::kOk);
  scheduler_.run_until([&] { return change.done(); }, 5s);
  EXPECT_FALSE(change.done()) << "an open digest without the side segments is on that backup";
  EXPECT_EQ(fence_.epoch, 0u);

  crash_backup(silent);
  ASSERT_TRUE(run_until([&] { return change.done(); }));
  EXPECT_GE(fence_.epoch, 1u);
  must_put("after", "fence");
  ASSERT_TRUE(all_durable());
  take_images();
  const auto found = rebuild();
  ASSERT_TRUE(found);
  EXPECT_TRUE(*found == with_aside()) << found->size() << " of " << with_aside().size();
}

/// Its open was never acknowledged: nothing is fenced, and no close needs to be confirmed.
TEST_P(SideSegmentsSim, AnAbandonedHeadThatLostItsOnlyReplicaHoldsNothingUp) {
  start(3, 1);
  must_put("first", "value");
  ASSERT_TRUE(all_durable());
  const uint64_t head = log_->head().segment_id();
  std::vector<uint32_t> others;
  for (uint32_t i = 0; i < 3; ++i) {
    if (!backups_[i]->service->find(kMaster, head).has_value()) others.push_back(i);
  }
  ASSERT_EQ(others.size(), 2u);
  for (const uint32_t i : others) cut_off(*nodes_[i]);
  const std::string value(100'000, 'v');
  for (int i = 0; log_->segments().size() < 2; ++i) must_put("k" + std::to_string(i), value);
  scheduler_.run_for(10ms);
  log::SegmentChange change;
  ASSERT_EQ(log_->commit(change, log::Roll::kNow), StatusCode::kOk);
  scheduler_.run_for(10ms);
  ASSERT_FALSE(change.done());
  for (const uint32_t i : others) kill_backup(i);
  tell_backups();
  tell_master();
  add_backup(64 << 20);
  EXPECT_TRUE(run_until([&] { return change.done(); }));
  must_put("after", "value");
  EXPECT_TRUE(all_durable());
}

TEST_P(SideSegmentsSim, LostReplicasOfASideSegmentAreMadeAgainWithoutAFence) {
  start(6, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  log::SideLog side(*log_);
  put_aside(side, "x", std::string(500'000, 'x'));
  const std::optional<uint32_t> holder = holder_beside_the_head(side);
  ASSERT_TRUE(holder.has_value());
  crash_backup(*holder);
  put_aside(side, "y", std::string(500'000, 'y'));
  side.close();
  EXPECT_TRUE(all_are_durable(side));
  EXPECT_EQ(fence_.epoch, 0u);
  EXPECT_EQ(replicas_of(side.segments()[0]->id()), 2u);
  EXPECT_EQ(manager_->check_counts(), "");
}

/// The coordinator does not give it up: only the master does not reach it.
TEST_P(SideSegmentsSim, ABackupThatIsCutOffIsReplaced) {
  backup_silence_ = 1s;
  start(6, 2);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  log::SideLog side(*log_);
  put_aside(side, "x", std::string(500'000, 'x'));
  const std::optional<uint32_t> holder = holder_beside_the_head(side);
  ASSERT_TRUE(holder.has_value());
  cut_off(*nodes_[*holder]);
  put_aside(side, "y", std::string(500'000, 'y'));
  side.close();
  EXPECT_TRUE(all_are_durable(side));
  EXPECT_EQ(fence_.epoch, 0u);
  EXPECT_EQ(manager_->check_counts(), "");
}

/// The answers that came meanwhile are lost.
TEST_P(SideSegmentsSim, AMasterThatWasSuspendedBlamesNoBackup) {
  backup_silence_ = 1s;
  log_bytes_ = 128 << 20;
  start(4, 2, 128 << 20);
  must_put("a", "1");
  ASSERT_TRUE(all_durable());
  std::vector<std::unique_ptr<log::SideLog>> sides;
  for (int i = 0; i < 8; ++i) {
    sides.push_back(std::make_unique<log::SideLog>(*log_));
    put_aside(*sides.back(), "x" + std::to_string(i), std::string(500'000, 'x'));
  }
  scheduler_.run_for(100us);
  scheduler_.pause(*master_, scheduler_.now() + 6s);
  for (const auto& lane : lanes_) scheduler_.pause(lane->node, scheduler_.now() + 6s);
  for (const SimNode* backup : nodes_) cut_off(*backup);
  scheduler_.run_for(5s);
  network_.heal_all();
  scheduler_.run_for(3s);
  for (auto& side : sides) {
    side->close();
    EXPECT_TRUE(all_are_durable(*side));
  }
  EXPECT_EQ(manager_->stats().replicas_lost, 0u);
}

/// Copies that stand are made elsewhere: otherwise others would wait for their places.
TEST_P(SideSegmentsSim, CopiesToABackupThatIsCutOffHoldUpNoOthers) {
  backup_silence_ = 1s;
  log_bytes_ = 256 << 20;
  start(6, 2, 256 << 20);
  for (uint64_t head = 1; head <= 24; ++head) {
    must_put("k" + std::to_string(head), "value");
    ASSERT_EQ(log_->roll_head(), StatusCode::kOk);
    ASSERT_TRUE(run_until([&] { return log_->head().segment_id() > head; }));
  }
  ASSERT_TRUE(all_durable());
  cut_off(*nodes_[0]);
  list_.servers[0].disk_read_bytes_per_second = 1'000'000'000'000;  // the first choice
  crash_backup(1);
  crash_backup(2);
  const bool copied = scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; },
                                           std::chrono::minutes(5));
  EXPECT_TRUE(copied) << manager_->stats().under_replicated << " of 25";
  EXPECT_EQ(manager_->check_counts(), "");
}

/// Parts of a recovery that wait for their sources have segments that are not full. Those of others,
/// and survivors of cleaning, are sent meanwhile.
TEST_P(SideSegmentsSim, OnesThatAreNotFilledHoldUpNoOthers) {
  log_bytes_ = 128 << 20;
  start(4, 2, 128 << 20);
  std::vector<std::unique_ptr<log::SideLog>> waiting;
  for (int i = 0; i < 9; ++i) {
    waiting.push_back(std::make_unique<log::SideLog>(*log_));
    put_aside(*waiting.back(), "waiting" + std::to_string(i), "value");
  }
  log::SideLog side(*log_);
  fill_aside(side, 10);
  EXPECT_TRUE(all_are_durable(side));
  for (auto& one : waiting) {
    one->close();
    EXPECT_TRUE(all_are_durable(*one));
  }
  EXPECT_EQ(manager_->check_counts(), "");
}

/// The master dies in the middle of a commit.
struct DeathInACommit : SideRig {
  explicit DeathInACommit(uint64_t seed) : SideRig(seed) { reactors_ = seed % 2 == 0 ? 3 : 1; }

  void run(Duration moment) {
    start(4, 2, 40 << 20);
    open_ahead();
    log::SideLog side(*log_);
    fill_aside(side, 10);
    ASSERT_TRUE(all_are_durable(side));
    acknowledged_ = model_;
    log::SegmentChange change;
    change.enter = side.release();
    ASSERT_EQ(log_->commit(change, log::Roll::kNow), StatusCode::kOk);
    const Time until = scheduler_.now() + moment;
    for (int i = 0; scheduler_.now() < until; ++i) {
      (void)put("during" + std::to_string(i), "commit");
      scheduler_.run_for(50us);
      if (log_->durable() >= log_->head()) acknowledged_ = model_;
    }
    done_ = change.done();
    take_images();
    const auto found = rebuild();
    ASSERT_TRUE(found);
    for (const auto& [key, value] : acknowledged_) EXPECT_EQ(found->count(key), 1u) << key;
    const auto is_aside = [&](const auto& object) { return aside_.contains(object.first); };
    const auto count = static_cast<size_t>(std::ranges::count_if(*found, is_aside));
    EXPECT_TRUE(count == 0 || count == aside_.size()) << "a part of the change: " << count;
    with_ = count > 0;
  }

  std::map<std::string, std::string> acknowledged_;
  bool done_ = false;
  bool with_ = false;
};

/// The log is whole, with the change or without it. What was acknowledged is there, and so is the
/// change once it was done.
TEST(DeathInACommitSim, LeavesAWholeLogWithTheChangeOrWithout) {
  int with = 0, done = 0;
  constexpr int kSeeds = 16;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    DeathInACommit death(seed);
    death.run(std::chrono::microseconds(seed * 190));
    if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
    if (death.done_) EXPECT_TRUE(death.with_) << "seed " << seed;
    with += death.with_ ? 1 : 0;
    done += death.done_ ? 1 : 0;
  }
  EXPECT_GT(done, 1);
  EXPECT_GT(with, done);
  EXPECT_LT(with, kSeeds - 1);
}

}  // namespace
}  // namespace ramcloud
