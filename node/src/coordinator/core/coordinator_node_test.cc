// A coordinator that stands by, on a store that may not answer.
#include "coordinator/core/coordinator_node.h"

#include <gtest/gtest.h>

#include "coordinator/core/testing/fake_cluster.h"

namespace ramcloud {
namespace {

using testing::FakeCluster;
using testing::FakeTransport;

/// A store on which another coordinator leads, and which may stop answering. As etcd's client it
/// gives up after a while.
class OthersStore final : public MetadataStore {
 public:
  explicit OthersStore(Reactor& reactor) : reactor_(reactor) {}
  Task<Result<Records>> load(std::string) override {
    co_await reactor_.sleep(1ms);
    if (!answers) co_return fail(StatusCode::kUnavailable, "the store does not answer");
    co_return Records();
  }
  Task<CommitResult> commit(MetadataTransaction) override { co_return CommitResult(); }
  Task<Result<Leadership>> campaign(std::string) override {
    co_await reactor_.sleep(1ms);
    if (!answers) co_return fail(StatusCode::kUnavailable, "the store does not answer");
    co_return Leadership{1, encode_record(leader, kMetadataFormatMin)};
  }
  uint64_t leading() const override { return 0; }
  Task<void> wait_for_change(uint64_t) override {
    while (answers) co_await reactor_.sleep(100ms);
  }
  Task<void> resign() override { co_return; }

  bool answers = true;
  LeaderRecord leader{"tcp:host=10.0.0.9,port=11100", "", "", ""};

 private:
  Reactor& reactor_;
};

class StandbyTest : public ::testing::Test {
 protected:
  StandbyTest() {
    node_.start();
    EXPECT_TRUE(world_.run_until([&] { return node_.serves_or_redirects(); }));
  }
  bool useful_for(Duration d) {
    return !world_.run_until([&] { return !node_.serves_or_redirects(); }, d);
  }

  FakeCluster world_;
  OthersStore store_{world_.reactor};
  FakeTransport transport_{world_.network};
  RpcClient rpc_{world_.reactor, transport_};
  CoordinatorNode node_{
      rpc_,   transport_,
      store_, world_.metrics,
      {},     [](const Status&) {
                          ADD_FAILURE() << "a standby gave up for good"; }};
};

TEST_F(StandbyTest, IsReadyForAsLongAsTheStoreSaysWhoLeads) {
  EXPECT_TRUE(useful_for(10 * CoordinatorNode::kStoreSilence));
}

TEST_F(StandbyTest, IsNotReadyOnceTheStoreIsSilentForLong) {
  store_.answers = false;
  EXPECT_TRUE(useful_for(CoordinatorNode::kStoreSilence / 2)) << "it may be a moment only";
  EXPECT_TRUE(world_.run_until([&] { return !node_.serves_or_redirects(); },
                               2 * CoordinatorNode::kStoreSilence));
  EXPECT_EQ(node_.redirect(Side::kInside).message(),
            "this coordinator is a standby; the leader is tcp:host=10.0.0.9,port=11100")
      << "it may be this one that is cut off";
  store_.answers = true;
  EXPECT_TRUE(world_.run_until([&] { return node_.serves_or_redirects(); }));
  EXPECT_TRUE(useful_for(2 * CoordinatorNode::kStoreSilence));
}

TEST_F(StandbyTest, CountsEachSilenceByItself) {
  for (int i = 0; i < 5; ++i) {
    store_.answers = false;
    EXPECT_TRUE(useful_for(CoordinatorNode::kStoreSilence / 2));
    store_.answers = true;
    EXPECT_TRUE(useful_for(CoordinatorNode::kStoreSilence / 2));
  }
}

}  // namespace
}  // namespace ramcloud
