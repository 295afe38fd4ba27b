// Recoveries of whole clusters (docs/design/recovery.md): the cases that the design names, and
// seeds of the scenario `recovery`.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/sometimes.h"
#include "base/testing/sanitizer.h"
#include "sim/expected.h"
#include "sim/scenario.h"
#include "sim/testing/recovery_cluster.h"
#include "sim/workload.h"

namespace ramcloud::sim {
namespace {

using Phase = RecoveryProgress::Phase;

// The defaults of --server-silence and --volume-return.
constexpr Duration kServerSilence = 5s, kVolumeReturn = 10min;

/// Random deaths. The seed says whether replicas are `synced`.
class DeathsSim : public RecoveryClusterTest {};

class RecoveryClusterSim : public DurabilityTest {
 protected:
  bool is_a_new_server(size_t place, uint64_t former) {
    return cluster().server_runs(place) && cluster().server(place).server_id() > former && whole();
  }
  /// Its connections stay open.
  void cut_off_from_all(size_t place) {
    for (size_t i = 0; i < cluster().servers(); ++i) {
      if (i != place) cluster().cut_off(place, i);
    }
    for (SimNode* node : cluster().nodes_of_server(place)) {
      cluster().network().partition(*node, cluster().coordinator_sim_node(0));
      for (size_t i = 0; i < 2; ++i) cluster().network().partition(*node, cluster().client_node(i));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Durability, RecoveryClusterSim, durabilities(), durability);

TEST_F(DeathsSim, OfServersWithDataLoseNothing) {
  const uint64_t count = testing::seeds(12);
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const Outcome outcome = run_recovery({.seed = seed, .operations = 60});
    ASSERT_EQ(outcome.wrong, "") << "ramcloud-sim --scenario recovery --operations 60 --seeds "
                                 << seed;
  }
  if (count >= 12) EXPECT_EQ(never_reached(Run::kRecovery), "");
}

/// With a sanitizer two seeds: each writes as much as all servers have memory.
TEST_F(DeathsSim, OfServersThatCleanLoseNothing) {
  const uint64_t count = testing::seeds(8);
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const Outcome outcome = run_cleaning({.seed = seed, .operations = 60});
    ASSERT_EQ(outcome.wrong, "") << "ramcloud-sim --scenario cleaning --operations 60 --seeds "
                                 << seed;
  }
  if (count >= 8) EXPECT_EQ(never_reached(Run::kCleaning), "");
}

/// The owner dies after the first page of the scan.
TEST_P(RecoveryClusterSim, AScanAcrossARecoveryGivesEachKeyOnce) {
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 5}, 3);
    fill("t", 0, 200, 100);
    std::multiset<std::string> keys;
    ClientCore::ScanPosition position;
    uint32_t pages = 0;
    while (!position.done) {
      auto page = cluster().run(1, cluster().client(1).scan_page(id("t"), position, false, 2048));
      ASSERT_TRUE(page.has_value()) << page.error().to_string();
      while (const auto object = page->next()) keys.emplace(object->key);
      if (++pages == 1) {
        ASSERT_FALSE(position.done);
        kill(owner("t"));
      }
    }
    EXPECT_GT(pages, 5u);
    EXPECT_EQ(keys.size(), 200u);
    for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(keys.count(key(i)), 1u) << key(i);
    ASSERT_TRUE(until_served());
    expect_filled("t", 0, 200);
    EXPECT_EQ(verdicts(), 1u);
    expect_sound();
  }
}

/// Requests reach the former owner in its first turn, from a client that knows no other.
TEST_P(RecoveryClusterSim, ASuspendedOwnerThatContinuesAnswersNothingStale) {
  enum class What : uint8_t { kRead, kCondition, kScan };
  for (const What what : {What::kRead, What::kCondition, What::kScan}) {
    for (const uint64_t seed : seeds(3)) {
      SCOPED_TRACE(fmt::format("what {}, seed {}", static_cast<int>(what), seed));
      start({.seed = seed, .servers = 5, .condemned_start_again = true}, 1);
      fill("t", 0, 10, 100);
      const uint64_t master = owner("t");
      const size_t place = place_of(master);
      ClientCore& other = cluster().client(1);
      const auto former = cluster().run(1, other.read(id("t"), key(0)));
      ASSERT_TRUE(former.has_value()) << former.error().to_string();
      cluster().pause_server(place, 60s);
      ASSERT_TRUE(until([&] { return owner("t") != master && served(); }, 30s));
      expect_filled("t", 0, 1);  // this client knows the new owner
      const auto renewed = cluster().run(0, client().write(id("t"), key(0), "new"));
      ASSERT_TRUE(renewed.has_value()) << renewed.error().to_string();
      cluster().scheduler().after(1ms, [&] { cluster().resume_server(place); });
      if (what == What::kRead) {
        const auto found = cluster().run(1, other.read(id("t"), key(0)));
        ASSERT_TRUE(found.has_value()) << found.error().to_string();
        EXPECT_EQ(found->value, "new");
      } else if (what == What::kCondition) {
        const wire::RejectRules same{.flags = wire::RejectRules::kIfVersionNotEqual,
                                     .reserved = 0,
                                     .version = former->version};
        const auto written = cluster().run(1, other.write(id("t"), key(0), "other", same));
        ASSERT_FALSE(written.has_value()) << "the condition holds by what is stale";
        EXPECT_TRUE(written.error().code() == StatusCode::kWrongVersion ||
                    written.error().code() == StatusCode::kIndeterminate)
            << written.error().to_string();
      } else {
        const auto all = cluster().run(1, scan_table(other, id("t")));
        ASSERT_TRUE(all.has_value()) << all.error().to_string();
        EXPECT_EQ(all->size(), 10u);
        EXPECT_EQ(all->at(key(0)), "new");
      }
      ASSERT_TRUE(until([&] { return is_a_new_server(place, master); }));
      const auto last = cluster().run(0, client().read(id("t"), key(0)));
      ASSERT_TRUE(last.has_value()) << last.error().to_string();
      EXPECT_EQ(last->value, "new");
      expect_filled("t", 1, 9);
      expect_sound();
    }
  }
}

TEST_P(RecoveryClusterSim, SuspendingAllInARecoveryCostsOnlyTheTime) {
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 5}, 5);
    fill("t", 0, 200, 20'000);
    const uint64_t victim = owner("t");
    kill(victim);
    ASSERT_TRUE(until([&] { return phase() >= Phase::kReplaying; }));
    for (size_t i = 0; i < 5; ++i) {
      if (cluster().server_runs(i)) cluster().pause_server(i, 60s);
    }
    cluster().scheduler().run_for(60s);
    ASSERT_TRUE(until_served());
    expect_filled("t", 0, 200);
    EXPECT_EQ(verdicts(), 1u);
    expect_sound();
  }
}

/// Of a log of many short segments, also with backups and recovery masters that know only version 2
/// of the protocol.
TEST_P(RecoveryClusterSim, SeveralSegmentsAreFetchedAtOnce) {
  for (uint64_t seed = 1; seed <= testing::seeds(4); ++seed) {
    SCOPED_TRACE(seed);
    start({.seed = seed,
           .servers = 4,
           .former_servers = static_cast<uint32_t>(seed % 4),
           .cleaning = server::CleaningLevels::kOff,
           .log_bytes = 192u << 20,
           .recovery_fetches = 2,
           .volume = 16},
          1);
    const uint64_t master = owner("t");
    for (uint32_t i = 0; i < 60; ++i) {
      fill("t", 0, 2, 100 + i);  // again and again
      fill("t", 10 + 5 * i, 5, 100);
      ASSERT_EQ(cluster().server(place_of(master)).parts().store->log().roll_head(),
                StatusCode::kOk);
    }
    remove("t", 10, 3);
    kill(master);
    ASSERT_TRUE(until_served());
    expect_filled("t", 0, 2);
    expect_absent("t", 10, 3);
    expect_filled("t", 13, 297);
    expect_sound();
  }
  const auto reached = sometimes_counts();
  EXPECT_TRUE(reached.contains("backup.recovery_fetch_has_several_segments"));
  EXPECT_TRUE(reached.contains("backup.recovery_fetch_reads_ahead"));
}

/// The replica of a holder that was cut off from its master does not count: the master continued
/// with other holders.
TEST_P(RecoveryClusterSim, TheHolderThatWasLeftBehindIsNotTheEndOfTheLog) {
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 6, .backup_silence = 1s, .condemned_start_again = true}, 1);
    fill("t", 0, 10, 100);
    const uint64_t master = owner("t");
    const size_t stale = place_of(holders_of_head(master).at(0));
    for (size_t i = 0; i < cluster().servers(); ++i) {
      if (i != stale) cluster().cut_off(stale, i);
    }
    fill("t", 10, 1'000, 100);
    const std::vector<uint64_t> holders = holders_of_head(master);
    const uint64_t head = head_of(master);
    ASSERT_EQ(holders.size(), 2u);
    const size_t returns = place_of(holders[0]);
    kill(master);
    for (const uint64_t holder : holders) kill(holder);
    cluster().network().heal_all();
    cluster().scheduler().run_for(20s);
    ASSERT_FALSE(served());
    ASSERT_TRUE(phase() == Phase::kWaiting || phase() == Phase::kBlocked);
    const auto& progress = leading().state().recoveries.at(master);
    EXPECT_THAT(progress.waits_for,
                ::testing::ContainsRegex("segment [0-9]+: no replica of an open head that counts"))
        << "what is there is older than segment " << head;
    cluster().scheduler().run_for(kVolumeReturn);
    ASSERT_EQ(phase(), Phase::kBlocked) << "nobody is expected any more";
    EXPECT_FALSE(served());
    cluster().restart_server(returns);
    ASSERT_TRUE(until_served());
    expect_filled("t", 0, 1'010);
    expect_sound();
  }
}

TEST_P(RecoveryClusterSim, WithOneReplicaItsDiskMustComeBack) {
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 4, .replicas = 1}, 1);
    fill("t", 0, 200, 1'000);
    const uint64_t master = owner("t");
    const size_t holder = place_of(holders_of_head(master).at(0));
    kill(master);
    cluster().kill_server(holder);
    cluster().scheduler().run_for(kVolumeReturn + 20s);
    ASSERT_FALSE(served());
    ASSERT_EQ(phase(), Phase::kBlocked) << waits_for();
    cluster().restart_server(holder);
    ASSERT_TRUE(until_served());
    expect_filled("t", 0, 200);
    expect_sound();
  }
}

/// All servers but R - 1 come back: their replicas suffice.
TEST_P(RecoveryClusterSim, AColdStartNeedsNotEverybody) {
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 6, .replicas = 3}, 6);
    fill("t", 0, 60, 10'000);
    kill_all();
    cluster().scheduler().run_for(1s + seed * 1s);
    for (size_t i = 0; i < 4; ++i) cluster().restart_server((seed + i) % 6);
    ASSERT_TRUE(until_served());
    expect_filled("t", 0, 60);
    expect_sound();
  }
}

/// The same, with R - 1 volumes that are empty, or away.
TEST_P(RecoveryClusterSim, AColdStartNeedsNotEveryVolume) {
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 6, .replicas = 3}, 6);
    fill("t", 0, 60, 10'000);
    kill_all();
    cluster().scheduler().run_for(1s + seed * 1s);
    const size_t empty = seed % 6, other = (seed * 3 + 1) % 6;
    cluster().disk(empty).erase();
    if (seed % 2 == 0) cluster().disk(other).erase();
    for (size_t i = 0; i < 6; ++i) {
      if (i != other || seed % 2 == 0) cluster().restart_server(i);
    }
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("t", 0, 60);
    expect_sound();
  }
}

/// Each volume in turn is replaced by an empty one. Then everything is read from the copies.
TEST_P(RecoveryClusterSim, OfAVolumeThatIsLostTheReplicasAreCopied) {
  for (const uint64_t seed : seeds(2)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 5, .replicas = seed % 2 == 0 ? 2u : 3u}, 5);
    fill("t", 0, 60, 200'000);
    remove("t", 0, 10);
    for (size_t i = 0; i < 5; ++i) {
      cluster().kill_server(i);
      cluster().disk(i).erase();
      cluster().restart_server(i);
      uint32_t asked = 0;
      ASSERT_TRUE(until([&] { return ++asked % 64 == 0 && whole(); })) << waits_for();
    }
    kill_all();
    for (size_t i = 0; i < 5; ++i) cluster().restart_server(i);
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("t", 10, 50);
    expect_absent("t", 0, 10);
    expect_sound();
  }
}

/// No connection shows that the machine of the owner stands still, or is cut off from everybody.
TEST_P(RecoveryClusterSim, ASilentMachineIsGivenUpAfterTheServerSilence) {
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 5, .condemned_start_again = true}, 1);
    fill("t", 0, 100, 1'000);
    const uint64_t master = owner("t");
    const size_t place = place_of(master);
    if (seed % 2 == 0) {
      cluster().pause_server(place, 60s);
    } else {
      cut_off_from_all(place);
    }
    const Time silent = cluster().scheduler().now();
    expect_filled("t", 0, 1);
    const Duration away = cluster().scheduler().now() - silent;
    EXPECT_GE(away, kServerSilence);
    EXPECT_LE(away, kServerSilence + 4s);
    EXPECT_NE(owner("t"), master);
    expect_filled("t", 0, 100);
    fill("t", 100, 20, 1'000);
    cluster().network().heal_all();
    cluster().resume_server(place);
    ASSERT_TRUE(until([&] { return is_a_new_server(place, master); })) << waits_for();
    EXPECT_EQ(verdicts(), 1u);
    expect_filled("t", 0, 120);
    expect_sound();
  }
}

TEST_P(RecoveryClusterSim, WithoutReplicasTabletsComeBackEmptyAndVersionsRise) {
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 4, .replicas = 0}, 1);
    uint64_t version = 0;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 20; ++i) {
        const auto written = cluster().run(0, client().write(id("t"), "key", "value"));
        ASSERT_TRUE(written.has_value()) << written.error().to_string();
        ASSERT_GT(*written, version);
        version = *written;
      }
      const uint64_t former = owner("t");
      const size_t place = place_of(former);
      kill(former);
      ASSERT_TRUE(until_served());
      const auto found = cluster().run(0, client().read(id("t"), "key"));
      EXPECT_FALSE(found.has_value());
      cluster().restart_server(place);
      cluster().scheduler().run_for(2s);
    }
    expect_sound();
  }
}

TEST_P(RecoveryClusterSim, ABackupThatStopsForTwoSecondsStallsWritesNoLongerThanItsSilence) {
  constexpr Duration kSilence = 1s, kFence = 300ms;
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 5, .backup_silence = kSilence}, 1);
    fill("t", 0, 10, 100);
    const uint64_t master = owner("t");
    const size_t stopped = place_of(holders_of_head(master).at(seed % 2));
    cluster().pause_server(stopped, 2s);
    Duration longest{};
    const Time end = cluster().scheduler().now() + 4s;
    for (uint32_t i = 10; cluster().scheduler().now() < end; ++i) {
      const Time before = cluster().scheduler().now();
      fill("t", i, 1, 100);
      longest = std::max<Duration>(longest, cluster().scheduler().now() - before);
      cluster().scheduler().run_for(5ms);
    }
    EXPECT_GT(longest, 500ms) << "it did not hold them up";
    EXPECT_LE(longest, kSilence + kFence);
    EXPECT_EQ(verdicts(), 0u);
    expect_sound();
  }
}

/// The tablet goes round among three servers, each time with an attempt that a new leader repeats.
TEST_P(RecoveryClusterSim, NothingDeletedComesBackWhenATabletIsRecoveredAgain) {
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 3}, 1);
    fill("t", 0, 60, 1'000);
    for (uint32_t round = 0; round < 4; ++round) {
      remove("t", round * 12, 12);
      const uint64_t master = owner("t");
      const size_t place = place_of(master);
      kill(master);
      ASSERT_TRUE(until([&] { return phase() >= Phase::kReplaying; }));
      cluster().scheduler().run_for(seed * 2ms);
      cluster().kill_coordinator();
      cluster().restart_coordinator();
      ASSERT_TRUE(until_served());
      expect_absent("t", 0, (round + 1) * 12);
      expect_filled("t", (round + 1) * 12, 60 - (round + 1) * 12);
      cluster().restart_server(place);
      ASSERT_TRUE(cluster().wait_ready());
    }
    expect_sound();
  }
}

TEST_P(RecoveryClusterSim, ATableIsDroppedAtAnyPointOfARecovery) {
  for (const Phase when : {Phase::kQuerying, Phase::kReplaying, Phase::kHandingOver}) {
    for (const uint64_t seed : seeds(4)) {
      SCOPED_TRACE(fmt::format("phase {}, seed {}", static_cast<int>(when), seed));
      start({.seed = seed, .servers = 4, .clients = 3}, 2);
      create("u", 4);
      fill("t", 0, 80, 20'000);
      fill("u", 0, 80, 5'000);
      kill(owner("t"));
      ASSERT_TRUE(until([&] { return phase() == when; }));
      cluster().scheduler().run_for((seed - 1) * 700us);
      const Status dropped = cluster().run(0, client().drop_table("t"));
      ASSERT_TRUE(dropped.ok()) << dropped.to_string();
      ASSERT_TRUE(until_served());
      expect_filled("u", 0, 80);
      create("t", 2);
      expect_absent("t", 0, 80);
      expect_sound();
    }
  }
}

/// Metadata from before a recovery names a dead server as the owner of a tablet; the server that
/// recovered the tablet says that it has it.
TEST_P(RecoveryClusterSim, AnImportFromBeforeARecoveryGivesNothingASecondOwner) {
  for (const uint64_t seed : seeds(4)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 4, .clients = 3}, 2);
    fill("t", 0, 60, 5'000);
    const MetadataStore::Records exported = cluster().metadata_state().records;
    const uint64_t master = owner("t");
    const size_t place = place_of(master);
    kill(master);
    ASSERT_TRUE(until([&] { return phase() >= Phase::kReplaying; }));
    const uint64_t attempt = leading().state().recoveries.at(master).attempt;
    ASSERT_TRUE(until_served());
    if (seed % 2 == 0) cluster().restart_server(place);
    cluster().scheduler().run_for(2s);
    create("since", 2);
    const uint64_t last_table = id("since"), last_server = leading().state().ids.last_server_id;
    fill("t", 60, 20, 100);
    cluster().kill_coordinator();
    cluster().import_metadata(exported);
    cluster().restart_coordinator();
    ASSERT_TRUE(until_served());
    expect_filled("t", 0, 80);
    if (seed % 2 != 0) cluster().restart_server(place);
    ASSERT_TRUE(cluster().wait_ready());
    create("after", 2);
    EXPECT_GT(id("after"), last_table);
    if (seed % 2 != 0) EXPECT_GT(cluster().server(place).server_id(), last_server);
    cluster().scheduler().run_for(10s);
    EXPECT_TRUE(served());
    // No attempt gets the number of one from before the import.
    const uint64_t next = owner("t");
    kill(next);
    ASSERT_TRUE(until([&] { return phase() >= Phase::kReplaying; }));
    EXPECT_GT(leading().state().recoveries.at(next).attempt, attempt);
    ASSERT_TRUE(until_served());
    expect_filled("t", 0, 80);
    expect_sound();
  }
}

/// The export has the number of the attempt that brought the tablet to a server which died since.
TEST_P(RecoveryClusterSim, AnImportFromBetweenTwoRecoveriesAlarmsNobody) {
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 5, .clients = 3}, 1);
    fill("t", 0, 40, 2'000);
    kill(owner("t"));
    ASSERT_TRUE(until_served()) << waits_for();
    const MetadataStore::Records exported = cluster().metadata_state().records;
    kill(owner("t"));
    ASSERT_TRUE(until_served()) << waits_for();
    const uint64_t heir = owner("t");
    cluster().kill_coordinator();
    cluster().import_metadata(exported);
    cluster().restart_coordinator();
    ASSERT_TRUE(until_served()) << waits_for();
    cluster().scheduler().run_for(10s);
    EXPECT_EQ(owner("t"), heir);
    EXPECT_TRUE(leading().state().not_there.empty()) << "it has what the metadata say";
    expect_filled("t", 0, 40);
    expect_sound();
  }
}

/// Metadata from before a recovery names a dead master as the owner of a tablet. The server that
/// recovered it is dead as well, so no server says that the master's log is old; and a replica of
/// it is still there.
TEST_P(RecoveryClusterSim, AnImportFromBeforeARecoveryDoesNotServeTheOlderLog) {
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 6, .clients = 3}, 1);
    fill("t", 0, 60, 5'000);
    const MetadataStore::Records exported = cluster().metadata_state().records;
    const uint64_t master = owner("t");
    const size_t keeper = place_of(holders_of_head(master).at(0));
    kill(master);
    cluster().kill_server(keeper);
    ASSERT_TRUE(until_served()) << waits_for();
    const uint64_t heir = owner("t");
    ASSERT_NE(heir, master);
    fill("t", 0, 20, 100);
    remove("t", 20, 20);
    kill(heir);
    cluster().kill_coordinator();
    cluster().import_metadata(exported);
    cluster().restart_coordinator();
    cluster().restart_server(keeper);
    cluster().scheduler().run_for(60s);
    ASSERT_NE(cluster().coordinator(), nullptr);
    EXPECT_FALSE(leading().state().restate.has_value());
    EXPECT_FALSE(served()) << "from the log of server " << owner("t");
    EXPECT_EQ(phase(), Phase::kBlocked) << waits_for();
    EXPECT_THAT(waits_for(), ::testing::HasSubstr("not known")) << waits_for();
    EXPECT_EQ(cluster().failures(), "");
    EXPECT_EQ(cluster().check_invariants(), "");
  }
}

/// The fenced holder again, but the coordinator does not know the fence, because it was raised
/// after the export. Only the later holders' replicas show it.
TEST_P(RecoveryClusterSim, AnImportFromBeforeAFenceDoesNotServeTheHolderThatWasLeftBehind) {
  for (const uint64_t seed : seeds(3)) {
    SCOPED_TRACE(seed);
    start({.seed = seed, .servers = 6, .backup_silence = 1s, .condemned_start_again = true}, 1);
    fill("t", 0, 10, 100);
    const MetadataStore::Records exported = cluster().metadata_state().records;
    const uint64_t master = owner("t");
    const size_t stale = place_of(holders_of_head(master).at(0));
    for (size_t i = 0; i < cluster().servers(); ++i) {
      if (i != stale) cluster().cut_off(stale, i);
    }
    fill("t", 10, 200, 100);
    // The servers with a replica of any segment that the master wrote since.
    const uint64_t head = head_of(master);
    auto* replicas = cluster().server(place_of(master)).parts().replicas;
    std::set<size_t> went_on;
    for (uint64_t segment = 1; segment <= head; ++segment) {
      for (const uint64_t holder : replicas->replica_servers(segment)) {
        went_on.insert(place_of(holder));
      }
    }
    ASSERT_GE(went_on.size(), 2u);
    ASSERT_FALSE(went_on.contains(stale));
    cluster().kill_coordinator();
    kill(master);
    for (const size_t place : went_on) cluster().kill_server(place);
    cluster().network().heal_all();
    cluster().import_metadata(exported);
    cluster().restart_coordinator();
    cluster().scheduler().run_for(60s);
    ASSERT_NE(cluster().coordinator(), nullptr);
    ASSERT_FALSE(leading().state().restate.has_value());
    EXPECT_FALSE(served()) << "from a replica that was left behind";
    EXPECT_THAT(waits_for(), ::testing::HasSubstr("imported")) << waits_for();
    cluster().scheduler().run_for(kVolumeReturn);
    EXPECT_FALSE(served());
    ASSERT_EQ(phase(), Phase::kBlocked) << waits_for();
    for (const size_t place : went_on) cluster().restart_server(place);
    ASSERT_TRUE(until_served()) << waits_for();
    expect_filled("t", 0, 210);
    expect_sound();
  }
}

}  // namespace
}  // namespace ramcloud::sim
