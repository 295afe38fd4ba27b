#include "server/enlistment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/sim/sim_transport.h"

namespace ramcloud::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::Opcode;

constexpr wire::Uuid kCluster{1, 2, 3};
constexpr wire::Uuid kOther{9};
constexpr uint64_t kId = 7;

/// A server that enlists, and a coordinator whose answers the test decides.
class EnlistmentTest : public ::testing::Test {
 protected:
  EnlistmentTest() {
    list_.term = list_.version = 1;
    add_to_list(kId, wire::ServerState::kUp);
    start_coordinator();
    rpc_.set_cluster_uuid(kCluster);
    enlistment_ = std::make_unique<Enlistment>(
        rpc_, servers_, std::vector{coordinator_},
        [this](const Status& why) { fatal_.push_back(why.to_string()); });
  }

  void add_to_list(uint64_t id, wire::ServerState state) {
    auto& entry = list_.servers.emplace_back();
    entry.server_id = id;
    entry.state = state;
    entry.locator = "sim:host=server,port=1";
  }
  void start_coordinator() {
    there_ = network_.make_transport(coordinator_node_);
    there_->set_identity({kCluster, 0});
    registry_ = std::make_unique<ServiceRegistry>(*there_);
    registry_->add(Opcode::kEnlist, &on_enlist, this);
    registry_->add(Opcode::kGetServerList, &on_get_list, this);
    registry_->add(Opcode::kRaiseReplicationEpoch, &on_raise, this);
    ASSERT_TRUE(there_->listen(coordinator_.address, Side::kInside, *registry_).has_value());
  }
  void kill_coordinator() {
    scheduler_.kill(coordinator_node_);
    registry_.reset();
    there_.reset();
  }
  static EnlistmentTest& of(void* object) { return *static_cast<EnlistmentTest*>(object); }
  /// The next refusal that is prepared; false if there is none.
  bool refuse(const Request& request) {
    if (refusals_.empty()) return false;
    reply_error(*there_, request.reply, refusals_.front());
    refusals_.erase(refusals_.begin());
    return true;
  }
  static void on_enlist(void* object, const Request& request) {
    auto& self = of(object);
    wire::EnlistRequest asked;
    EXPECT_TRUE(request.decode(asked));
    self.nonces_.push_back(asked.nonce);
    if (self.refuse(request)) return;
    reply_message(*self.there_, request.reply, wire::EnlistReply{kId, kCluster, self.list_});
  }
  static void on_get_list(void* object, const Request& request) {
    auto& self = of(object);
    wire::GetServerListRequest asked;
    EXPECT_TRUE(request.decode(asked));
    EXPECT_EQ(asked.server_id, kId);
    ++self.lists_asked_;
    if (!self.refuse(request)) reply_message(*self.there_, request.reply, self.list_);
  }
  static void on_raise(void* object, const Request& request) {
    auto& self = of(object);
    wire::RaiseReplicationEpochRequest asked;
    EXPECT_TRUE(request.decode(asked));
    self.raises_.push_back(asked);
    if (!self.refuse(request)) reply_message(*self.there_, request.reply, wire::Empty{});
  }

  static wire::EnlistRequest request() {
    wire::EnlistRequest request;
    request.cluster_uuid = kCluster;
    request.name = "s";
    request.locator = "sim:host=server,port=1";
    request.nonce = 77;
    return request;
  }
  void start() {
    node_.reactor().post([this] {
      enlistment_->start(request(), [this](const wire::EnlistReply& reply) {
        served_.push_back(reply.server_id);
        return serving_;
      });
    });
  }
  void enlist() {
    start();
    ASSERT_TRUE(scheduler_.run_until([this] { return enlistment_->enlisted(); }, 60s));
  }
  bool ends() {
    return scheduler_.run_until([this] { return !fatal_.empty(); }, 60s);
  }
  /// Raises the epoch; the coordinator's answer is in raised_.
  void raise(uint64_t segment, uint32_t epoch) {
    raised_.reset();
    node_.reactor().post([this, segment, epoch] { enlistment_->raise_epoch({segment, epoch}); });
    EXPECT_TRUE(scheduler_.run_until(
        [&] {
          const auto answer = enlistment_->take_fence_answer();
          if (!answer) return false;
          EXPECT_EQ(answer->epoch, epoch);
          raised_ = answer->status;
          return true;
        },
        60s));
  }

  SimScheduler scheduler_{1};
  SimNetwork network_{scheduler_};
  SimNode& coordinator_node_ = scheduler_.add_node("coordinator");
  SimNode& node_ = scheduler_.add_node("server");
  Locator coordinator_{"sim", {"coordinator", 1}};
  std::unique_ptr<SimTransport> there_;
  std::unique_ptr<ServiceRegistry> registry_;
  std::unique_ptr<SimTransport> here_ = network_.make_transport(node_);
  RpcClient rpc_{node_.reactor(), *here_};
  ServerList servers_;
  wire::ServerList list_;
  std::vector<Status> refusals_;  // of the next requests
  Status serving_;                // the result of beginning to serve
  std::vector<uint64_t> nonces_, served_;
  std::vector<wire::RaiseReplicationEpochRequest> raises_;
  int lists_asked_ = 0;
  std::vector<std::string> fatal_;
  std::optional<Status> raised_;
  std::unique_ptr<Enlistment> enlistment_;
};

TEST_F(EnlistmentTest, ItAsksUntilItIsTakenInAndStaysTheSameServer) {
  refusals_ = {{StatusCode::kUnavailable, "no leader yet"}, {StatusCode::kRetry, "busy"}};
  EXPECT_EQ(enlistment_->why_not_ready(), "not enlisted with the coordinator");
  EXPECT_EQ(enlistment_->server_id(), 0u);
  enlist();
  EXPECT_THAT(nonces_, ElementsAre(77, 77, 77)) << "else it would get a second id";
  EXPECT_THAT(served_, ElementsAre(kId));
  EXPECT_EQ(enlistment_->server_id(), kId);
  EXPECT_EQ(enlistment_->why_not_ready(), "");
  EXPECT_EQ(servers_.version(), 1u);
  EXPECT_THAT(fatal_, ElementsAre());
}

TEST_F(EnlistmentTest, AnAnswerThatWillNotChangeEndsTheServer) {
  refusals_ = {{StatusCode::kInvalidArgument, "name: too long"}};
  start();
  ASSERT_TRUE(ends());
  EXPECT_THAT(fatal_, ElementsAre(HasSubstr("name: too long")));
  EXPECT_FALSE(enlistment_->enlisted());
}

TEST_F(EnlistmentTest, AVolumeOfAnotherClusterEndsTheServer) {
  there_->set_identity({kOther, 0});
  start();
  ASSERT_TRUE(ends());
  EXPECT_THAT(fatal_, ElementsAre(HasSubstr("belongs to another cluster than all of its")));
}

TEST_F(EnlistmentTest, WhoCannotBeginToServeEnds) {
  serving_ = {StatusCode::kIoError, "the superblock is not written"};
  start();
  ASSERT_TRUE(ends());
  EXPECT_THAT(fatal_, ElementsAre(HasSubstr("superblock")));
  EXPECT_FALSE(enlistment_->enlisted());
}

TEST_F(EnlistmentTest, WhoeverIsListedAsCrashedEndsOnce) {
  enlist();
  list_.version = 2;
  list_.servers.front().state = wire::ServerState::kCrashed;
  ASSERT_TRUE(servers_.apply(list_).ok());
  enlistment_->leave({StatusCode::kCrashed, "once more"});
  EXPECT_THAT(fatal_, ElementsAre()) << "not while others look at the list";
  scheduler_.run_for(1s);
  EXPECT_THAT(fatal_, ElementsAre(HasSubstr("lists server 7 as CRASHED")));
}

TEST_F(EnlistmentTest, WhoHearsNothingAsksAndEndsWhenItIsNotKnown) {
  enlist();
  scheduler_.run_for(Enlistment::kForgottenAfter + 1s);
  EXPECT_EQ(lists_asked_, 1);
  EXPECT_THAT(fatal_, ElementsAre());
  list_.version = 2;
  list_.servers.clear();
  add_to_list(kId + 1, wire::ServerState::kUp);
  ASSERT_TRUE(ends());
  EXPECT_THAT(fatal_, ElementsAre(HasSubstr("does not know server 7 any more")));
}

TEST_F(EnlistmentTest, WhoHearsOfTheCoordinatorDoesNotAsk) {
  enlist();
  for (int i = 0; i < 10; ++i) {
    scheduler_.run_for(Enlistment::kForgottenAfter / 2);
    node_.reactor().post([this] { enlistment_->heard(); });
  }
  EXPECT_EQ(lists_asked_, 0);
}

TEST_F(EnlistmentTest, ACoordinatorThatIsAwayEndsNothingButAnotherClustersMeansNotReady) {
  enlist();
  kill_coordinator();
  scheduler_.run_for(30s);
  EXPECT_THAT(fatal_, ElementsAre());
  EXPECT_EQ(enlistment_->why_not_ready(), "");

  scheduler_.restart(coordinator_node_);
  start_coordinator();
  there_->set_identity({kOther, 0});
  ASSERT_TRUE(scheduler_.run_until([this] { return !enlistment_->why_not_ready().empty(); }, 60s));
  EXPECT_THAT(enlistment_->why_not_ready(), HasSubstr("belong to another cluster"));
  EXPECT_THAT(fatal_, ElementsAre());

  there_->set_identity({kCluster, 0});
  ASSERT_TRUE(scheduler_.run_until([this] { return enlistment_->why_not_ready().empty(); }, 60s));
}

TEST_F(EnlistmentTest, AnEpochIsRaisedUntilTheCoordinatorHasSaidYesOrNo) {
  enlist();
  EXPECT_EQ(enlistment_->restate().epoch, 0u);
  refusals_ = {{StatusCode::kUnavailable, "etcd is away"}};
  raise(5, 2);
  EXPECT_TRUE(raised_->ok());
  ASSERT_EQ(raises_.size(), 2u);
  EXPECT_EQ(raises_.back().server_id, kId);
  EXPECT_EQ(raises_.back().epoch, 2u);

  refusals_ = {{StatusCode::kCrashed, "given up"}};
  raise(6, 3);
  EXPECT_EQ(raised_->code(), StatusCode::kCrashed);
  EXPECT_EQ(raises_.size(), 3u) << "that was definite";
}

TEST_F(EnlistmentTest, ItRestatesWhatItSaidAndTheEpochThatWasConfirmed) {
  enlist();
  raise(5, 2);
  refusals_ = {{StatusCode::kStaleTerm, "replaced"}};
  raise(6, 3);
  const wire::Restatement all = enlistment_->restate();
  EXPECT_EQ(all.server_id, kId);
  EXPECT_EQ(all.enlisted.name, "s");
  EXPECT_EQ(all.enlisted.nonce, 77u);
  EXPECT_EQ(all.list.version, 1u);
  EXPECT_EQ(all.lowest_open_segment, 5u);
  EXPECT_EQ(all.epoch, 2u) << "nobody has confirmed the third";
}

}  // namespace
}  // namespace ramcloud::server
