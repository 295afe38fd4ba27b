// Replication that several reactors of a master drive: the messages that they send themselves, and
// the cases in which the first reactor must take over a message.
#include "backup/testing/replication_rig.h"

namespace ramcloud {
namespace {

class LanesSim : public ::testing::TestWithParam<uint32_t>, protected testing::ReplicationRig {
 protected:
  LanesSim() : ReplicationRig(7) {}

  /// The sessions of all reactors to the head's backups are open, so each reactor sends its own
  /// bytes.
  void start_connected(uint32_t backups, uint32_t replicas) {
    reactors_ = 3;
    start(backups, replicas);
    for (int i = 0; i < 6; ++i) {
      must_put("first" + std::to_string(i), "v");
      ASSERT_TRUE(all_durable());
    }
    appends_ = 1;
  }
  uint64_t sent_by(size_t reactor) const { return lanes_[reactor]->messages.value(); }
  SimNode& holder(uint64_t segment, size_t slot) {
    return *nodes_[manager_->replica_servers(segment)[slot] - 1];
  }
  /// Puts, with the way between reactor 1 and the backup cut: its message gets no answer.
  void put_into_the_void(const SimNode& backup) {
    network_.partition(lanes_[1]->node, backup);
    const uint64_t before = sent_by(1);
    must_put("lost", "message");
    scheduler_.run_for(1ms);
    ASSERT_GT(sent_by(1), before);
    ASSERT_LT(log_->durable(), log_->head());
  }
  /// A rebuild without one of the folders finds all objects.
  void expect_all_without(uint32_t missing) {
    std::vector<std::string> images;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      images.push_back(backups_[i] ? image_of(i) : std::string());
    }
    std::vector<VolumeImage> volumes;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (i != missing && !images[i].empty()) {
        volumes.push_back({"b" + std::to_string(i + 1), images[i]});
      }
    }
    std::map<std::string, std::string> found;
    const Status status = rebuild_images(volumes, [&](const log::ReplayedObject& object) {
      found[std::string(object.key)] = std::string(object.value);
    });
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(found == model_) << found.size() << " of " << model_.size();
  }
};
INSTANTIATE_TEST_SUITE_P(Replicas, LanesSim, ::testing::Values(1u, 2u, 3u));

/// With one replica nothing is left to be acknowledged when it is lost.
class LanesFenceSim : public LanesSim {};
INSTANTIATE_TEST_SUITE_P(Replicas, LanesFenceSim, ::testing::Values(2u, 3u));

TEST_P(LanesSim, WhoAppendsSends) {
  start_connected(4, GetParam());
  for (const size_t by : {1, 2, 0}) {
    appends_ = by;
    const std::vector<uint64_t> before = {sent_by(0), sent_by(1), sent_by(2)};
    const uint64_t messages = manager_->stats().messages;
    for (int i = 0; i < 20; ++i) {
      must_put("k" + std::to_string(i), std::to_string(by));
      ASSERT_TRUE(all_durable());
    }
    for (size_t other = 0; other < 3; ++other) {
      EXPECT_EQ(sent_by(other) - before[other], other == by ? 20 * GetParam() : 0u) << other;
    }
    EXPECT_EQ(manager_->stats().messages - messages, 20 * GetParam());
  }
  expect_all_without(GetParam() == 1 ? ~0u : 0u);
}

TEST_P(LanesSim, WhatIsPublishedMeanwhileSharesAMessage) {
  start_connected(4, GetParam());
  appends_ = std::nullopt;
  const uint64_t messages = manager_->stats().messages;
  for (int i = 0; i < 60; ++i) ASSERT_EQ(put("k" + std::to_string(i), "v"), StatusCode::kOk);
  ASSERT_TRUE(all_durable());
  EXPECT_LE(manager_->stats().messages - messages, 4 * GetParam());
}

TEST_P(LanesSim, AMessageWithoutAnswerIsSentAgainByTheFirst) {
  start_connected(4, GetParam());
  put_into_the_void(holder(1, GetParam() - 1));
  EXPECT_TRUE(all_durable(3s)) << "the first reactor's way is not cut";
  // And what this reactor appends later, without a try of its own each time.
  must_put("more", "data");
  EXPECT_TRUE(all_durable(100ms));
  network_.heal_all();
  scheduler_.run_for(10s);
  const uint64_t before = sent_by(1);
  for (int i = 0; i < 3; ++i) {
    must_put("much" + std::to_string(i), "later");
    EXPECT_TRUE(all_durable(100ms));
  }
  EXPECT_GT(sent_by(1), before);
  expect_all_without(~0u);
}

TEST_P(LanesSim, ABackupLostUnderAMessageIsReplaced) {
  start_connected(5, GetParam());
  const auto victim = static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1);
  put_into_the_void(*nodes_[victim]);
  crash_backup(victim);
  // The call is dropped, not waited for: its deadline is two seconds later.
  EXPECT_TRUE(all_durable(1s));
  EXPECT_EQ(fence_.epoch, 1u);
  EXPECT_TRUE(scheduler_.run_until([&] { return manager_->stats().under_replicated == 0; }, 10s));
  const uint64_t before = sent_by(1);
  for (int i = 0; i < 6; ++i) {
    must_put("after" + std::to_string(i), "loss");
    ASSERT_TRUE(all_durable(100ms));
  }
  EXPECT_GT(sent_by(1), before) << "its call came back to it";
  if (GetParam() > 1) expect_all_without(~0u);
}

TEST_P(LanesSim, TheHeadIsClosedOnlyAfterAMessageUnderWay) {
  start_connected(4, GetParam());
  put_into_the_void(holder(1, 0));
  ASSERT_EQ(log_->roll_head(), StatusCode::kOk);
  const log::Segment* first = log_->find_segment(1);
  ASSERT_TRUE(scheduler_.run_until([&] { return first->closed(); }, 1s));
  scheduler_.run_for(500ms);
  EXPECT_FALSE(first->closed_durable());
  must_put("in the next", "head");
  EXPECT_TRUE(first->closed_durable());
  EXPECT_TRUE(all_durable());
  expect_all_without(~0u);
}

TEST_P(LanesFenceSim, NothingIsAcknowledgedByAnybodyBeforeTheFence) {
  coordinator_delay_ = 3s;
  start_connected(5, GetParam());
  crash_backup(static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1));
  scheduler_.run_for(10ms);  // the replicas that are left have the epoch
  for (size_t by : {1, 2, 0}) {
    appends_ = by;
    ASSERT_EQ(put("b", std::to_string(by)), StatusCode::kOk);
    scheduler_.run_for(100ms);
    EXPECT_LT(log_->durable(), log_->head());
  }
  EXPECT_TRUE(all_durable(10s));
  EXPECT_EQ(fence_.epoch, 1u);
}

/// Heads are filled and switched while all append.
TEST_P(LanesSim, HeadsSwitchUnderLoad) {
  start_connected(4, GetParam());
  appends_ = std::nullopt;
  for (int i = 0; i < 150; ++i) {
    must_put("k" + std::to_string(i), std::string(static_cast<size_t>(i) * 1'500, 'v'));
    scheduler_.run_for(100us);
  }
  EXPECT_TRUE(all_durable());
  EXPECT_GT(log_->head().segment_id(), 1u);
  EXPECT_GT(sent_by(1) + sent_by(2), 20u);
  EXPECT_EQ(manager_->stats().fully_replicated, manager_->stats().segments);
  expect_all_without(GetParam() == 1 ? ~0u : 1u);
}

}  // namespace
}  // namespace ramcloud
