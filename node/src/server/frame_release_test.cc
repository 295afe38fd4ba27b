// A backup asks which dead masters' replicas are no longer needed, and frees only those frames.
#include "server/frame_release.h"

#include <gmock/gmock.h>

#include "backup/testing/recovery_fixture.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud::server {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr uint64_t kMaster = testing::kServiceMaster;
constexpr uint64_t kAbsent = 20;  // no list names it any more

class FrameReleaseTest : public testing::RecoveryFixture {
 protected:
  FrameReleaseTest() { frames_wanted_ = 4; }
  void SetUp() override {
    RecoveryFixture::SetUp();
    tell({kMaster, kAbsent}, wire::ServerState::kUp);
    ASSERT_EQ(open(1, "head"), StatusCode::kOk);
    ASSERT_EQ(open(1, "head", 1, kAbsent), StatusCode::kOk);
    coordinator_ = network_.make_transport(coordinator_node_);
    coordinator_->set_identity({testing::kServiceCluster, 0});
    answers_ = std::make_unique<ServiceRegistry>(*coordinator_);
    if (knows_) answers_->add(wire::Opcode::kGetRecovered, &on_asked, this);
    ASSERT_TRUE(coordinator_->listen({"c", 1}, Side::kInside, *answers_).has_value());
    release_.emplace(rpc_, servers_, std::vector{Locator{"sim", {"c", 1}}}, *service_);
  }
  void TearDown() override { release_.reset(); }
  void tell(std::vector<uint64_t> ids, wire::ServerState state) {
    wire::ServerList list{1, ++version_, std::vector<wire::ServerListEntry>(ids.size())};
    for (size_t i = 0; i < ids.size(); ++i) {
      list.servers[i].server_id = ids[i];
      list.servers[i].state = state;
    }
    ASSERT_TRUE(servers_.apply(list).ok());
  }
  static void on_asked(void* object, const Request& request) {
    auto& self = *static_cast<FrameReleaseTest*>(object);
    wire::GetRecoveredRequest asked;
    ASSERT_TRUE(request.decode(asked));
    self.asked_.push_back(asked.master_ids);
    reply_message(*self.coordinator_, request.reply, wire::Recovered{self.recovered_});
  }
  void some_minutes() { scheduler_.run_for(5 * FrameRelease::kAskEvery); }
  /// As a request that the reactor receives: in a turn of its own.
  StatusCode open_for_the_living(uint64_t segment) {
    const int before = replies_.count;
    const wire::ReplicaOpenRequest request{.master_id = kAbsent,
                                           .segment_id = segment,
                                           .epoch = 1,
                                           .flags = 0,
                                           .capacity = 4096,
                                           .length = 0,
                                           .list_version = 1};
    node_.reactor().post(
        [=, this] { post(wire::Opcode::kReplicaOpen, std::string(bytes_of(request))); });
    EXPECT_TRUE(scheduler_.run_until([&] { return replies_.count > before; }, 10s));
    return replies_.status;
  }
  bool holds(uint64_t master) const { return service_->find(master, 1).has_value(); }

  bool knows_ = true;
  uint64_t version_ = 1;
  SimNetwork network_{scheduler_};
  SimNode& coordinator_node_ = scheduler_.add_node("c");
  std::unique_ptr<SimTransport> coordinator_;
  std::unique_ptr<ServiceRegistry> answers_;
  std::unique_ptr<SimTransport> transport_ = network_.make_transport(node_);
  RpcClient rpc_{node_.reactor(), *transport_};
  std::vector<std::vector<uint64_t>> asked_;
  std::vector<uint64_t> recovered_;
  std::optional<FrameRelease> release_;
};

TEST_F(FrameReleaseTest, NothingIsAskedWhileAllMastersLive) {
  some_minutes();
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_TRUE(holds(kMaster));
}

/// Neither the verdict nor a list without the server proves that its replicas are not needed.
TEST_F(FrameReleaseTest, ADeadMasterKeepsItsFramesUntilItIsRecovered) {
  tell({kMaster}, wire::ServerState::kCrashed);
  some_minutes();
  EXPECT_THAT(asked_, ::testing::Not(IsEmpty()));
  EXPECT_THAT(asked_, Each(ElementsAre(kMaster, kAbsent)));
  EXPECT_TRUE(holds(kMaster));
  EXPECT_TRUE(holds(kAbsent));
  recovered_ = {kMaster};
  some_minutes();
  EXPECT_FALSE(holds(kMaster));
  EXPECT_TRUE(holds(kAbsent));
  EXPECT_THAT(asked_.back(), ElementsAre(kAbsent));
  EXPECT_EQ(frames_->frames_free(), 3u);
}

TEST_F(FrameReleaseTest, OnlyWhatWasAskedForIsFreed) {
  tell({kMaster}, wire::ServerState::kUp);
  recovered_ = {kMaster, 99};
  some_minutes();
  EXPECT_THAT(asked_, Each(ElementsAre(kAbsent)));
  EXPECT_TRUE(holds(kMaster));
  EXPECT_TRUE(holds(kAbsent));
}

/// Nothing has changed for a long time, so the backup asks seldom; then a master dies.
TEST_F(FrameReleaseTest, ADeathIsAskedForSoonHoweverLongAllHaveLived) {
  some_minutes();
  scheduler_.run_for(FrameRelease::kAskEvery / 2);
  tell({kAbsent}, wire::ServerState::kUp);
  recovered_ = {kMaster};
  scheduler_.run_for(5s);
  EXPECT_FALSE(holds(kMaster));
  EXPECT_TRUE(holds(kAbsent));
}

/// The recovery took long, so the backup asks seldom; then it ends, and others need its frames.
TEST_F(FrameReleaseTest, AnOpenWithoutAFrameWaitsForTheAnswer) {
  ASSERT_EQ(open(2, "head"), StatusCode::kOk);
  ASSERT_EQ(open(3, "head"), StatusCode::kOk);
  ASSERT_EQ(frames_->frames_free(), 0u);
  tell({kAbsent}, wire::ServerState::kUp);
  some_minutes();
  const size_t before = asked_.size();
  EXPECT_EQ(open_for_the_living(2), StatusCode::kNoSpace) << "it is not recovered";
  EXPECT_TRUE(replies_.nothing_written());
  EXPECT_EQ(asked_.size(), before + 1);
  recovered_ = {kMaster};
  EXPECT_EQ(open_for_the_living(2), StatusCode::kOk);
  EXPECT_EQ(asked_.size(), before + 2);
  EXPECT_FALSE(holds(kMaster));
  EXPECT_TRUE(holds(kAbsent));
  EXPECT_EQ(frames_->frames_free(), 2u);
}

TEST_F(FrameReleaseTest, WithoutACoordinatorAnOpenWithoutAFrameIsRefused) {
  ASSERT_EQ(open(2, "head"), StatusCode::kOk);
  ASSERT_EQ(open(3, "head"), StatusCode::kOk);
  tell({kAbsent}, wire::ServerState::kUp);
  recovered_ = {kMaster};
  network_.partition(node_, coordinator_node_);
  EXPECT_EQ(open_for_the_living(2), StatusCode::kNoSpace);
  EXPECT_TRUE(holds(kMaster));
}

/// All frames are of live masters: there is nothing to ask.
TEST_F(FrameReleaseTest, WithoutFramesOfTheDeadNobodyIsAsked) {
  ASSERT_EQ(open(2, "head"), StatusCode::kOk);
  ASSERT_EQ(open(3, "head"), StatusCode::kOk);
  EXPECT_EQ(open_for_the_living(2), StatusCode::kNoSpace);
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(FrameReleaseTest, WithoutAnAnswerNothingIsFreed) {
  tell({}, wire::ServerState::kUp);
  recovered_ = {kMaster, kAbsent};
  network_.partition(node_, coordinator_node_);
  some_minutes();
  EXPECT_TRUE(holds(kMaster));
  EXPECT_TRUE(holds(kAbsent));
}

/// A coordinator of a former version.
class FormerCoordinatorTest : public FrameReleaseTest {
 protected:
  FormerCoordinatorTest() { knows_ = false; }
};
TEST_F(FormerCoordinatorTest, WhoDoesNotKnowTheQuestionFreesNothing) {
  tell({}, wire::ServerState::kUp);
  some_minutes();
  EXPECT_TRUE(holds(kMaster));
  EXPECT_TRUE(holds(kAbsent));
}

}  // namespace
}  // namespace ramcloud::server
