// The conformance suite on SQLite and on the simulated store, and cases that only these have.
#include "coordinator/metadata/metadata_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/testing/temporary_folder.h"
#include "coordinator/metadata/sim_metadata.h"
#include "coordinator/metadata/sqlite_metadata.h"
#include "coordinator/metadata/testing/metadata_conformance.h"
#include "runtime/epoll_source.h"

namespace ramcloud {
namespace {

class SqliteHarness final : public testing::StoreHarness {
 public:
  std::unique_ptr<MetadataStore> open(Reactor& reactor) override {
    auto opened = SqliteMetadata::open(reactor, dir_ / "metadata.db");
    EXPECT_TRUE(opened.has_value()) << opened.error().to_string();
    return opened ? std::move(*opened) : nullptr;
  }

 private:
  const TemporaryFolder dir_;
};

class SimHarness final : public testing::StoreHarness {
 public:
  explicit SimHarness(double unknown) : unknown_(unknown) {}
  std::unique_ptr<MetadataStore> open(Reactor& reactor) override {
    SimMetadata::Options options;
    options.unknown = unknown_;
    options.lease = lease();
    return std::make_unique<SimMetadata>(reactor, state_, options);
  }
  Duration lease() const override { return 500ms; }

 private:
  double unknown_;
  SimMetadataState state_;
};

testing::StoreKind sqlite() {
  return {"sqlite", [] { return std::make_unique<SqliteHarness>(); }};
}
testing::StoreKind sim(const std::string& name, double unknown) {
  return {name, [unknown] { return std::make_unique<SimHarness>(unknown); }, unknown > 0};
}

using testing::MetadataStoreTest;
using testing::SharedMetadataStoreTest;
using testing::StoreKind;
INSTANTIATE_TEST_SUITE_P(All, MetadataStoreTest,
                         ::testing::Values(sqlite(), testing::in_doubt(sqlite()), sim("sim", 0),
                                           sim("sim_in_doubt", 0.5)),
                         StoreKind::name_of);
INSTANTIATE_TEST_SUITE_P(All, SharedMetadataStoreTest,
                         ::testing::Values(sim("sim", 0), sim("sim_in_doubt", 0.5)),
                         StoreKind::name_of);

// ---- what only one of them can do ---------------------------------------------------------------

class SqliteMetadataTest : public ::testing::Test {
 protected:
  SystemClock clock_;
  EpollSource source_;
  Reactor reactor_{clock_, source_, 1, {}};
  const TemporaryFolder dir_;
  std::string path_ = dir_ / "metadata.db";
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

  const std::string other = dir_ / "other.db";
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(other.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "CREATE TABLE mail (id)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  auto foreign = SqliteMetadata::open(reactor_, other);
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(foreign.error().message(),
            "metadata file '" + other + "' is a database of another program");

  auto missing = SqliteMetadata::open(reactor_, dir_ / "no/folder.db");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), StatusCode::kIoError);
  EXPECT_NE(missing.error().message().find("folder.db"), std::string::npos);
}

TEST_F(SqliteMetadataTest, NothingIsWrittenToAFileThatWasDeleted) {
  for (const char* suffix : {"", "-wal"}) {
    const std::string path = (dir_ / "deleted.db") + suffix;
    auto store = SqliteMetadata::open(reactor_, path);
    ASSERT_TRUE(store.has_value()) << store.error().to_string();
    const auto put = [&](const char* value) {
      return run_task(reactor_, (*store)->commit({{}, {{"/k", value}}, {}}));
    };
    EXPECT_EQ(put("before").outcome, CommitOutcome::kCommitted);
    std::filesystem::rename(path + suffix, path + ".away");
    const CommitResult refused = put("lost");
    EXPECT_EQ(refused.outcome, CommitOutcome::kUnknown);
    EXPECT_THAT(refused.message, ::testing::HasSubstr("was deleted or replaced"));
    std::ofstream(path + suffix) << "another";
    EXPECT_EQ(put("lost").outcome, CommitOutcome::kUnknown);
    std::filesystem::rename(path + ".away", path + suffix);
    EXPECT_EQ(put("after").outcome, CommitOutcome::kCommitted);
  }
}

/// To SQLite some names mean a database in memory, which ends with its process.
TEST_F(SqliteMetadataTest, EveryNameIsThatOfAFile) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  for (const char* name : {":memory:", "file:m?mode=memory"}) {
    EXPECT_TRUE(SqliteMetadata::open(reactor_, name).has_value()) << name;
    EXPECT_TRUE(std::filesystem::exists(name)) << name;
  }
  std::filesystem::current_path(before);
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
