// Volumes are wiped as soon as the coordinator gives the token, while replicas move: nothing that
// was acknowledged may be lost by it (docs/design/coordinator.md, "Releasing a volume").
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "backup/frame_format.h"
#include "backup/replica_reader.h"
#include "backup/replica_service.h"
#include "base/logging.h"
#include "replication/replica_manager.h"
#include "sim/cluster.h"
#include "sim/crowd.h"
#include "sim/workload.h"
#include "store/object_store.h"

namespace ramcloud::sim {
namespace {

using Data = std::map<std::string, std::string>;

/// Acts like an operator: it asks for the token again and again.
class Asker {
 public:
  explicit Asker(Cluster& cluster)
      : cluster_(cluster), scope_(cluster.coordinator_sim_node(0).reactor()) {}

  /// The answer to a request that is sent now; none without a leader, or on an error.
  std::optional<VolumeRelease> ask(uint64_t server_id) {
    std::optional<std::optional<VolumeRelease>> answer;
    Coordinator* leading = cluster_.coordinator();
    if (leading == nullptr) return std::nullopt;
    const auto put = [](Coordinator& coordinator, uint64_t id,
                        std::optional<std::optional<VolumeRelease>>& out) -> Task<void> {
      auto release = co_await coordinator.volume_release(id, coordinator.reactor().now() + 10s);
      out.emplace(release ? std::optional(std::move(*release)) : std::nullopt);
    };
    leading->reactor().post([&, leading] { scope_.spawn(put(*leading, server_id, answer)); });
    if (!cluster_.scheduler().run_until([&] { return answer.has_value(); }, 30s)) return {};
    return std::move(*answer);
  }

 private:
  Cluster& cluster_;
  TaskScope scope_;
};

std::string frames_of(Cluster& cluster, size_t i) {
  std::string bytes = cluster.disk(i).contents("backup/" + std::string(kFramesFileName));
  // contents() ends at the last byte that is not zero; the file has all of its frames.
  const uint64_t frames = (bytes.size() + kFrameStride - 1) / kFrameStride;
  bytes.resize(frames_file_bytes(static_cast<uint32_t>(frames)));
  return bytes;
}

/// The objects by key that the volumes other than these hold.
Result<Data> rebuilt(const std::vector<std::string>& volumes, const std::set<size_t>& without,
                     uint64_t table) {
  std::vector<VolumeImage> images;
  for (size_t i = 0; i < volumes.size(); ++i) {
    if (!without.contains(i)) images.push_back({fmt::format("server-{}", i + 1), volumes[i]});
  }
  Data found;
  Status status = rebuild_images(images, [&](const log::ReplayedObject& object) {
    if (object.table_id == table) found[std::string(object.key)] = std::string(object.value);
  });
  if (!status.ok()) return fail(std::move(status));
  return found;
}

std::string difference(const Data& found, const Data& expected) {
  std::string text = fmt::format("rebuilt {} keys of {}:", found.size(), expected.size());
  for (const auto& [key, value] : expected) {
    const auto there = found.find(key);
    if (there == found.end()) text += fmt::format(" {} is missing", key);
    if (there != found.end() && there->second != value) text += fmt::format(" {} differs", key);
  }
  for (const auto& [key, value] : found) {
    if (!expected.contains(key)) text += fmt::format(" {} should not be there", key);
  }
  return text + "\n";
}

class VolumeReleaseSim : public testing::Test {
 protected:
  VolumeReleaseSim() {
    set_log_level(std::getenv("SIM_LOG") ? LogLevel::kDebug : LogLevel::kError);
  }

  void start(uint64_t seed, uint32_t replicas) {
    seed_ = seed;
    options_ = {};
    options_.seed = seed;
    options_.servers = replicas + 3;
    options_.replicas = replicas;
    options_.synced = seed % 2 == 0;
    options_.network.most_delay = 300us;
    cluster_ = std::make_unique<Cluster>(options_);
    ASSERT_TRUE(cluster_->wait_ready()) << cluster_->failures();
    asker_ = std::make_unique<Asker>(*cluster_);
    auto table = cluster_->run(0, cluster_->client(0).create_table("t", 2));
    ASSERT_TRUE(table.has_value()) << table.error().to_string();
    table_ = table->table_id;
    for (const auto& tablet : table->tablets) masters_.insert(tablet.server_id);
  }
  void begin_work(uint32_t operations) {
    workers_.clear();
    for (uint32_t i = 0; i < 3; ++i) {
      Worker::Options o;
      o.seed = seed_ * 10 + i;
      o.operations = operations;
      o.most_value_bytes = 300'000;
      o.prefix = fmt::format("w{}", i);
      workers_.push_back(std::make_unique<Worker>(cluster_->client(0), table_, o));
      cluster_->spawn(0, workers_.back()->work());
    }
    cluster_->scheduler().run_for(1ms);  // they run
  }
  /// Everything that was acknowledged.
  Data end_work() {
    EXPECT_TRUE(
        cluster_->scheduler().run_until([&] { return cluster_->running_tasks() == 0; }, 3600s));
    Data expected;
    for (auto& worker : workers_) {
      cluster_->run(0, worker->read_back(), 3600s);
      EXPECT_EQ(worker->wrong(), "");
      expected.merge(worker->contents());
    }
    return expected;
  }
  /// A running server with, or without, tablets.
  size_t pick(bool with_tablets) {
    for (size_t i = 0; i < cluster_->servers(); ++i) {
      if (!cluster_->server_runs(i)) continue;
      if (masters_.contains(cluster_->server(i).server_id()) == with_tablets) return i;
    }
    return 0;
  }
  uint64_t kill(size_t i) {
    const uint64_t id = cluster_->server(i).server_id();
    cluster_->kill_server(i);
    return id;
  }

  /// Each segment of a running master, of which the volume has a frame, has all of its replicas in
  /// others' frames. Returns the missing replica, or an empty text.
  std::string needed(size_t volume) {
    std::set<std::pair<uint64_t, uint64_t>> there;  // master, segment
    (void)dump_image(frames_of(*cluster_, volume), [&](const ReplicaDump& replica) {
      there.insert({replica.identity.master_id, replica.identity.segment_id});
    });
    std::string text;
    for (size_t i = 0; i < cluster_->servers(); ++i) {
      if (!cluster_->server_runs(i) || !cluster_->server(i).parts().replicas) continue;
      const uint64_t master = cluster_->server(i).server_id();
      std::map<uint64_t, uint32_t> held;  // replicas that hold all bytes that they acknowledged
      cluster_->server(i).parts().replicas->for_each_slot(0, [&](const ReplicaSlot& slot) {
        held.try_emplace(slot.segment().id(), 0);
        for (size_t j = 0; j < cluster_->servers() && slot.counts(); ++j) {
          if (!cluster_->server_runs(j) || cluster_->server(j).server_id() != slot.server_id()) {
            continue;
          }
          const auto replica =
              cluster_->server(j).parts().backup->find(master, slot.segment().id());
          const bool whole = replica && !replica->incomplete && replica->bytes >= slot.acked();
          held[slot.segment().id()] += whole ? 1 : 0;
        }
      });
      for (const auto& [segment, replicas] : held) {
        if (!there.contains({master, segment}) || replicas >= options_.replicas) continue;
        text += fmt::format("segment {} of server {} has {} of {} replicas elsewhere\n", segment,
                            master, replicas, options_.replicas);
      }
    }
    return text;
  }

  /// All processes end; the wiped volumes are lost, and R - 1 others, whichever they are.
  std::string lost_with(const std::set<size_t>& wiped, const Data& expected) {
    std::vector<std::string> volumes;
    for (size_t i = 0; i < cluster_->servers(); ++i) {
      if (cluster_->server_runs(i)) cluster_->kill_server(i);
      volumes.push_back(frames_of(*cluster_, i));
    }
    std::string text;
    const size_t n = volumes.size();
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = options_.replicas > 2 ? a + 1 : n - 1; b < n; ++b) {
        std::set<size_t> without = wiped;
        if (options_.replicas > 1) without.insert(a);
        if (options_.replicas > 2) without.insert(b);
        const auto found = rebuilt(volumes, without, table_);
        if (!found) {
          text += "rebuild: " + found.error().to_string() + "\n";
        } else if (*found != expected) {
          text += difference(*found, expected);
        }
      }
    }
    return text;
  }

  uint64_t seed_ = 0;
  ClusterOptions options_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Asker> asker_;
  uint64_t table_ = 0;
  std::set<uint64_t> masters_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// One server is lost, or another one while the replicas of the first are made again. The tokens
/// are requested all the time; when a token is given, the volume is wiped. In the end R - 1 other
/// servers are, too.
TEST_F(VolumeReleaseSim, AReleasedVolumeIsMissedByNobody) {
  uint64_t refused_while_replicas_moved = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    start(seed, seed % 3 == 0 ? 3 : 2);
    if (HasFatalFailure()) return;
    const bool at_rest = seed % 4 < 2;  // else clients go on while replicas move
    begin_work(at_rest ? 60 : 120);
    Data expected;
    if (at_rest) {
      expected = end_work();
    } else {
      cluster_->scheduler().run_for(std::chrono::milliseconds(20 + seed * 7));
    }
    std::map<size_t, uint64_t> kept;  // volumes of lost servers, with their ids
    std::set<size_t> wiped;
    const auto lose_one = [&] {
      const size_t victim = pick(/*with_tablets=*/false);
      kept[victim] = kill(victim);
    };
    lose_one();
    size_t to_lose = seed % 2;
    for (int tries = 0; tries < 20'000 && (to_lose > 0 || !kept.empty()); ++tries) {
      bool moves = false;
      for (const auto& [victim, id] : std::map(kept)) {
        const auto answer = asker_->ask(id);
        ASSERT_TRUE(answer.has_value());
        const bool known = answer->reason.find("is UP") == std::string::npos;
        moves = moves || known;
        if (!answer->releasable) {
          refused_while_replicas_moved += known;
          continue;
        }
        EXPECT_EQ(needed(victim), "");
        wiped.insert(victim);
        kept.erase(victim);
      }
      if (to_lose > 0 && (moves || kept.empty())) {
        --to_lose;
        lose_one();
      }
      cluster_->scheduler().run_for(moves ? Duration(500us) : Duration(5ms));
    }
    ASSERT_TRUE(kept.empty()) << asker_->ask(kept.begin()->second)->reason;
    if (!at_rest) expected = end_work();
    EXPECT_EQ(cluster_->check_invariants() + cluster_->failures(), "");
    EXPECT_EQ(lost_with(wiped, expected), "");
    asker_.reset();
    if (HasFailure()) return;
  }
  EXPECT_GT(refused_while_replicas_moved, 0u) << "no question came while replicas moved";
}

/// A crashed master's replicas are on others' volumes: each of them is kept until the master is
/// recovered.
TEST_F(VolumeReleaseSim, TheLogOfACrashedMasterKeepsVolumesUntilItIsRecovered) {
  start(21, 2);
  if (HasFatalFailure()) return;
  begin_work(60);
  const Data expected = end_work();
  const size_t backup = pick(/*with_tablets=*/false);
  const uint64_t backup_id = kill(backup);
  const uint64_t master_id = kill(pick(/*with_tablets=*/true));
  const auto is_crashed = [this](uint64_t id) {
    const auto& servers = cluster_->coordinator()->state().servers;
    return !servers.at(id).up();
  };
  ASSERT_TRUE(cluster_->scheduler().run_until(
      [&] { return is_crashed(master_id) && is_crashed(backup_id); }, 60s));
  const auto before = asker_->ask(backup_id);
  ASSERT_TRUE(before.has_value());
  EXPECT_FALSE(before->releasable);
  EXPECT_NE(before->reason.find(fmt::format("server {} ", master_id)), std::string::npos)
      << before->reason;
  ASSERT_TRUE(
      cluster_->scheduler().run_until([this] { return everything_is_served(*cluster_); }, 60s));
  for (const uint64_t id : {backup_id, master_id}) {
    std::optional<VolumeRelease> answer;
    for (int tries = 0; tries < 100 && !(answer && answer->releasable); ++tries) {
      cluster_->scheduler().run_for(500ms);
      answer = asker_->ask(id);
    }
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(answer->releasable) << answer->reason;
  }
  const auto scanned = cluster_->run(0, scan_table(cluster_->client(0), table_), 60s);
  ASSERT_TRUE(scanned.has_value()) << scanned.error().to_string();
  EXPECT_EQ(difference(*scanned, expected), difference(expected, expected));
  asker_.reset();
}

}  // namespace
}  // namespace ramcloud::sim
