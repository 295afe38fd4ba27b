// Simulation of whole clusters: random operations from a seed, compared with a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/logging.h"
#include "base/testing/sanitizer.h"
#include "sim/cluster.h"
#include "sim/expected.h"
#include "sim/workload.h"

namespace ramcloud::sim {
namespace {

struct Outcome {
  uint64_t event_hash = 0;
  uint64_t events = 0;
  uint64_t indeterminate = 0;
  uint64_t lost = 0;
  uint64_t sent_by_others = 0;  // to backups, by reactors besides the first
  std::string wrong;
};

/// The network of a seed: from calm to bad.
SimNetworkOptions network_of(Random& random) {
  SimNetworkOptions network;
  network.most_delay = std::chrono::microseconds(20 + random.below(500));
  network.loss = random.chance(0.6) ? static_cast<double>(random.below(30)) / 1000.0 : 0;
  network.reorder = random.chance(0.5);
  return network;
}

/// What happens meanwhile.
enum class Trouble : uint8_t { kNone, kCoordinatorRestarts, kBackupsComeAndGo };

ClusterOptions options_of(uint64_t seed, Random& random, Trouble trouble) {
  ClusterOptions options;
  options.seed = seed;
  options.servers = 3 + static_cast<uint32_t>(random.below(3));
  options.replicas = static_cast<uint32_t>(random.below(std::min(options.servers, 4u)));
  options.synced = seed % 4 == 3;
  options.reactors = seed % 2 == 0 ? 3 : 1;
  options.clients = 2;
  options.network = network_of(random);
  options.client_timeout = 20s;
  if (trouble == Trouble::kBackupsComeAndGo) {
    options.servers = 5;
    options.replicas = 1 + static_cast<uint32_t>(random.below(3));
    options.metadata.unknown = 0.1;
  }
  return options;
}

/// Servers without tablets die and come back, or cannot be reached by those that replicate to them.
class ComingAndGoing {
 public:
  ComingAndGoing(Cluster& cluster, const wire::TableInfo& table, uint64_t seed)
      : cluster_(cluster), random_(seed) {
    for (size_t i = 0; i < cluster.servers(); ++i) {
      const uint64_t id = cluster.server(i).server_id();
      const bool owner = std::ranges::any_of(
          table.tablets, [id](const auto& tablet) { return tablet.server_id == id; });
      (owner ? owners_ : spares_).push_back(i);
    }
    strike_later();
  }
  bool over() const { return left_ == 0 && down_.empty(); }

 private:
  void strike_later() {
    cluster_.scheduler().after(std::chrono::microseconds(random_.below(60'000)), [this] {
      if (left_ == 0) return;
      --left_;
      strike();
      strike_later();
    });
  }
  void strike() {
    const size_t spare = spares_[random_.below(spares_.size())];
    if (down_.contains(spare)) return;
    down_.insert(spare);
    SimScheduler& scheduler = cluster_.scheduler();
    const auto length = std::chrono::milliseconds(random_.chance(0.4) ? random_.below(50)
                                                                      : 500 + random_.below(4'000));
    if (random_.chance(0.7)) {
      cluster_.kill_server(spare);
      scheduler.after(length, [this, spare] {
        cluster_.restart_server(spare);
        down_.erase(spare);
      });
    } else {
      for (const size_t owner : owners_) cluster_.cut_off(owner, spare);
      scheduler.after(length, [this, spare] {
        cluster_.network().heal_all();
        down_.erase(spare);
      });
    }
  }
  Cluster& cluster_;
  Random random_;
  std::vector<size_t> owners_, spares_;
  std::set<size_t> down_;
  uint32_t left_ = 8;
};

/// `steps_between_looks`: as in ClusterOptions.
Outcome run_seed(uint64_t seed, Trouble trouble, uint32_t steps_between_looks = 0) {
  Random random(seed);
  const bool restart_coordinator = trouble == Trouble::kCoordinatorRestarts;
  const bool backups = trouble == Trouble::kBackupsComeAndGo;
  ClusterOptions options = options_of(seed, random, trouble);
  options.steps_between_looks = steps_between_looks;
  Cluster cluster(options);
  Outcome outcome;
  if (!cluster.wait_ready()) {
    outcome.wrong = "servers did not enlist\n" + cluster.failures();
    return outcome;
  }
  auto table = cluster.run(0, cluster.client(0).create_table("t", backups ? 2 : options.servers));
  if (!table) {
    outcome.wrong = "create table: " + table.error().to_string();
    return outcome;
  }
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < 4; ++i) {
    Worker::Options o;
    o.seed = random.next();
    o.operations = 100;
    o.prefix = "w" + std::to_string(i);
    if (random.chance(0.1)) o.most_value_bytes = 100'000;
    if (backups) o.most_value_bytes = random.chance(0.5) ? 400'000 : 3'000;
    workers.push_back(std::make_unique<Worker>(cluster.client(i % 2), table->table_id, o));
    cluster.spawn(i % 2, workers.back()->work());
  }
  std::optional<ComingAndGoing> coming_and_going;
  if (backups) coming_and_going.emplace(cluster, *table, random.next());
  if (restart_coordinator) {
    cluster.scheduler().run_for(std::chrono::microseconds(random.below(50'000)));
    cluster.kill_coordinator();
    cluster.scheduler().run_for(std::chrono::milliseconds(random.below(2'000)));
    cluster.restart_coordinator();
  }
  const auto all_done = [&] {
    for (const auto& worker : workers) {
      if (!worker->done()) return false;
    }
    return !coming_and_going || coming_and_going->over();
  };
  if (!cluster.scheduler().run_until(all_done, 3600s)) outcome.wrong += "workers did not end\n";
  cluster.network().options().loss = 0;
  std::map<std::string, std::string> expected;
  for (auto& worker : workers) {
    const auto settled = [](Worker& w) -> Task<bool> {
      co_await w.settle();
      co_return true;
    };
    cluster.run(0, settled(*worker), 3600s);
    outcome.wrong += worker->wrong();
    outcome.indeterminate += worker->counts().indeterminate;
    expected.merge(worker->contents());
  }
  auto scanned = cluster.run(0, scan_table(cluster.client(0), table->table_id), 600s);
  if (!scanned) {
    outcome.wrong += "scan: " + scanned.error().to_string() + "\n";
  } else if (*scanned != expected) {
    outcome.wrong += "scan differs from the model\n";
  }
  if (restart_coordinator) {
    auto second = cluster.run(0, cluster.client(0).create_table("after", 2));
    if (!second) outcome.wrong += "create after restart: " + second.error().to_string() + "\n";
  }
  outcome.wrong += cluster.check_invariants() + cluster.failures();
  outcome.event_hash = cluster.scheduler().event_hash();
  outcome.events = cluster.scheduler().events();
  outcome.lost = cluster.network().lost();
  outcome.sent_by_others = cluster.messages_of_other_reactors();
  return outcome;
}

/// Those from `from` on, `count` of them without a sanitizer; SIM_SEEDS=FROM:COUNT chooses others.
std::pair<uint64_t, uint64_t> seeds(uint64_t from, uint64_t count) {
  count = testing::seeds(count);
  if (const char* text = std::getenv("SIM_SEEDS")) {
    char* end = nullptr;
    from = std::strtoull(text, &end, 10);
    if (*end == ':') count = std::strtoull(end + 1, nullptr, 10);
  }
  return {from, count};
}

class ClusterSim : public ::testing::Test {
 protected:
  ClusterSim() { set_log_level(std::getenv("SIM_LOG") ? LogLevel::kDebug : LogLevel::kError); }
};

TEST_F(ClusterSim, RandomOperationsMatchTheModelForAllSeeds) {
  const auto [from, count] = seeds(1, 100);
  uint64_t lost = 0, indeterminate = 0, events = 0, sent_by_others = 0;
  for (uint64_t seed = from; seed < from + count; ++seed) {
    const Outcome outcome = run_seed(seed, Trouble::kNone);
    ASSERT_EQ(outcome.wrong, "") << "replay with SIM_SEEDS=" << seed << ":1";
    lost += outcome.lost;
    sent_by_others += outcome.sent_by_others;
    indeterminate += outcome.indeterminate;
    events += outcome.events;
  }
  std::printf("%llu seeds, %llu events, %llu messages lost, %llu outcomes unknown\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(events),
              static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(indeterminate));
  if (count >= 100) {
    // The interesting cases were reached.
    EXPECT_GT(lost, 100u);
    EXPECT_GT(indeterminate, 10u);
    EXPECT_GT(sent_by_others, 1'000u);
    EXPECT_EQ(never_reached(Run::kSeeds), "");
  }
}

TEST_F(ClusterSim, CoordinatorRestartsLoseNothing) {
  const auto [from, count] = seeds(1000, 20);
  for (uint64_t seed = from; seed < from + count; ++seed) {
    ASSERT_EQ(run_seed(seed, Trouble::kCoordinatorRestarts).wrong, "")
        << "replay with SIM_SEEDS=" << seed << ":1";
  }
  if (count >= 20) EXPECT_EQ(never_reached(Run::kRestarts), "");
}

TEST_F(ClusterSim, BackupsComeAndGo) {
  const auto [from, count] = seeds(3000, 20);
  for (uint64_t seed = from; seed < from + count; ++seed) {
    ASSERT_EQ(run_seed(seed, Trouble::kBackupsComeAndGo).wrong, "")
        << "replay with SIM_SEEDS=" << seed << ":1";
  }
  if (count >= 20) EXPECT_EQ(never_reached(Run::kBackups), "");
}

TEST_F(ClusterSim, AServerThatWasGivenUpWhileCutOffFindsOut) {
  ClusterOptions options;
  options.seed = 11;
  options.replicas = 0;  // nor does a backup tell it
  Cluster cluster(options);
  ASSERT_TRUE(cluster.wait_ready());
  SimNode& lost = cluster.server_sim_node(2);
  cluster.network().partition(cluster.coordinator_sim_node(0), lost);
  const auto given_up = [&] { return cluster.coordinator()->status().servers_crashed == 1; };
  ASSERT_TRUE(cluster.scheduler().run_until(given_up, 120s));
  EXPECT_EQ(cluster.failures(), "") << "it cannot know yet";
  cluster.network().heal_all();
  ASSERT_TRUE(cluster.scheduler().run_until([&] { return !cluster.failures().empty(); }, 120s));
  EXPECT_NE(cluster.failures().find("CRASHED"), std::string::npos) << cluster.failures();
}

TEST_F(ClusterSim, SameSeedSameEvents) {
  for (const Trouble trouble : {Trouble::kCoordinatorRestarts, Trouble::kBackupsComeAndGo}) {
    for (uint64_t seed : {7u, 8u}) {
      const Outcome first = run_seed(seed, trouble), again = run_seed(seed, trouble);
      EXPECT_EQ(first.event_hash, again.event_hash);
      EXPECT_EQ(first.events, again.events);
      EXPECT_NE(first.event_hash, run_seed(seed + 100, trouble).event_hash);
    }
  }
}

TEST_F(ClusterSim, LookingChangesNothing) {
  constexpr uint32_t kNever = ~uint32_t{0};
  const Outcome seen = run_seed(7, Trouble::kBackupsComeAndGo),
                unseen = run_seed(7, Trouble::kBackupsComeAndGo, kNever);
  EXPECT_EQ(seen.event_hash, unseen.event_hash);
  EXPECT_EQ(seen.events, unseen.events);
}

}  // namespace
}  // namespace ramcloud::sim
