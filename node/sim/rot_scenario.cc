// One device silently loses or damages data; then the data set is rebuilt from all devices. If the
// other devices are good, nothing is missing. If all are damaged, the rebuild may refuse, but never
// returns wrong data.
#include <fmt/core.h>

#include <algorithm>

#include "backup/frame_format.h"
#include "backup/replica_reader.h"
#include "sim/cluster.h"
#include "sim/scenario.h"
#include "sim/workload.h"

namespace ramcloud::sim {
namespace {

enum class Rot : uint8_t {
  kLostWrites,
  kMisdirectedWrites,
  kFailedSyncs,
  kDamageOfOne,
  kDamageOfAll,
  kCount
};
constexpr const char* kRotNames[] = {"lost writes", "misdirected writes", "failed syncs",
                                     "damage of one device", "damage of all devices"};

/// A table's objects by key, rebuilt from the devices; or the error.
Result<std::map<std::string, std::string>> rebuilt(Cluster& cluster, uint64_t table) {
  std::vector<std::string> bytes;
  for (size_t i = 0; i < cluster.servers(); ++i) {
    bytes.push_back(cluster.disk(i).contents("backup/" + std::string(kFramesFileName)));
  }
  std::vector<VolumeImage> images;
  for (size_t i = 0; i < bytes.size(); ++i) {
    // The file has all of its frames, but contents() ends at the last byte that is not zero.
    const uint64_t frames = (bytes[i].size() + kFrameStride - 1) / kFrameStride;
    bytes[i].resize(frames_file_bytes(static_cast<uint32_t>(frames)));
    images.push_back({fmt::format("server-{}", i + 1), bytes[i]});
  }
  std::map<std::string, std::string> found;
  Status status = rebuild_images(images, [&](const log::ReplayedObject& object) {
    if (object.table_id == table) found[std::string(object.key)] = std::string(object.value);
  });
  if (!status.ok()) return fail(std::move(status));
  return found;
}

void spoil(SimDisk& disk, Rot rot, Random& random) {
  const auto count = static_cast<uint32_t>(1 + random.below(5));
  if (rot == Rot::kLostWrites) disk.lose_writes(count);
  if (rot == Rot::kMisdirectedWrites) disk.misdirect_writes(count);
  if (rot == Rot::kFailedSyncs) disk.fail_syncs(count);
}

std::string judge(const Result<std::map<std::string, std::string>>& found,
                  const std::map<std::string, std::string>& expected, Rot rot) {
  if (!found) {
    const bool may = rot == Rot::kDamageOfAll;
    return may ? "" : "rebuild with one bad device: " + found.error().to_string() + "\n";
  }
  if (*found == expected) return "";
  std::string text;
  for (const auto& [key, value] : expected) {
    const auto there = found->find(key);
    if (there != found->end() && there->second == value) continue;
    text = fmt::format("rebuilt {} as {:.40}, acknowledged was {:.40}\n", key,
                       there == found->end() ? "(absent)" : there->second, value);
  }
  return fmt::format("the rebuilt data differs: {} keys, {} expected; {}", found->size(),
                     expected.size(), text);
}

}  // namespace

Outcome run_rot(const ScenarioConfig& config) {
  Random random(config.seed);
  const auto rot = static_cast<Rot>(config.seed % static_cast<uint64_t>(Rot::kCount));
  ClusterOptions options;
  options.seed = config.seed;
  options.servers = 4;
  options.replicas = 2 + static_cast<uint32_t>(random.below(2));
  options.synced = random.chance(0.5);
  // No deep checks: a silently damaged device differs from its master's state, which is intended
  // here.
  options.steps_between_looks = ~uint32_t{0};
  Cluster cluster(options);
  Outcome outcome;
  outcome.clients = config.clients.value_or(3);
  outcome.operations_of_each = config.operations.value_or(60);
  outcome.plan[0] = kRotNames[static_cast<size_t>(rot)];
  const auto fail_with = [&](const std::string& what) {
    outcome.wrong += what + cluster.failures();
    note_numbers(cluster, outcome);
    return outcome;
  };
  if (!cluster.wait_ready()) return fail_with("servers did not enlist\n");
  auto table = cluster.run(0, cluster.client(0).create_table("t", 2));
  if (!table) return fail_with("create table: " + table.error().to_string() + "\n");
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < outcome.clients; ++i) {
    Worker::Options o;
    o.seed = random.next();
    o.operations = outcome.operations_of_each;
    o.prefix = fmt::format("w{}", i);
    o.most_value_bytes = random.chance(0.5) ? 400'000 : 3'000;
    workers.push_back(std::make_unique<Worker>(cluster.client(0), table->table_id, o));
    cluster.spawn(0, workers.back()->work());
  }
  const bool any = !config.faults || !config.faults->empty();
  cluster.scheduler().run_for(std::chrono::microseconds(random.below(20'000)));
  if (any) spoil(cluster.disk(0), rot, random);
  if (!cluster.scheduler().run_until([&] { return cluster.running_tasks() == 0; }, 3600s)) {
    return fail_with("the clients did not end\n");
  }
  std::map<std::string, std::string> expected;
  for (auto& worker : workers) {
    cluster.run(0, worker->read_back(), 3600s);
    outcome.wrong += worker->wrong();
    outcome.operations += worker->counts().operations();
    expected.merge(worker->contents());
  }
  for (size_t i = 0; i < cluster.servers() && any; ++i) {
    if (rot == Rot::kDamageOfAll || (rot == Rot::kDamageOfOne && i == 0)) {
      cluster.disk(i).damage(static_cast<uint32_t>(1 + random.below(40)));
    }
  }
  // With synced durability all machines may lose power at the same time.
  if (options.synced) {
    for (size_t i = 0; i < cluster.servers(); ++i) cluster.reboot_server(i);
  } else {
    for (size_t i = 0; i < cluster.servers(); ++i) cluster.kill_server(i);
  }
  outcome.wrong += judge(rebuilt(cluster, table->table_id), expected, rot);
  outcome.wrong += cluster.broken() + cluster.failures();
  note_numbers(cluster, outcome);
  return outcome;
}

}  // namespace ramcloud::sim
