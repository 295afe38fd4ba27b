// The conformance suite on a real etcd, and cases that only etcd has.
#include "coordinator/metadata/etcd_metadata.h"

#include <gmock/gmock.h>

#include "base/testing/temporary_folder.h"
#include "coordinator/metadata/metadata_export.h"
#include "coordinator/metadata/sqlite_metadata.h"
#include "coordinator/metadata/testing/etcd_process.h"
#include "coordinator/metadata/testing/metadata_conformance.h"
#include "coordinator/metadata/testing/silent_proxy.h"

namespace ramcloud {
namespace {

using testing::EtcdProcess;
using ::testing::HasSubstr;
using testing::MetadataStoreTest;
using testing::SharedMetadataStoreTest;
using testing::StoreKind;

/// One etcd for all tests of this program; each has a prefix of its own.
EtcdProcess& etcd() {
  static EtcdProcess process;
  return process;
}

EtcdOptions fresh_options() {
  static int last = 0;
  EtcdOptions options;
  options.endpoints = {etcd().address()};
  options.prefix = fmt::format("/test-{}", ++last);
  options.lease = 1s;
  options.call_timeout = 20s;
  return options;
}

class EtcdHarness final : public testing::StoreHarness {
 public:
  std::unique_ptr<MetadataStore> open(Reactor& reactor) override {
    auto opened = EtcdMetadata::open(reactor, options_);
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }

 private:
  EtcdOptions options_ = fresh_options();
};

StoreKind etcd_kind() {
  return {"etcd", [] { return std::make_unique<EtcdHarness>(); }};
}
INSTANTIATE_TEST_SUITE_P(Etcd, MetadataStoreTest,
                         ::testing::Values(etcd_kind(), testing::in_doubt(etcd_kind())),
                         StoreKind::name_of);
INSTANTIATE_TEST_SUITE_P(Etcd, SharedMetadataStoreTest,
                         ::testing::Values(etcd_kind(), testing::in_doubt(etcd_kind())),
                         StoreKind::name_of);

class EtcdMetadataTest : public ::testing::Test {
 protected:
  std::unique_ptr<EtcdMetadata> open(const EtcdOptions& options) {
    auto opened = EtcdMetadata::open(reactor_, options);
    EXPECT_TRUE(opened.has_value()) << opened.error().to_string();
    return std::move(*opened);
  }
  void run_for(Duration d) {
    run_task(reactor_,
             [](Reactor& r, Duration wait) -> Task<void> { co_await r.sleep(wait); }(reactor_, d));
  }

  SystemClock clock_;
  EpollSource source_;
  Reactor reactor_{clock_, source_, 1, {}};
};

TEST_F(EtcdMetadataTest, AnOutcomeIsUnknownWhileEtcdStandsStillAndSettledAfterwards) {
  EtcdOptions options = fresh_options();
  options.call_timeout = 300ms;
  const auto store = open(options);
  while (!run_task(reactor_, store->load(""))) {
  }
  etcd().freeze();
  const CommitResult result = run_task(reactor_, store->commit({{}, {{"/a", "1"}}, {}}));
  const auto unread = run_task(reactor_, store->load(""));
  etcd().thaw();
  EXPECT_EQ(result.outcome, CommitOutcome::kUnknown);
  EXPECT_THAT(result.message, HasSubstr(etcd().address().to_string()));
  ASSERT_FALSE(unread.has_value());
  EXPECT_EQ(unread.error().code(), StatusCode::kUnavailable);
  // The transaction may have been made; repeated with its condition, it is made exactly once.
  const MetadataTransaction again{{{"/a", std::nullopt}}, {{"/a", "1"}}, {}};
  for (;;) {
    const auto now = run_task(reactor_, store->load(""));
    if (now && now->contains("/a")) break;
    (void)run_task(reactor_, store->commit(again));
  }
  EXPECT_EQ(run_task(reactor_, store->commit(again)).outcome, CommitOutcome::kConditionFailed);
}

TEST_F(EtcdMetadataTest, ALeaderThatCannotReachEtcdNoticesByItself) {
  EtcdOptions options = fresh_options();
  options.call_timeout = 300ms;
  const auto store = open(options);
  bool lost = false;
  store->on_lost([&] { lost = true; });
  while (store->leading() == 0) (void)run_task(reactor_, store->campaign("me"));
  const uint64_t number = store->leading();
  etcd().freeze();
  reactor_.run_until([&] { return lost; });
  EXPECT_EQ(store->leading(), 0u);
  etcd().thaw();
  while (store->leading() == 0) (void)run_task(reactor_, store->campaign("me"));
  EXPECT_GT(store->leading(), number);
}

TEST_F(EtcdMetadataTest, GoesOnWhenEtcdComesBackAfterACrash) {
  EtcdOptions options = fresh_options();
  options.lease = 30s;
  const auto store = open(options);
  while (store->leading() == 0) (void)run_task(reactor_, store->campaign("me"));
  const uint64_t number = store->leading();
  const auto standby = open(options);
  TaskScope scope(reactor_);
  bool woken = false;
  auto wait = [](MetadataStore& s, uint64_t of, bool& done) -> Task<void> {
    for (;;) {
      co_await s.wait_for_change(of);  // also returns when the watch breaks
      const auto leader = co_await s.campaign("standby");
      if (leader && leader->number != of) break;
    }
    done = true;
  };
  scope.spawn(wait(*standby, number, woken));
  run_for(100ms);
  etcd().crash_and_restart();
  while (run_task(reactor_, store->commit({{}, {{"/a", "1"}}, {}, number})).outcome !=
         CommitOutcome::kCommitted) {
  }
  EXPECT_EQ(store->leading(), number) << "leases outlive etcd's restart";
  EXPECT_FALSE(woken);
  run_task(reactor_, store->resign());
  reactor_.run_until([&] { return woken; });
}

/// A node without power closes no connection: the watch on it never breaks.
TEST_F(EtcdMetadataTest, AStandbyWhoseEndpointFellSilentGoesToTheNext) {
  testing::SilentProxy proxy(etcd().address());
  EtcdOptions options = fresh_options();
  const auto leader = open(options);
  while (leader->leading() == 0) (void)run_task(reactor_, leader->campaign("me"));
  options.endpoints.insert(options.endpoints.begin(), proxy.address());
  options.call_timeout = 300ms;
  const auto standby = open(options);
  while (!run_task(reactor_, standby->load(""))) {
  }
  TaskScope scope(reactor_);
  auto wait = [](MetadataStore& s) -> Task<void> {
    for (uint64_t of = 0; s.leading() == 0;) {
      const auto seen = co_await s.campaign("standby");
      if (seen) of = seen->number;
      if (seen && s.leading() == 0) co_await s.wait_for_change(of);
    }
  };
  scope.spawn(wait(*standby));
  run_for(100ms);
  proxy.fall_silent();
  run_task(reactor_, leader->resign());
  reactor_.run_until([&] { return standby->leading() != 0; });
}

TEST_F(EtcdMetadataTest, LoadsManyRecordsAsOfOneMoment) {
  const auto store = open(fresh_options());
  constexpr int kTransactions = 25, kEach = 100;  // etcd takes at most 128 operations at once
  for (int i = 0; i < kTransactions; ++i) {
    MetadataTransaction t;
    for (int k = 0; k < kEach; ++k) t.puts.emplace_back(fmt::format("/k/{}-{}", i, k), "v");
    ASSERT_EQ(run_task(reactor_, store->commit(t)).outcome, CommitOutcome::kCommitted);
  }
  const auto loaded = run_task(reactor_, store->load("/k/"));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->size(), static_cast<size_t>(kTransactions * kEach));
}

/// Also with changes between the pages, of which there are more than two here.
TEST_F(EtcdMetadataTest, WhatIsLoadedWhileItChangesIsAsOfOneMoment) {
  EtcdOptions options = fresh_options();
  options.page = 1;
  const auto store = open(options);
  const auto change = [](MetadataStore& s, int number) -> Task<CommitResult> {
    MetadataTransaction t;
    for (int k = 0; k < 30; ++k)
      t.puts.emplace_back(fmt::format("/k/{}", k), fmt::format("{}", number));
    return s.commit(std::move(t));
  };
  ASSERT_EQ(run_task(reactor_, change(*store, 0)).outcome, CommitOutcome::kCommitted);
  for (int number = 0, round = 0; round < 5; ++round) {
    auto load = store->load("/k/");
    load.resume();
    while (!load.done()) (void)run_task(reactor_, change(*store, ++number));
    const auto loaded = load.take();
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(loaded->size(), 30u);
    for (const auto& [key, value] : *loaded) EXPECT_EQ(value, loaded->begin()->second) << key;
  }
}

/// Its clock for leases goes on while it is stopped, as when the machine sleeps.
class SleepingClock final : public Clock {
 public:
  Time now() const override { return clock_.now(); }
  Time lease_now() const override { return clock_.lease_now() + slept; }
  uint64_t unix_ms() const override { return clock_.unix_ms(); }
  Duration slept{};

 private:
  SystemClock clock_;
};

TEST_F(EtcdMetadataTest, ALeaseRunsOutWhileTheMachineSleeps) {
  SleepingClock clock;
  Reactor reactor(clock, source_, 2, {});
  EtcdOptions options = fresh_options();
  options.lease = 60s;
  auto opened = EtcdMetadata::open(reactor, options);
  ASSERT_TRUE(opened.has_value());
  EtcdMetadata& store = **opened;
  while (store.leading() == 0) (void)run_task(reactor, store.campaign("me"));
  clock.slept = 61s;
  EXPECT_EQ(store.leading(), 0u);
}

TEST_F(EtcdMetadataTest, TriesTheNextEndpoint) {
  EtcdOptions options = fresh_options();
  options.endpoints.insert(options.endpoints.begin(), HostPort{"127.0.0.1", 1});  // nobody
  const auto store = open(options);
  const auto refused = run_task(reactor_, store->load(""));
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), HasSubstr("etcd at 127.0.0.1:1:"));
  EXPECT_TRUE(run_task(reactor_, store->load("")).has_value());
}

TEST_F(EtcdMetadataTest, PrefixesDoNotMix) {
  EtcdOptions options = fresh_options();
  const auto store = open(options);
  options.prefix += "0";  // the other's prefix is a prefix of it
  const auto other = open(options);
  ASSERT_EQ(run_task(reactor_, other->commit({{}, {{"/a", "1"}}, {}})).outcome,
            CommitOutcome::kCommitted);
  EXPECT_TRUE(run_task(reactor_, store->load(""))->empty());
}

TEST_F(EtcdMetadataTest, AFolderIsNoCertificate) {
  EtcdOptions options = fresh_options();
  options.ca = std::filesystem::temp_directory_path();
  const auto opened = EtcdMetadata::open(reactor_, options);
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error().to_string(), HasSubstr("ca '" + options.ca + "'"));
}

TEST_F(EtcdMetadataTest, SpeaksTlsWithBothSidesChecked) {
  const TemporaryFolder folder;
  const std::string make = fmt::format(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
      "-subj /CN=etcd -addext subjectAltName=IP:127.0.0.1 -keyout {0}/key.pem -out {0}/cert.pem "
      "2>/dev/null",
      folder.path());
  ASSERT_EQ(std::system(make.c_str()), 0) << make;
  {
    EtcdProcess secure(folder.path());
    EtcdOptions options;
    options.endpoints = {secure.address()};
    options.call_timeout = 20s;
    options.ca = options.cert = folder / "cert.pem";
    options.key = folder / "key.pem";
    const auto store = open(options);
    EXPECT_EQ(run_task(reactor_, store->commit({{}, {{"/a", "1"}}, {}})).outcome,
              CommitOutcome::kCommitted);
    EtcdOptions nobody = options;
    nobody.cert = nobody.key = "";
    nobody.call_timeout = 2s;
    EXPECT_FALSE(run_task(reactor_, open(nobody)->load("")).has_value());
    EtcdOptions plain = nobody;
    plain.ca = "";
    EXPECT_FALSE(run_task(reactor_, open(plain)->load("")).has_value());
  }
}

TEST_F(EtcdMetadataTest, NamesACertificateThatCannotBeRead) {
  EtcdOptions options = fresh_options();
  options.ca = "/nonexistent/ca.pem";
  const auto opened = EtcdMetadata::open(reactor_, options);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().to_string(),
            "IO_ERROR: ca '/nonexistent/ca.pem' of the etcd store cannot be read or is empty");
}

/// As a coordinator does; gives the term.
uint64_t lead_once(Reactor& reactor, MetadataStore& store, uint64_t& last_table_id) {
  while (store.leading() == 0) (void)run_task(reactor, store.campaign("coordinator"));
  Ledger ledger(reactor, store);
  const auto opened = run_task(reactor, ledger.open("moved", store.leading()));
  EXPECT_TRUE(opened.has_value());
  const auto change = [](Ledger& l, IdsRecord ids) -> Task<Status> {
    const AsyncMutex::Lock lock = co_await l.lock();
    co_return co_await l.commit(lock, std::move(MetadataChange().put(kIdsKey, ids)));
  };
  last_table_id = opened->ids.last_table_id + 1;
  EXPECT_TRUE(run_task(reactor, change(ledger, {9, last_table_id})).ok());
  run_task(reactor, store.resign());
  return opened->term;
}

/// By an export, from etcd to SQLite and back to another etcd prefix: terms never fall, although
/// each store numbers its leaderships by itself.
TEST_F(EtcdMetadataTest, MetadataMovesBetweenEtcdAndSqlite) {
  const TemporaryFolder folder;
  const auto first = open(fresh_options());
  auto sqlite = SqliteMetadata::open(reactor_, folder / "metadata.db");
  ASSERT_TRUE(sqlite.has_value());
  const auto last = open(fresh_options());
  MetadataStore* const stores[] = {first.get(), sqlite->get(), last.get()};
  uint64_t term = 0;
  for (size_t i = 0; i < 3; ++i) {
    for (int leadership = 0; leadership < 2; ++leadership) {
      uint64_t id = 0;
      const uint64_t next = lead_once(reactor_, *stores[i], id);
      EXPECT_GT(next, term);
      // Each import leaves a gap: the records may be older than what was given out since.
      EXPECT_EQ(id, (uint64_t{i} << 32) + 2 * i + static_cast<uint64_t>(leadership) + 1);
      term = next;
    }
    if (i == 2) break;
    const Time deadline = clock_.now() + 30s;
    const auto records = run_task(reactor_, read_all(reactor_, *stores[i], deadline));
    ASSERT_TRUE(records.has_value());
    const auto text = format_export(*records);
    ASSERT_TRUE(text.has_value());
    const auto read = parse_export(*text);
    ASSERT_TRUE(read.has_value()) << read.error().to_string();
    EXPECT_EQ(*read, *records);
    const Status done =
        run_task(reactor_, import_records(reactor_, *stores[i + 1], *read, deadline));
    ASSERT_TRUE(done.ok()) << done.to_string();
    EXPECT_EQ(run_task(reactor_, import_records(reactor_, *stores[i + 1], *read, deadline)).code(),
              StatusCode::kExists);
  }
}

TEST_F(EtcdMetadataTest, CallsUnderWayEndWithTheStore) {
  EtcdOptions options = fresh_options();
  auto store = open(options);
  while (store->leading() == 0) (void)run_task(reactor_, store->campaign("me"));
  auto scope = std::make_unique<TaskScope>(reactor_);
  scope->spawn(store->wait_for_change(store->leading()));
  auto put = [](MetadataStore& s) -> Task<void> { co_await s.commit({{}, {{"/a", "1"}}, {}}); };
  for (int i = 0; i < 10; ++i) scope->spawn(put(*store));
  run_for(50ms);
  scope.reset();
  store.reset();
  run_for(50ms);  // work that gRPC's thread has posted meanwhile finds no store
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (ramcloud::testing::EtcdProcess::program().empty()) {
    std::puts(
        "SKIP: there is no etcd; e2e/kind/components.sh etcd builds it, and RAMCLOUD_ETCD "
        "names another");
    return 77;
  }
  return RUN_ALL_TESTS();
}
