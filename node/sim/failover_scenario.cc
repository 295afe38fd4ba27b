// The leading coordinator dies at every critical place, with R = 2 and active clients; the other
// coordinators continue.
#include "sim/failover_scenario.h"

#include <algorithm>
#include <set>

#include "sim/cluster.h"
#include "sim/history.h"

namespace ramcloud::sim {
namespace {

using wire::Opcode;

/// What a transaction is about.
enum class Step : uint8_t {
  kRaiseTerm,
  kEnlist,
  kCrash,
  kBeginCreate,
  kPlace,
  kEndCreate,
  kBeginDrop,
  kEndDrop,
  kRaiseEpoch,
};

std::optional<Step> step_of(const MetadataTransaction& transaction) {
  bool ids = false, chunks = false;
  std::optional<Step> step;
  for (const auto& [key, value] : transaction.puts) ids = ids || key == kIdsKey;
  for (const auto& [key, value] : transaction.puts) {
    TableRecord table;
    if (key.starts_with(kServerPrefix)) {
      step = ids ? Step::kEnlist : Step::kCrash;
    } else if (key.starts_with(kReplicationEpochPrefix)) {
      step = Step::kRaiseEpoch;
    } else if (key.starts_with(kTablePrefix) && is_tablet_chunk_key(key)) {
      chunks = true;
    } else if (key.starts_with(kTablePrefix) && decode_record(value, table)) {
      step = ids                                    ? Step::kBeginCreate
             : table.state == TableState::kNormal   ? Step::kEndCreate
             : table.state == TableState::kDropping ? std::optional(Step::kBeginDrop)
                                                    : std::nullopt;
    }
  }
  if (chunks && !step) step = Step::kPlace;  // of a layout that is not current yet
  for (const auto& key : transaction.deletes) {
    if (key.starts_with(kTablePrefix) && !is_tablet_chunk_key(key)) step = Step::kEndDrop;
  }
  // The term is written together with the first revision of the admin API.
  const bool only_term = std::ranges::all_of(transaction.puts, [](const auto& put) {
    return put.first == kTermKey || put.first == kRevisionsKey;
  });
  if (!step && only_term && transaction.deletes.empty()) step = Step::kRaiseTerm;
  return step;
}

/// Where the leader dies: at a transaction, or when a message is sent (by any
/// sender: a reply of a server to the leader counts as well).
struct Place {
  const char* name;
  std::optional<Step> step;
  SimMetadata::Point point = SimMetadata::Point::kBefore;
  Opcode opcode = Opcode::kInvalid;
  wire::Kind kind = wire::Kind::kRequest;
  bool cut_off = false;   // the leader is cut off from the store for a while, but stays alive
  bool in_steps = false;  // tables take as many transactions as possible
};

constexpr auto kBefore = SimMetadata::Point::kBefore;
constexpr auto kAfter = SimMetadata::Point::kAfter;
constexpr auto kRequest = wire::Kind::kRequest;
constexpr auto kReply = wire::Kind::kReply;

const Place kPlaces[] = {
    {"before the term is raised", Step::kRaiseTerm, kBefore},
    {"after the term is raised", Step::kRaiseTerm, kAfter},
    {"before a server is recorded", Step::kEnlist, kBefore},
    {"after a server is recorded", Step::kEnlist, kAfter},
    {"before a crash is recorded", Step::kCrash, kBefore},
    {"after a crash is recorded", Step::kCrash, kAfter},
    {"before a table is begun", Step::kBeginCreate, kBefore},
    {"after a table is begun", Step::kBeginCreate, kAfter},
    {"before a table is made", Step::kEndCreate, kBefore},
    {"after a table is made", Step::kEndCreate, kAfter},
    {"before a drop is begun", Step::kBeginDrop, kBefore},
    {"after a drop is begun", Step::kBeginDrop, kAfter},
    {"before a drop is done", Step::kEndDrop, kBefore},
    {"after a drop is done", Step::kEndDrop, kAfter},
    {"before an epoch is raised", Step::kRaiseEpoch, kBefore},
    {"after an epoch is raised", Step::kRaiseEpoch, kAfter},
    {"a tablet is given", std::nullopt, kBefore, Opcode::kTakeTablet, kRequest},
    {"a tablet is taken", std::nullopt, kBefore, Opcode::kTakeTablet, kReply},
    {"a tablet is taken away", std::nullopt, kBefore, Opcode::kDropTablet, kRequest},
    {"a tablet is dropped", std::nullopt, kBefore, Opcode::kDropTablet, kReply},
    {"the server list is sent", std::nullopt, kBefore, Opcode::kUpdateServerList, kRequest},
    {"the server list is acknowledged", std::nullopt, kBefore, Opcode::kUpdateServerList, kReply},
    {"a server asks to be enlisted", std::nullopt, kBefore, Opcode::kEnlist, kRequest},
    {"a server is told its id", std::nullopt, kBefore, Opcode::kEnlist, kReply},
    {"a user is told of a table", std::nullopt, kBefore, Opcode::kCreateTable, kReply},
    {"a user is told of a drop", std::nullopt, kBefore, Opcode::kDropTable, kReply},
    {"a server is probed", std::nullopt, kBefore, Opcode::kGetServerStats, kRequest},
    {"cut off, a table is begun", Step::kBeginCreate, kBefore, Opcode::kInvalid, kRequest, true},
    {"cut off, a drop is begun", Step::kBeginDrop, kBefore, Opcode::kInvalid, kRequest, true},
    {"before a table's tablets are recorded", Step::kPlace, kBefore, Opcode::kInvalid, kRequest,
     false, true},
    {"after a table's tablets are recorded", Step::kPlace, kAfter, Opcode::kInvalid, kRequest,
     false, true},
    {"in steps, before a drop is done", Step::kEndDrop, kBefore, Opcode::kInvalid, kRequest, false,
     true},
};
static_assert(std::size(kPlaces) >= 20);

/// Creates and drops tables, and remembers which must exist.
class TableUser {
 public:
  explicit TableUser(ClientCore& client) : client_(client) {}
  Task<void> work(uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; ++i) {
      const std::string name = "t" + std::to_string(i);
      auto made = co_await client_.create_table(name, 3);
      if (!made) wrong_ += "create " + name + ": " + made.error().to_string() + "\n";
      there_.insert(name);
      if (i % 2 == 0) continue;
      const Status dropped = co_await client_.drop_table(name);
      there_.erase(name);
      if (dropped == StatusCode::kIndeterminate) {
        unsure_.insert(name);
      } else if (!dropped.ok()) {
        wrong_ += "drop " + name + ": " + dropped.to_string() + "\n";
      }
    }
    done_ = true;
  }
  Task<bool> check() {
    auto tables = co_await client_.list_tables();
    if (!tables) {
      wrong_ += "list: " + tables.error().to_string() + "\n";
      co_return false;
    }
    std::set<std::string> listed;
    for (const auto& table : *tables) {
      if (table.name != "data" && !unsure_.contains(table.name)) listed.insert(table.name);
    }
    if (listed != there_) wrong_ += "the tables are not those that were acknowledged\n";
    co_return true;
  }
  bool done() const { return done_; }
  const std::string& wrong() const { return wrong_; }

 private:
  ClientCore& client_;
  std::set<std::string> there_, unsure_;
  std::string wrong_;
  bool done_ = false;
};

/// Makes the leader fail at a place, once or twice, and return later.
class Saboteur {
 public:
  Saboteur(Cluster& cluster, const Place& place, Random& random)
      : cluster_(cluster), place_(place), random_(random) {
    cluster.set_metadata_probe(
        [this](size_t index, SimMetadata::Point point, const MetadataTransaction& transaction) {
          if (place_.step && point == place_.point && step_of(transaction) == place_.step) {
            strike(index);
          }
        });
    cluster.network().set_tap([this](const SimNode&, const wire::MessageHeader& header) {
      if (place_.step || header.opcode != static_cast<uint16_t>(place_.opcode) ||
          header.kind != place_.kind) {
        return;
      }
      size_t index = 0;
      if (cluster_.coordinator(&index) != nullptr) strike(index);
    });
  }
  void arm(uint32_t times) { left_ = times; }
  uint32_t strikes() const { return strikes_; }

 private:
  /// The current turn ends first; nothing of the node runs after it.
  void strike(size_t index) {
    if (left_ == 0 || busy_) return;
    --left_;
    ++strikes_;
    busy_ = true;
    SimScheduler& scheduler = cluster_.scheduler();
    scheduler.after({}, [this, index] {
      if (place_.cut_off) {
        cluster_.metadata(index).set_cut_off(true);
      } else {
        cluster_.kill_coordinator(index);
      }
    });
    scheduler.after(std::chrono::milliseconds(1500 + random_.below(2000)), [this, index] {
      if (place_.cut_off) {
        cluster_.metadata(index).set_cut_off(false);
      } else {
        cluster_.restart_coordinator(index);
      }
      busy_ = false;
    });
  }
  Cluster& cluster_;
  const Place& place_;
  Random& random_;
  uint32_t left_ = 0;
  uint32_t strikes_ = 0;
  bool busy_ = false;
};

Outcome run(const Place& place, const ScenarioConfig& config, bool synced) {
  const uint64_t seed = config.seed;
  Random random(seed);
  ClusterOptions options;
  options.seed = seed;
  options.coordinators = 3;
  options.servers = 4;
  options.replicas = 2;
  options.synced = synced;
  options.clients = 3;
  options.network.most_delay = 300us;
  options.network.reorder = random.chance(0.5);
  options.client_timeout = 60s;
  if (place.in_steps) options.operations_at_once = 1;
  options.steps_between_looks = config.steps_between_looks.value_or(0);
  Cluster cluster(options);
  Saboteur saboteur(cluster, place, random);
  Outcome outcome;
  outcome.plan[0] = place.name;
  outcome.clients = std::min(config.clients.value_or(3), options.clients);
  outcome.operations_of_each = config.operations.value_or(100);
  const auto fail_with = [&](const std::string& what) {
    outcome.wrong += what + cluster.failures();
    return outcome;
  };
  if (!cluster.wait_ready(60s)) return fail_with("servers did not enlist\n");
  auto table = cluster.run(0, cluster.client(0).create_table("data", 1));
  if (!table) return fail_with("create table: " + table.error().to_string());
  // The server that dies has no data; as one of the first to enlist it holds replicas of open
  // segments.
  size_t spare = 0;
  while (cluster.server(spare).server_id() != 2) ++spare;
  if (table->tablets[0].server_id == 2) return fail_with("the data is where it must not be\n");

  if (!config.faults || !config.faults->empty()) saboteur.arm(2);
  History history;
  std::vector<std::unique_ptr<HistoryWorker>> workers;
  for (uint32_t i = 0; i < outcome.clients; ++i) {
    workers.push_back(std::make_unique<HistoryWorker>(
        cluster.client(i), i, table->table_id, random.next(), outcome.operations_of_each, history));
    cluster.spawn(i, workers.back()->work());
  }
  TableUser user(cluster.client(0));
  cluster.spawn(0, user.work(6));
  // The spare server dies and returns; if the place needs a failover, so does the first leader.
  SimScheduler& scheduler = cluster.scheduler();
  if (place.step == Step::kRaiseTerm) {
    size_t first = 0;
    if (cluster.coordinator(&first) == nullptr) return fail_with("nobody leads\n");
    scheduler.after(50ms, [&cluster, first] { cluster.kill_coordinator(first); });
    scheduler.after(8s, [&cluster, first] { cluster.restart_coordinator(first); });
  }
  scheduler.after(100ms, [&] { cluster.kill_server(spare); });
  scheduler.after(4s, [&] { cluster.restart_server(spare); });
  const bool ended = scheduler.run_until(
      [&] {
        return !cluster.broken().empty() ||
               (scheduler.now() > Time{} + 14s && user.done() &&
                std::ranges::all_of(workers, [](const auto& w) { return w->done(); }));
      },
      600s);
  if (!ended) outcome.wrong += "the clients did not end\n";
  saboteur.arm(0);
  scheduler.run_for(5s);
  if (!cluster.run(0, user.check(), 120s)) outcome.wrong += "the tables cannot be listed\n";
  for (const auto& worker : workers) outcome.wrong += worker->wrong();
  outcome.wrong += user.wrong() + cluster.check_invariants() + cluster.failures();
  note_numbers(cluster, outcome);
  outcome.operations = history.size();
  outcome.strikes = saboteur.strikes();
  outcome.refused = cluster.metadata_state().refused;
  outcome.history = history.to_json_lines();
  return outcome;
}

}  // namespace

size_t failover_places() {
  return std::size(kPlaces);
}

const char* failover_place(size_t number) {
  return kPlaces[number].name;
}

Outcome run_failover_at(size_t number, const ScenarioConfig& config, bool synced) {
  return run(kPlaces[number], config, synced);
}

Outcome run_failover(const ScenarioConfig& config) {
  return run(kPlaces[config.seed % std::size(kPlaces)], config, false);
}

}  // namespace ramcloud::sim
