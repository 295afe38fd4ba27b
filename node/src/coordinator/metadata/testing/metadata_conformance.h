// The test suite for every implementation of MetadataStore. A test program includes this, and
// instantiates MetadataStoreTest with its implementation.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "coordinator/metadata/invariants.h"
#include "coordinator/metadata/ledger.h"
#include "coordinator/metadata/metadata_store.h"
#include "coordinator/metadata/sim_metadata.h"
#include "coordinator/metadata/tablet_changes.h"
#include "runtime/epoll_source.h"

namespace ramcloud::testing {

/// Keeps the stored data while store objects are destroyed and re-created.
class StoreHarness {
 public:
  virtual ~StoreHarness() = default;
  virtual std::unique_ptr<MetadataStore> open(Reactor& reactor) = 0;
  /// The lease of leaders that do not resign.
  virtual Duration lease() const { return 1s; }
};

struct StoreKind {
  std::string name;
  std::function<std::unique_ptr<StoreHarness>()> make;
  bool ambiguous = false;  // outcomes may be unknown without a fault

  friend void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }
  static std::string name_of(const ::testing::TestParamInfo<StoreKind>& info) {
    return info.param.name;
  }
};

/// Loses requests and answers on the way to a store and back.
class AmbiguousStore final : public MetadataStore {
 public:
  AmbiguousStore(Reactor& reactor, std::unique_ptr<MetadataStore> store)
      : reactor_(reactor), store_(std::move(store)) {}
  Task<Result<Records>> load(std::string prefix) override {
    if (reactor_.random().chance(0.1)) co_return fail(StatusCode::kUnavailable, "lost on the way");
    co_return co_await store_->load(std::move(prefix));
  }
  Task<CommitResult> commit(MetadataTransaction transaction) override {
    const CommitResult lost{CommitOutcome::kUnknown, "lost on the way"};
    if (reactor_.random().chance(0.25)) co_return lost;
    const CommitResult result = co_await store_->commit(std::move(transaction));
    co_return reactor_.random().chance(0.25) ? lost : result;
  }
  Task<Result<Leadership>> campaign(std::string record) override {
    return store_->campaign(std::move(record));
  }
  uint64_t leading() const override { return store_->leading(); }
  Task<void> wait_for_change(uint64_t number) override { return store_->wait_for_change(number); }
  Task<void> resign() override { return store_->resign(); }

 private:
  Reactor& reactor_;
  std::unique_ptr<MetadataStore> store_;
};

/// The same with every outcome unknown.
inline StoreKind in_doubt(const StoreKind& kind) {
  class Harness final : public StoreHarness {
   public:
    explicit Harness(std::unique_ptr<StoreHarness> inner) : inner_(std::move(inner)) {}
    std::unique_ptr<MetadataStore> open(Reactor& reactor) override {
      return std::make_unique<AmbiguousStore>(reactor, inner_->open(reactor));
    }
    Duration lease() const override { return inner_->lease(); }

   private:
    std::unique_ptr<StoreHarness> inner_;
  };
  return {kind.name + "_in_doubt", [make = kind.make] { return std::make_unique<Harness>(make()); },
          true};
}

class MetadataStoreTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  using Records = MetadataStore::Records;

  void SetUp() override {
    harness_ = GetParam().make();
    reopen();
  }
  /// Re-creates the store object, as a restart of the coordinator does.
  void reopen() {
    store_.reset();
    store_ = harness_->open(reactor_);
    ASSERT_NE(store_, nullptr);
  }
  CommitOutcome commit(MetadataTransaction t) {
    return run_task(reactor_, store_->commit(std::move(t))).outcome;
  }
  Records load(const std::string& prefix = "") { return load_from(*store_, prefix); }
  Records load_from(MetadataStore& store, const std::string& prefix = "") {
    for (;;) {
      auto loaded = run_task(reactor_, store.load(prefix));
      if (loaded) return *loaded;
      EXPECT_EQ(loaded.error().code(), StatusCode::kUnavailable);
      run_for(10ms);
    }
  }
  /// Handles "unknown" as every caller must: read the record, then decide.
  bool commit_surely(const MetadataTransaction& t) {
    for (;;) {
      const Records before = load();
      const CommitOutcome outcome = commit(t);
      if (outcome != CommitOutcome::kUnknown) return outcome == CommitOutcome::kCommitted;
      const Records now = load();
      Records with = before;
      if (!apply_transaction(t, with)) return false;
      if (now == with && now != before) return true;
      EXPECT_EQ(now, before) << "an unknown outcome must be all or nothing";
    }
  }
  /// Tries until a leader is known.
  Leadership campaign(MetadataStore& store, const std::string& record) {
    for (;;) {
      auto leader = run_task(reactor_, store.campaign(record));
      if (leader) return *leader;
      run_for(10ms);
    }
  }
  /// Tries until `store` leads.
  uint64_t win(MetadataStore& store, const std::string& record) {
    while (campaign(store, record).number != store.leading()) run_for(20ms);
    return store.leading();
  }
  void run_for(Duration d) {
    run_task(reactor_,
             [](Reactor& r, Duration wait) -> Task<void> { co_await r.sleep(wait); }(reactor_, d));
  }

  SystemClock clock_;
  EpollSource source_;
  Reactor reactor_{clock_, source_, 1, {}};
  std::unique_ptr<StoreHarness> harness_;
  std::unique_ptr<MetadataStore> store_;
};

// ---- records ------------------------------------------------------------------------------------

TEST_P(MetadataStoreTest, StartsEmptyAndKeepsWhatIsPut) {
  EXPECT_EQ(load(), Records());
  const std::string bytes("\0\xff'\"%_\n", 7);
  EXPECT_TRUE(commit_surely({{}, {{"/a", bytes}, {"/b", ""}}, {}}));
  EXPECT_EQ(load(), (Records{{"/a", bytes}, {"/b", ""}}));
}

TEST_P(MetadataStoreTest, SurvivesReopening) {
  EXPECT_TRUE(commit_surely({{}, {{"/a", "1"}, {"/b", "2"}}, {}}));
  reopen();
  EXPECT_TRUE(commit_surely({{}, {{"/a", "3"}}, {"/b"}}));
  reopen();
  EXPECT_EQ(load(), (Records{{"/a", "3"}}));
}

TEST_P(MetadataStoreTest, ConditionsOnValues) {
  EXPECT_TRUE(commit_surely({{}, {{"/a", "1"}}, {}}));
  EXPECT_FALSE(commit_surely({{{"/a", "2"}}, {{"/b", "x"}}, {}}));
  EXPECT_FALSE(commit_surely({{{"/a", ""}}, {{"/b", "x"}}, {}}));
  EXPECT_FALSE(commit_surely({{{"/missing", "1"}}, {{"/b", "x"}}, {}}));
  EXPECT_EQ(load("/b"), Records());
  EXPECT_TRUE(commit_surely({{{"/a", "1"}}, {{"/b", "x"}}, {}}));
  EXPECT_EQ(load("/b"), (Records{{"/b", "x"}}));
}

TEST_P(MetadataStoreTest, ConditionsOnAbsence) {
  EXPECT_TRUE(commit_surely({{{"/a", std::nullopt}}, {{"/a", "1"}}, {}}));
  EXPECT_FALSE(commit_surely({{{"/a", std::nullopt}}, {{"/a", "2"}}, {}}));
  EXPECT_EQ(load(), (Records{{"/a", "1"}}));
  // An empty value is a value.
  EXPECT_TRUE(commit_surely({{}, {{"/e", ""}}, {}}));
  EXPECT_FALSE(commit_surely({{{"/e", std::nullopt}}, {{"/a", "3"}}, {}}));
}

TEST_P(MetadataStoreTest, OneFailedConditionStopsEverything) {
  EXPECT_TRUE(commit_surely({{}, {{"/a", "1"}, {"/b", "1"}}, {}}));
  EXPECT_FALSE(commit_surely({{{"/a", "1"}, {"/b", "2"}}, {{"/a", "9"}, {"/c", "9"}}, {"/b"}}));
  EXPECT_EQ(load(), (Records{{"/a", "1"}, {"/b", "1"}}));
}

TEST_P(MetadataStoreTest, LoadTakesAPrefixLiterally) {
  EXPECT_TRUE(commit_surely(
      {{}, {{"/servers/1", "a"}, {"/servers/2", "b"}, {"/serversX", "c"}, {"/%", "d"}}, {}}));
  EXPECT_EQ(load("/servers/"), (Records{{"/servers/1", "a"}, {"/servers/2", "b"}}));
  EXPECT_EQ(load("/%"), (Records{{"/%", "d"}}));
  EXPECT_EQ(load("/nothing"), Records());
}

TEST_P(MetadataStoreTest, DeletesMayNameAbsentKeys) {
  EXPECT_TRUE(commit_surely({{}, {{"/a", "1"}}, {"/never"}}));
  EXPECT_TRUE(commit_surely({{}, {{"/b", "1"}}, {"/a"}}));
  EXPECT_EQ(load(), (Records{{"/b", "1"}}));
}

TEST_P(MetadataStoreTest, CommitsTakeEffectInOrder) {
  TaskScope scope(reactor_);
  int done = 0;
  constexpr int kCommits = 50;
  auto put = [](MetadataStore& store, int i, int& count) -> Task<void> {
    co_await store.commit({{}, {{"/last", std::to_string(i)}}, {}});
    ++count;
  };
  for (int i = 0; i < kCommits; ++i) scope.spawn(put(*store_, i, done));
  reactor_.run_until([&] { return done == kCommits; });
  const Records left = load();
  // If answers are lost, it is open which commit took effect last.
  if (!GetParam().ambiguous) EXPECT_EQ(left, (Records{{"/last", std::to_string(kCommits - 1)}}));
  EXPECT_LE(left.size(), 1u);
}

TEST_P(MetadataStoreTest, AbandonedCallsDoNoHarm) {
  {
    TaskScope scope(reactor_);
    auto put = [](MetadataStore& store) -> Task<void> {
      const CommitResult result = co_await store.commit({{}, {{"/a", "1"}}, {}});
      if (result.outcome != CommitOutcome::kUnknown) ADD_FAILURE() << "a cancelled task went on";
    };
    scope.spawn(put(*store_));
  }
  // Both outcomes are right, at once or later; the store must continue to work.
  for (;;) {
    const CommitOutcome outcome = commit({{}, {{"/b", "2"}}, {}});
    if (outcome == CommitOutcome::kCommitted) break;
    EXPECT_EQ(outcome, CommitOutcome::kUnknown);
  }
  EXPECT_EQ(load("/b"), (Records{{"/b", "2"}}));
}

// ---- leadership ---------------------------------------------------------------------------------

TEST_P(MetadataStoreTest, NumbersOfLeadershipsRise) {
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const uint64_t number = win(*store_, "me");
    EXPECT_GT(number, last);
    last = number;
    if (i == 1) {
      run_task(reactor_, store_->resign());
      EXPECT_EQ(store_->leading(), 0u);
      reopen();
    }
  }
  EXPECT_EQ(load(), Records()) << "who leads is no record";
}

TEST_P(MetadataStoreTest, OnlyTheLeadersTransactionsTakeEffect) {
  const uint64_t former = win(*store_, "me");
  EXPECT_TRUE(commit_surely({{}, {{"/a", "1"}}, {}, former}));
  EXPECT_FALSE(commit_surely({{}, {{"/a", "x"}}, {}, former + 1}));
  EXPECT_FALSE(commit_surely({{}, {{"/a", "x"}}, {}, 0}));
  const uint64_t present = win(*store_, "me again");
  EXPECT_FALSE(commit_surely({{}, {{"/a", "x"}}, {}, former}));
  EXPECT_FALSE(commit_surely({{{"/a", "1"}}, {{"/a", "x"}}, {}, former}));
  EXPECT_TRUE(commit_surely({{{"/a", "1"}}, {{"/a", "2"}}, {}, present}));
  run_task(reactor_, store_->resign());
  EXPECT_FALSE(commit_surely({{}, {{"/a", "x"}}, {}, 0})) << "a lapsed lease is no leadership";
  EXPECT_EQ(load(), (Records{{"/a", "2"}}));
}

/// For stores that several users can open.
class SharedMetadataStoreTest : public MetadataStoreTest {};

TEST_P(SharedMetadataStoreTest, OneLeadsAndTheOthersKnowWho) {
  const uint64_t first = win(*store_, "first");
  const auto second = harness_->open(reactor_);
  const Leadership seen = campaign(*second, "second");
  EXPECT_EQ(seen.number, first);
  EXPECT_EQ(seen.record, "first");
  EXPECT_EQ(second->leading(), 0u);
  EXPECT_EQ(store_->leading(), first);
  // A standby is woken when the leader resigns, and can lead at once.
  bool woken = false;
  TaskScope scope(reactor_);
  auto wait = [](MetadataStore& store, uint64_t number, bool& done) -> Task<void> {
    co_await store.wait_for_change(number);
    done = true;
  };
  scope.spawn(wait(*second, first, woken));
  run_task(reactor_, store_->resign());
  reactor_.run_until([&] { return woken; });
  const Leadership now = campaign(*second, "second");
  EXPECT_EQ(now.number, second->leading());
  EXPECT_GT(now.number, first);
  EXPECT_FALSE(commit_surely({{}, {{"/a", "x"}}, {}, first}));
  EXPECT_EQ(load(), Records());
}

TEST_P(SharedMetadataStoreTest, ALeaseThatIsNotRenewedRunsOut) {
  const auto second = harness_->open(reactor_);
  const uint64_t first = win(*store_, "first");
  run_for(2 * harness_->lease());
  EXPECT_EQ(store_->leading(), first) << "a leader that lives keeps its lease";
  store_.reset();  // as if it was killed: it does not resign
  EXPECT_EQ(campaign(*second, "second").number, first);
  run_task(reactor_, second->wait_for_change(first));
  EXPECT_GT(win(*second, "second"), first);
}

/// After "unknown" the ledger reads again before acting: no change is lost, and none is made twice.
TEST_P(MetadataStoreTest, TheLedgerSettlesEveryOutcome) {
  constexpr uint64_t kChanges = 15;
  for (uint64_t round = 1; round <= 2; ++round) {
    const uint64_t leadership = win(*store_, "me");
    Ledger ledger(reactor_, *store_);
    const auto opened = run_task(reactor_, ledger.open("test", leadership));
    ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
    EXPECT_GE(opened->term, leadership);
    EXPECT_EQ(opened->ids.last_table_id, (round - 1) * kChanges);
    const auto change = [](Ledger& l, IdsRecord ids) -> Task<Status> {
      const AsyncMutex::Lock lock = co_await l.lock();
      co_return co_await l.commit(lock, std::move(MetadataChange().put(kIdsKey, ids)));
    };
    const uint64_t revision = ledger.next_revision();
    for (uint64_t i = 1; i <= kChanges; ++i) {
      const Status done = run_task(reactor_, change(ledger, {0, opened->ids.last_table_id + i}));
      ASSERT_TRUE(done.ok()) << done.to_string();
    }
    EXPECT_EQ(ledger.next_revision(), revision + kChanges) << "a change was made twice";
    run_task(reactor_, store_->resign());
    const Status late = run_task(reactor_, change(ledger, {7, 7}));
    EXPECT_EQ(late.code(), StatusCode::kNotLeader);
    reopen();
  }
  IdsRecord ids;
  ASSERT_TRUE(decode_record(load(kIdsKey).at(kIdsKey), ids));
  EXPECT_EQ(ids.last_table_id, 2 * kChanges);
}

// ---- tablets ------------------------------------------------------------------------------------

/// Uses one leadership after the other, with as few records in a transaction as possible.
class TabletUser {
 public:
  TabletUser(Reactor& reactor, MetadataStore& store) : reactor_(reactor), ledger_(reactor, store) {}
  /// Creates the cluster's records at the first call.
  void open(uint64_t leadership) {
    auto opened = run_task(reactor_, ledger_.open("test", leadership));
    ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
    state = std::move(*opened);
    if (!state.servers.empty()) return;
    MetadataChange change;
    state.ids = {2, 2};
    change.put(kIdsKey, state.ids);
    for (uint64_t id = 1; id <= 2; ++id) {
      ServerRecord& record = state.servers[id].record;
      record.id = id;
      record.state = id == 1 ? wire::ServerState::kUp : wire::ServerState::kCrashed;
      change.put(server_key(id), record);
    }
    ASSERT_TRUE(run_task(reactor_, with_lock([&](const AsyncMutex::Lock& lock) {
                           return ledger_.commit(lock, std::move(change));
                         }))
                    .ok());
  }
  Status write(TableRecord table) {
    return run_task(reactor_, with_lock([&](const AsyncMutex::Lock& lock) {
                      return writer_.write(lock, std::move(table));
                    }));
  }
  Status remove(uint64_t id) {
    return run_task(reactor_, with_lock([&](const AsyncMutex::Lock& lock) {
                      return writer_.remove(lock, id);
                    }));
  }
  /// Checks the content of the store after its coordinator has ended.
  static void expect_recorded(const MetadataStore::Records& records, const ClusterState& state) {
    const auto stored = read_cluster_state(records);
    ASSERT_TRUE(stored.has_value()) << stored.error().to_string();
    const Status sound = Invariants().check(*stored);
    EXPECT_TRUE(sound.ok()) << sound.to_string();
    ASSERT_EQ(stored->tables.size(), state.tables.size());
    for (const auto& [id, table] : state.tables) {
      EXPECT_TRUE(std::ranges::equal(
          stored->tables.at(id).tablets, table.tablets,
          [](const auto& a, const auto& b) { return !differs(a, b) && a.revision == b.revision; }));
    }
  }
  ClusterState state;

 private:
  template <typename Fn>
  Task<Status> with_lock(Fn fn) {
    const AsyncMutex::Lock lock = co_await ledger_.lock();
    co_return co_await fn(lock);
  }
  Reactor& reactor_;
  Ledger ledger_;
  TableWriter writer_{state, ledger_, 4};

 public:
  TabletChanges changes{state, ledger_, writer_, [](uint64_t) {}};
};

TEST_P(MetadataStoreTest, TabletsAreWrittenInStepsHandedOverAtOnceAndRemoved) {
  constexpr uint64_t kLast = ~uint64_t{0};
  {
    TabletUser first(reactor_, *store_);
    first.open(win(*store_, "first"));
    TableRecord table{.id = 1,
                      .name = "t",
                      .state = TableState::kNormal,
                      .tablets = tablets_of_span(96),
                      .span = 96};
    for (TabletRecord& tablet : table.tablets) tablet.server_id = 2;
    ASSERT_TRUE(first.write(table).ok());
    EXPECT_EQ(first.state.tables.at(1).chunks.size(), 12u);
    TabletUser::expect_recorded(load(), first.state);
    run_task(reactor_, store_->resign());
    EXPECT_EQ(run_task(reactor_, first.changes.set_recovering({{1, 0, kLast}}, 7)).code(),
              StatusCode::kNotLeader);
  }
  reopen();
  TabletUser second(reactor_, *store_);
  second.open(win(*store_, "second"));
  ASSERT_TRUE(run_task(reactor_, second.changes.set_recovering({{1, 0, kLast}}, 7)).ok());
  const uint64_t end = second.state.tables.at(1).tablets[0].end_hash;
  ASSERT_TRUE(run_task(reactor_, second.changes.split(1, {end / 2 + 1})).ok());
  EXPECT_EQ(run_task(reactor_, second.changes.hand_over({{1, 0, end}, 1, 9, 6})).code(),
            StatusCode::kWrongVersion);
  ASSERT_TRUE(run_task(reactor_, second.changes.hand_over({{1, 0, end}, 1, 9, 7})).ok());
  TabletUser::expect_recorded(load(), second.state);
  EXPECT_EQ(second.state.tables.at(1).tablets.size(), 97u);
  EXPECT_EQ(second.state.tables.at(1).tablets[1].server_id, 1u);
  ASSERT_TRUE(second.remove(1).ok());
  EXPECT_EQ(load(kTablePrefix), Records());
}

}  // namespace ramcloud::testing
