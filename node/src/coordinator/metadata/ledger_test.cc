// Outcomes of changes when the store's answers are late, or its leader key is deleted.
#include "coordinator/metadata/ledger.h"

#include <gtest/gtest.h>

#include "coordinator/core/testing/fake_cluster.h"

namespace ramcloud {
namespace {

using testing::FakeCluster;

/// Answers "unknown" for transactions that are still on their way.
class LateStore final : public MetadataStore {
 public:
  explicit LateStore(MetadataStore& inner) : inner_(inner) {}
  Task<Result<Records>> load(std::string prefix) override { return inner_.load(std::move(prefix)); }
  Task<CommitResult> commit(MetadataTransaction transaction) override {
    if (!late) co_return co_await inner_.commit(std::move(transaction));
    on_their_way.push_back(std::move(transaction));
    co_return CommitResult{CommitOutcome::kUnknown, "no answer in time"};
  }
  Task<Result<Leadership>> campaign(std::string record) override {
    return inner_.campaign(std::move(record));
  }
  uint64_t leading() const override { return inner_.leading(); }
  Task<void> wait_for_change(uint64_t number) override { return inner_.wait_for_change(number); }
  Task<void> resign() override { return inner_.resign(); }

  bool late = false;
  std::vector<MetadataTransaction> on_their_way;

 private:
  MetadataStore& inner_;
};

class LedgerTest : public ::testing::Test {
 protected:
  void open() {
    lead();
    ASSERT_TRUE(cluster.wait_for(ledger.open("test", store.leading())).has_value());
  }
  void lead() {
    (void)cluster.wait_for(store.campaign("me"));
    ASSERT_NE(store.leading(), 0u);
  }
  static Task<Status> change(Ledger& ledger, IdsRecord ids, Ledger::Objection objection) {
    const AsyncMutex::Lock lock = co_await ledger.lock();
    co_return co_await ledger.commit(lock, std::move(MetadataChange().put(kIdsKey, ids)),
                                     std::move(objection));
  }
  Status make(IdsRecord ids) { return cluster.wait_for(change(ledger, ids, nullptr)); }
  void deliver() {
    for (auto& transaction : std::exchange(store.on_their_way, {})) {
      (void)cluster.wait_for(sim.commit(std::move(transaction)));
    }
  }
  IdsRecord stored() {
    IdsRecord ids;
    const auto found = cluster.metadata.records.find(kIdsKey);
    if (found != cluster.metadata.records.end()) EXPECT_TRUE(decode_record(found->second, ids));
    return ids;
  }
  /// A withdrawn change, of which a try is still on its way.
  Task<Status> take_back() {
    store.late = true;
    auto task = change(ledger, {1, 1}, [this] {
      return wanted ? Status() : Status(StatusCode::kCancelled, "not wanted any more");
    });
    task.resume();
    cluster.run_for(1s);
    EXPECT_FALSE(task.done());
    EXPECT_FALSE(store.on_their_way.empty());
    wanted = false;
    return task;
  }

  FakeCluster cluster;
  SimMetadata sim{cluster.reactor, cluster.metadata, {.lease = std::chrono::hours(1)}};
  LateStore store{sim};
  Ledger ledger{cluster.reactor, store};
  bool wanted = true;
};

TEST_F(LedgerTest, WhatWasTakenBackDoesNotArriveLater) {
  open();
  auto task = take_back();
  store.late = false;
  ASSERT_TRUE(cluster.run_until([&] { return task.done(); }));
  EXPECT_EQ(task.take().code(), StatusCode::kCancelled);
  deliver();
  EXPECT_EQ(stored().last_table_id, 0u);
  EXPECT_TRUE(make({0, 2}).ok());
  EXPECT_EQ(stored().last_table_id, 2u);
}

TEST_F(LedgerTest, WhatArrivesAfterAllWasMade) {
  open();
  auto task = take_back();
  cluster.run_for(1s);  // its replacement follows it
  deliver();
  store.late = false;
  ASSERT_TRUE(cluster.run_until([&] { return task.done(); }));
  EXPECT_TRUE(task.take().ok());
  EXPECT_EQ(stored().last_table_id, 1u);
  EXPECT_TRUE(make({1, 2}).ok());
  EXPECT_EQ(stored().last_table_id, 2u);
}

TEST_F(LedgerTest, WhatIsNotWantedIsNotTried) {
  open();
  wanted = false;
  store.late = true;
  const Status done = cluster.wait_for(
      change(ledger, {1, 1}, [] { return Status(StatusCode::kCancelled, "not wanted"); }));
  EXPECT_EQ(done.code(), StatusCode::kCancelled);
  EXPECT_TRUE(store.on_their_way.empty());
}

/// The key of the leader is deleted, its lease lives: its own clock says that it leads.
TEST_F(LedgerTest, ALeadershipThatWasTakenAwayIsNotClaimedForEver) {
  lead();
  cluster.metadata.leader_owner = 0;
  const auto opened = cluster.wait_for(ledger.open("test", store.leading()));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code(), StatusCode::kNotLeader);
  EXPECT_TRUE(cluster.metadata.records.empty());
}

TEST_F(LedgerTest, ALockIsNotWaitedForBeyondTheDeadline) {
  std::vector<int> got;
  const auto wait = [](Ledger& l, Time deadline, int number,
                       std::vector<int>& order) -> Task<void> {
    const AsyncMutex::Lock lock = co_await l.lock(deadline);
    order.push_back(lock.held() ? number : -number);
  };
  TaskScope scope(cluster.reactor);
  {
    const AsyncMutex::Lock held = cluster.wait_for(
        [](Ledger& l) -> Task<AsyncMutex::Lock> { co_return co_await l.lock(); }(ledger));
    scope.spawn(wait(ledger, cluster.reactor.now() + 1s, 1, got));
    scope.spawn(wait(ledger, kNever, 2, got));
    cluster.run_for(2s);
    EXPECT_EQ(got, std::vector<int>({-1}));
  }
  cluster.run_for(1s);
  EXPECT_EQ(got, std::vector<int>({-1, 2}));
}

}  // namespace
}  // namespace ramcloud
