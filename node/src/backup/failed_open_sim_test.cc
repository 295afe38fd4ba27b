// An open of a replica that fails may leave the replica behind. Only a refusal that wrote nothing
// is no loss; after any other failure the replica must not count when it is found later.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <map>

#include "backup/testing/replication_rig.h"

namespace ramcloud {
namespace {

using testing::kMaster;

class FailedOpenSim : public ::testing::Test, protected testing::ReplicationRig {
 protected:
  FailedOpenSim() : ReplicationRig(42) {}

  /// The present bytes of a backup's disk, padded to whole frames.
  std::string folder_of(uint32_t i) {
    std::string image = nodes_[i]->disk().contents("/data/frames");
    const uint64_t bytes = std::max<uint64_t>(image.size(), kSuperblockBytes) - kSuperblockBytes;
    image.resize(kSuperblockBytes + (bytes + kFrameStride - 1) / kFrameStride * kFrameStride);
    return image;
  }

  /// Rebuilds from the folders of these backups and the coordinator's fence into found_.
  Status rebuild(const std::vector<uint32_t>& backups) {
    std::vector<std::string> images;
    for (const uint32_t i : backups) images.push_back(folder_of(i));
    std::vector<VolumeImage> volumes;
    for (size_t n = 0; n < backups.size(); ++n) {
      volumes.push_back({fmt::format("b{}", backups[n] + 1), images[n]});
    }
    found_.clear();
    return rebuild_images(volumes,
                          [&](const log::ReplayedObject& object) {
                            found_[std::string(object.key)] = std::string(object.value);
                          },
                          nullptr, {.fences = {{kMaster, fence_}}, .recovered = {}});
  }

  bool holds(uint32_t i, uint64_t segment) {
    return backups_[i]->service->find(kMaster, segment).has_value();
  }

  /// From now on syncs of this disk fail. Written bytes stay readable, as in the page cache.
  void break_disk(uint32_t i) {
    nodes_[i]->disk().fail_with({StatusCode::kIoError, "input/output error"});
  }

  std::map<std::string, std::string> found_;
};

/// The next head is tried on b, which fails to sync it, and goes to c. Master and c die.
TEST_F(FailedOpenSim, AHeadWhoseSyncFailedDoesNotCount) {
  start(3, 1);
  must_put("first", "1");
  ASSERT_TRUE(all_durable());
  const auto a = static_cast<uint32_t>(manager_->replica_servers(1)[0] - 1);
  const uint32_t b = (a + 1) % 3;
  const uint32_t c = (a + 2) % 3;
  nodes_[a]->disk().set_full(true);
  nodes_[c]->disk().set_full(true);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 60; ++i) must_put(fmt::format("k{}", i), value);
  ASSERT_TRUE(scheduler_.run_until([&] { return holds(b, 2); }, 60s));
  break_disk(b);
  nodes_[c]->disk().set_full(false);
  while (log_->head().segment_id() < 2) must_put(fmt::format("l{}", version_), value);
  must_put("last", "acknowledged");
  ASSERT_TRUE(all_durable());
  ASSERT_EQ(manager_->replica_servers(2), std::vector<uint64_t>{c + 1});
  EXPECT_EQ(fence_.epoch, 1u);
  const auto lossy = rebuild({a, b});
  EXPECT_FALSE(lossy.ok()) << "acknowledged data is missing, and nobody says so";
  const auto whole = rebuild({a, b, c});
  ASSERT_TRUE(whole.ok()) << whole.to_string();
  EXPECT_TRUE(found_ == model_);
}

/// The same while a segment goes on with fewer replicas: the failed replica must not become
/// optional again as if the backup had nothing.
TEST_F(FailedOpenSim, AReplicaOfADegradedHeadWhoseSyncFailedDoesNotCount) {
  start(2, 2);
  must_put("first", "1");
  ASSERT_TRUE(all_durable());
  crash_backup(0);
  must_put("after", "loss");
  ASSERT_TRUE(all_durable(10s));
  ASSERT_GT(manager_->stats().degraded, 0u);
  ASSERT_TRUE(scheduler_.run_until([&] { return log_->head().segment_id() > 1; }, 10s));
  must_put("behind", "the roll");
  ASSERT_TRUE(all_durable(10s));
  const uint64_t head = log_->head().segment_id();
  const uint32_t former_epoch = fence_.epoch;
  // First it gets the copies of closed segments, then the head.
  add_backup(96 << 20);
  const auto copies_only = [](void* transport, const Request& request) {
    if (request.header.opcode != static_cast<uint16_t>(wire::Opcode::kReplicaOpen)) return false;
    const auto open = load<wire::ReplicaOpenRequest>(request.body.data());
    if ((open.flags & wire::ReplicaOpenRequest::kRecreation) != 0) return false;
    wire::ErrorDetails details;
    details.flags = wire::ErrorDetails::kNothingWritten;
    reply_error(*static_cast<Transport*>(transport), request.reply,
                {StatusCode::kNoSpace, "no heads here"}, 0, details);
    return true;
  };
  backups_[2]->registry->set_gate(copies_only, backups_[2]->transport.get());
  const auto copied = [&] {
    for (uint64_t id = 1; id < head; ++id) {
      if (manager_->replica_servers(id).size() < 2) return false;
    }
    return true;
  };
  ASSERT_TRUE(scheduler_.run_until(copied, 60s));
  backups_[2]->registry->set_gate(nullptr, nullptr);
  ASSERT_TRUE(scheduler_.run_until([&] { return holds(2, head); }, 60s));
  break_disk(2);
  must_put("last", "acknowledged");
  ASSERT_TRUE(all_durable());
  EXPECT_GT(fence_.epoch, former_epoch);
  const auto lossy = rebuild({2});
  EXPECT_FALSE(lossy.ok() && found_ != model_) << "acknowledged data is missing";
  const auto whole = rebuild({1, 2});
  ASSERT_TRUE(whole.ok()) << whole.to_string();
  EXPECT_TRUE(found_ == model_);
}

/// One backup answers opens by a script, then as usual. Which answers make it a lost replica?
class ScriptedOpenSim : public FailedOpenSim {
 protected:
  struct Answer {
    StatusCode code = StatusCode::kOk;
    bool nothing_written = false;
    bool silent = false;  // no answer at all
  };

  /// The coordinator's epoch when data is durable, if the first backup answered the open like this.
  uint32_t epoch_after(std::deque<Answer> script) {
    script_ = std::move(script);
    start(2, 1);
    for (uint32_t i = 0; i < 2; ++i) {
      gates_[i] = {this, i};
      backups_[i]->registry->set_gate(&ScriptedOpenSim::gate, &gates_[i]);
    }
    must_put("k", "v");
    EXPECT_TRUE(all_durable());
    EXPECT_TRUE(script_.empty());
    return fence_.epoch;
  }

 private:
  struct Gate {
    ScriptedOpenSim* test = nullptr;
    uint32_t backup = 0;
  };
  static bool gate(void* object, const Request& request) {
    const Gate& at = *static_cast<Gate*>(object);
    return at.test->answer(at.backup, request);
  }
  bool answer(uint32_t backup, const Request& request) {
    if (request.header.opcode != static_cast<uint16_t>(wire::Opcode::kReplicaOpen)) return false;
    if (!scripted_) scripted_ = backup;
    if (*scripted_ != backup || script_.empty()) return false;
    const Answer answer = script_.front();
    script_.pop_front();
    if (answer.silent) return true;
    wire::ErrorDetails details;
    details.flags = answer.nothing_written ? wire::ErrorDetails::kNothingWritten : 0;
    reply_error(*backups_[backup]->transport, request.reply, {answer.code, "scripted"}, 0, details);
    return true;
  }

  std::deque<Answer> script_;
  std::optional<uint32_t> scripted_;
  Gate gates_[2];
};

TEST_F(ScriptedOpenSim, ARefusalThatWroteNothingIsNoLoss) {
  EXPECT_EQ(epoch_after({{StatusCode::kNoSpace, true}}), 0u);
}
TEST_F(ScriptedOpenSim, ARefusalThatSaysNothingOfItIsALoss) {
  EXPECT_EQ(epoch_after({{StatusCode::kNoSpace, false}}), 1u);
}
TEST_F(ScriptedOpenSim, BackpressureThatWroteNothingIsNoLoss) {
  EXPECT_EQ(epoch_after({{StatusCode::kRetry, true}, {StatusCode::kNoSpace, true}}), 0u);
}
TEST_F(ScriptedOpenSim, BackpressureThatMayHaveWrittenMakesTheRefusalALoss) {
  EXPECT_EQ(epoch_after({{StatusCode::kRetry, false}, {StatusCode::kNoSpace, true}}), 1u);
}
TEST_F(ScriptedOpenSim, AnOpenWithoutAnAnswerMakesTheRefusalALoss) {
  EXPECT_EQ(epoch_after({{.silent = true}, {StatusCode::kNoSpace, true}}), 1u);
}
TEST_F(ScriptedOpenSim, ABackupThatRestartedIsALoss) {
  EXPECT_EQ(epoch_after({{StatusCode::kWrongServer, true}}), 1u);
}
TEST_F(ScriptedOpenSim, AnOpenThatSucceedsAfterAFailureIsNoLoss) {
  EXPECT_EQ(epoch_after({{StatusCode::kRetry, false}}), 0u);
}

/// All replicas of the head that was opened ahead are lost, and no backup takes another one for a
/// while. The fence is told all the same, so that writes go on in the present head. That head must
/// not be closed before the next one is open again: nothing would tell recovery where the log ends.
TEST_F(FailedOpenSim, WithoutTheHeadThatWasOpenedAheadTheHeadStaysOpen) {
  start(2, 1);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 60; ++i) must_put("k" + std::to_string(i), value);
  ASSERT_TRUE(all_durable());
  ASSERT_TRUE(scheduler_.run_until([&] { return log_->find_segment(2)->opened_durable(); }, 10s));
  const auto on = [this](uint64_t segment) {
    return static_cast<uint32_t>(manager_->replica_servers(segment)[0] - 1);
  };
  const uint32_t present = on(1), ahead = on(2);
  ASSERT_NE(present, ahead);
  nodes_[present]->disk().set_full(true);
  crash_backup(ahead);
  for (int i = 60; i < 200; ++i) {
    if (put("k" + std::to_string(i), value) != StatusCode::kOk) model_["refused"];
    scheduler_.run_for(10ms);
  }
  EXPECT_TRUE(model_.contains("refused")) << "the head is full";
  model_.erase("refused");
  EXPECT_GT(model_.size(), 70u) << "writes went on";
  EXPECT_TRUE(all_durable());
  EXPECT_EQ(fence_.epoch, 1u);
  const Status found = rebuild({present, ahead});
  EXPECT_TRUE(found.ok()) << found.to_string();
  EXPECT_TRUE(found_ == model_);

  nodes_[present]->disk().set_full(false);
  must_put("later", value);
  ASSERT_TRUE(all_durable());
  EXPECT_TRUE(log_->find_segment(1)->closed_durable());
  EXPECT_TRUE(rebuild({present}).ok());
  EXPECT_TRUE(found_ == model_);
}

}  // namespace
}  // namespace ramcloud
