#include "sim/crowd.h"

#include <algorithm>

namespace ramcloud::sim {
namespace {
constexpr Duration kPatience = 3600s;
}

bool Crowd::make_tables(uint32_t span) {
  auto own = cluster_.run(0, cluster_.client(0).create_table("mine", span));
  auto shared = cluster_.run(0, cluster_.client(0).create_table("shared", 1));
  for (const auto* table : {&own, &shared}) {
    if (!*table) outcome_.wrong += "create table: " + table->error().to_string() + "\n";
  }
  if (!own || !shared) return false;
  own_ = std::move(*own);
  shared_ = std::move(*shared);
  return true;
}

void Crowd::begin(uint32_t most_value_bytes) {
  for (uint32_t i = 0; i < outcome_.clients; ++i) {
    Worker::Options o;
    o.seed = random_.next();
    o.operations = outcome_.operations_of_each;
    o.prefix = "w" + std::to_string(i);
    o.most_value_bytes = most_value_bytes;
    workers_.push_back(std::make_unique<Worker>(cluster_.client(i % 3), own_.table_id, o));
    cluster_.spawn(i % 3, workers_.back()->work());
  }
  for (uint32_t i = 0; i < std::min(outcome_.clients, 3u); ++i) {
    sharing_.push_back(std::make_unique<HistoryWorker>(cluster_.client(i), i, shared_.table_id,
                                                       random_.next(), outcome_.operations_of_each,
                                                       history_));
    cluster_.spawn(i, sharing_.back()->work());
  }
}

void Crowd::judge() {
  std::map<std::string, std::string> expected;
  for (auto& worker : workers_) {
    cluster_.run(0, worker->read_back(), kPatience);
    outcome_.wrong += worker->wrong();
    outcome_.indeterminate += worker->counts().indeterminate;
    outcome_.operations += worker->counts().operations();
    expected.merge(worker->contents());
  }
  for (const auto& worker : sharing_) outcome_.wrong += worker->wrong();
  const auto scanned = cluster_.run(0, scan_table(cluster_.client(0), own_.table_id), kPatience);
  if (!scanned) {
    outcome_.wrong += "scan: " + scanned.error().to_string() + "\n";
  } else if (*scanned != expected) {
    outcome_.wrong += "scan differs from the model\n";
  }
}

void Crowd::leave_history() {
  outcome_.operations += history_.size();
  outcome_.history = history_.to_json_lines();
}

bool everything_is_served(Cluster& cluster) {
  Coordinator* leading = cluster.coordinator();
  if (leading == nullptr) return false;
  const ClusterState& state = leading->state();
  for (const auto& [id, table] : state.tables) {
    for (const TabletRecord& tablet : table.tablets) {
      const auto server = state.servers.find(tablet.server_id);
      if (server == state.servers.end() || !server->second.up()) return false;
    }
  }
  return true;
}

}  // namespace ramcloud::sim
