// One suite for every implementation of MetadataStore.
#include "coordinator/metadata_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "coordinator/sim_metadata.h"
#include "coordinator/sqlite_metadata.h"
#include "runtime/epoll_source.h"

namespace ramcloud {
namespace {

using Records = MetadataStore::Records;

/// A folder of its own, removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ramcloud-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class MetadataStoreTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { reopen(); }

  /// What a restart of the coordinator does.
  void reopen() {
    store_.reset();
    if (std::string_view(GetParam()) == "sqlite") {
      auto opened = SqliteMetadata::open(reactor_, (dir_.path() / "metadata.db").string());
      ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
      store_ = std::move(*opened);
    } else {
      SimMetadata::Options options;
      if (std::string_view(GetParam()) == "sim_ambiguous") options.unknown = 0.5;
      store_ = std::make_unique<SimMetadata>(reactor_, sim_state_, options);
    }
  }

  CommitOutcome commit(MetadataTransaction t) {
    return run_task(reactor_, store_->commit(std::move(t))).outcome;
  }
  Records load(const std::string& prefix = "") {
    auto loaded = run_task(reactor_, store_->load(prefix));
    EXPECT_TRUE(loaded.has_value());
    return loaded.value_or(Records());
  }
  /// As every caller must treat "unknown": look, then act on what is there.
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

  SystemClock clock_;
  EpollSource source_;
  Reactor reactor_{clock_, source_, 1, {}};
  TempDir dir_;
  SimMetadataState sim_state_;
  std::unique_ptr<MetadataStore> store_;
};

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
  if (std::string_view(GetParam()) != "sim_ambiguous") {
    EXPECT_EQ(load(), (Records{{"/last", std::to_string(kCommits - 1)}}));
  }
}

TEST_P(MetadataStoreTest, AbandonedCallsDoNoHarm) {
  {
    TaskScope scope(reactor_);
    auto put = [](MetadataStore& store) -> Task<void> {
      co_await store.commit({{}, {{"/a", "1"}}, {}});
      ADD_FAILURE() << "a cancelled task went on";
    };
    scope.spawn(put(*store_));
  }
  // Either outcome is right; the store must go on.
  EXPECT_TRUE(commit_surely({{}, {{"/b", "2"}}, {}}));
  EXPECT_EQ(load("/b"), (Records{{"/b", "2"}}));
}

INSTANTIATE_TEST_SUITE_P(All, MetadataStoreTest,
                         ::testing::Values("sqlite", "sim", "sim_ambiguous"),
                         [](const auto& info) { return std::string(info.param); });

// ---- what only one of them can do ---------------------------------------------------------------

class SqliteMetadataTest : public ::testing::Test {
 protected:
  SystemClock clock_;
  EpollSource source_;
  Reactor reactor_{clock_, source_, 1, {}};
  TempDir dir_;
  std::string path_ = (dir_.path() / "metadata.db").string();
};

TEST_F(SqliteMetadataTest, HoldsItsFileAlone) {
  auto first = SqliteMetadata::open(reactor_, path_);
  ASSERT_TRUE(first.has_value()) << first.error().to_string();
  auto second = SqliteMetadata::open(reactor_, path_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().to_string(),
            "UNAVAILABLE: metadata file '" + path_ + "': it is in use by another process");
  first->reset();
  EXPECT_TRUE(SqliteMetadata::open(reactor_, path_).has_value());
}

TEST_F(SqliteMetadataTest, RefusesWhatIsNotItsOwn) {
  {
    std::ofstream file(path_);
    for (int i = 0; i < 1000; ++i) file << "this is not a database\n";
  }
  auto garbage = SqliteMetadata::open(reactor_, path_);
  ASSERT_FALSE(garbage.has_value());
  EXPECT_EQ(garbage.error().code(), StatusCode::kCorrupt) << garbage.error().to_string();

  const std::string other = (dir_.path() / "other.db").string();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(other.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "CREATE TABLE mail (id)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  auto foreign = SqliteMetadata::open(reactor_, other);
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(foreign.error().message(),
            "metadata file '" + other + "' is a database of another program");

  auto missing = SqliteMetadata::open(reactor_, (dir_.path() / "no" / "folder.db").string());
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), StatusCode::kIoError);
  EXPECT_NE(missing.error().message().find("folder.db"), std::string::npos);
}

TEST(SimMetadataTest, AmbiguousOutcomesAreBothPossible) {
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 7, {});
  SimMetadataState state;
  SimMetadata::Options options{0ns, 0ns, 1.0, 0.0};
  SimMetadata store(reactor, state, options);
  constexpr int kCommits = 100;
  for (int i = 0; i < kCommits; ++i) {
    const auto result =
        run_task(reactor, store.commit({{}, {{"/k" + std::to_string(i), "v"}}, {}}));
    EXPECT_EQ(result.outcome, CommitOutcome::kUnknown);
  }
  EXPECT_GT(state.records.size(), 20u);
  EXPECT_LT(state.records.size(), 80u);
}

}  // namespace
}  // namespace ramcloud
