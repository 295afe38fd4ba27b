#include "sim/cluster.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log_context.h"
#include "base/logging.h"
#include "coordinator/metadata/metadata_export.h"
#include "server/forwarder.h"
#include "server/log_resize.h"

namespace ramcloud::sim {
namespace {
constexpr uint16_t kCoordinatorPort = 11100;
constexpr uint16_t kServerPort = 11200;
/// In reality a reactor without work sleeps until it is woken; here it runs a turn now and then.
constexpr Duration kIdleTurns = 10ms;
/// Steps between two checks of the whole cluster.
constexpr uint64_t kFewestSteps = 500;
constexpr uint64_t kMoreSteps = 1500;
/// In every other seed, recovered tablets of logs above this are split, and served in parts.
constexpr uint64_t kSplitAbove = 64u << 10;

HostPort coordinator_address(size_t i) {
  return {fmt::format("coordinator-{}", i + 1), kCoordinatorPort};
}
}  // namespace

/// A further reactor of a server. It has no connections of its own: requests come from the first
/// reactor's connections, and replies go back there.
class Cluster::More final : public Transport {
 public:
  More(SimNetwork& network, SimNode& of, SimNode& first, Transport& to, MetricsRegistry& m)
      : node(of),
        metrics(m),
        first_(first.reactor()),
        to_(to),
        own_(network.make_transport(of)),
        timer_(of.reactor(), [this] { timer_.start_after(kIdleTurns); }) {
    timer_.start_after(kIdleTurns);
  }
  Result<std::shared_ptr<Session>> connect(const Locator& locator,
                                           const PeerIdentity& expected) override {
    return own_->connect(locator, expected);
  }
  Result<HostPort> listen(const HostPort&, Side, RequestHandler&) override {
    return fail(StatusCode::kUnsupported, "the first reactor listens");
  }
  void set_identity(const PeerIdentity& self) override { own_->set_identity(self); }
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body) override {
    std::string bytes;
    for (const Slice& slice : body) bytes.append(static_cast<const char*>(slice.data), slice.size);
    first_.post([this, handle, status, bytes = std::move(bytes)] {
      const Slice slice(bytes);
      to_.reply(handle, status, {&slice, 1});
    });
  }

  SimNode& node;
  MetricsRegistry& metrics;

 private:
  Reactor& first_;
  Transport& to_;
  std::unique_ptr<SimTransport> own_;
  Timer timer_;
};

/// Distributes a server's requests: data operations of a connection go to one of the reactors,
/// other requests to the first.
class Cluster::Spread final : public RequestHandler {
 public:
  explicit Spread(ServerRole& server) : server_(server) {}
  void on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                  ByteView body) override {
    const size_t to = server::any_reactor_serves(header.opcode)
                          ? handle.connection % (server_.more.size() + 1)
                          : 0;
    if (to == 0) return server_.role->registry().on_request(handle, header, body);
    server_.more[to - 1]->node.reactor().post(
        [&registry = server_.role->registry(to), handle, header, body = std::string(body)] {
          registry.on_request(handle, header, body);
        });
  }

 private:
  ServerRole& server_;
};

Cluster::ServerRole::ServerRole() = default;
Cluster::ServerRole::~ServerRole() = default;

namespace {
bool tracing = false;
}

void set_tracing(bool on) {
  tracing = on;
}

Cluster::Cluster(const ClusterOptions& options)
    : options_(options), scheduler_(options.seed), network_(scheduler_, options.network) {
  if (tracing) {
    network_.set_tracing(true);
    set_log_context([this] {
      const SimNode* node = scheduler_.turning();
      return fmt::format("{:12.6f} {:14} ",
                         std::chrono::duration<double>(scheduler_.now().time_since_epoch()).count(),
                         node == nullptr ? "-" : node->name());
    });
  }
  // Chosen by the seed, so that runs differ in what they check.
  Random random(options.seed ^ 0x10c5);
  if (options_.steps_between_looks == 0) {
    options_.steps_between_looks = static_cast<uint32_t>(kFewestSteps + random.below(kMoreSteps));
  }
  if (options_.looks_between_deep_ones == 0) {
    options_.looks_between_deep_ones = static_cast<uint32_t>(50 + random.below(100));
  }
  scheduler_.set_observer([this](SimNode* turned) { after_step(turned); });
  for (size_t i = 0; i < options.coordinators; ++i) {
    coordinators_.push_back(std::make_unique<CoordinatorRole>());
    coordinators_[i]->node = &scheduler_.add_node(coordinator_address(i).host);
  }
  for (size_t i = 0; i < options.coordinators; ++i) start_coordinator(i);
  for (uint32_t i = 0; i < options.servers; ++i) {
    auto server = std::make_unique<ServerRole>();
    server->node = &scheduler_.add_node(fmt::format("server-{}", i + 1));
    for (uint32_t r = 1; r < options.reactors; ++r) {
      server->more_nodes.push_back(&scheduler_.add_node(fmt::format("server-{}-{}", i + 1, r)));
    }
    if (i < options.former_servers) server->highest_version = wire::kExtensible;
    start_server(*server);
    servers_.push_back(std::move(server));
  }
  for (uint32_t i = 0; i < options.clients; ++i) {
    ClientRole client;
    client.node = &scheduler_.add_node(fmt::format("client-{}", i + 1));
    client.transport = network_.make_transport(*client.node);
    ClientCore::Options client_options;
    client_options.coordinators = coordinator_locators();
    client_options.timeout = options.client_timeout;
    client.core = std::make_unique<ClientCore>(client.node->reactor(), *client.transport,
                                               std::move(client_options));
    client.tasks = std::make_unique<TaskScope>(client.node->reactor());
    clients_.push_back(std::move(client));
  }
}

Cluster::~Cluster() {
  if (tracing) set_log_context({});
  if (has_failpoint_probe_) set_failpoint_handler({});
  for (auto& client : clients_) {
    client.tasks.reset();
    client.core.reset();
  }
  if (!told_ && !broken_.empty())
    fatal("an invariant of the cluster is broken", {{"what", broken_}});
}

std::vector<Locator> Cluster::coordinator_locators() const {
  std::vector<Locator> locators;
  for (size_t i = 0; i < coordinators_.size(); ++i) {
    locators.push_back({"sim", coordinator_address(i)});
  }
  return locators;
}

void Cluster::start_coordinator(size_t i) {
  auto& c = *coordinators_.at(i);
  Reactor& reactor = c.node->reactor();
  c.metrics = std::make_unique<MetricsRegistry>();
  c.transport = network_.make_transport(*c.node);
  c.rpc = std::make_unique<RpcClient>(reactor, *c.transport);
  c.metadata = std::make_unique<SimMetadata>(reactor, metadata_, options_.metadata);
  c.metadata->set_probe([this, i](SimMetadata::Point point, const MetadataTransaction& t) {
    if (probe_) probe_(i, point, t);
  });
  Coordinator::Options o;
  o.operations_at_once = options_.operations_at_once;
  o.cluster_name = "sim";
  o.version = "sim";
  if (options_.seed % 2 != 0) {
    o.recoveries.plan.split_above = kSplitAbove;
    o.recoveries.plan.piece_bytes = kSplitAbove / 2;
  }
  c.role = std::make_unique<CoordinatorNode>(
      *c.rpc, *c.transport, *c.metadata, *c.metrics, o, [this, i](const Status& why) {
        failures_ += fmt::format("{}: {}\n", coordinator_address(i).host, why.to_string());
      });
  const Locator locator{"sim", coordinator_address(i)};
  c.role->set_addresses({locator.to_string(), "", "", ""});
  if (!c.transport->listen(locator.address, Side::kInside, *c.role)) {
    fatal("a simulated coordinator cannot listen");
  }
  c.role->start();
}

Coordinator* Cluster::coordinator(size_t* index) {
  for (size_t i = 0; i < coordinators_.size(); ++i) {
    if (index != nullptr) *index = i;
    auto& role = coordinators_[i]->role;
    if (role == nullptr) continue;
    if (Coordinator* leading = role->leading()) return leading;
  }
  return nullptr;
}

void Cluster::set_metadata_probe(MetadataProbe probe) {
  probe_ = std::move(probe);
}

std::vector<server::ReactorResources> Cluster::make_more(ServerRole& server) {
  std::vector<server::ReactorResources> reactors;
  for (SimNode* node : server.more_nodes) {
    server.more.push_back(std::make_unique<More>(network_, *node, *server.node, *server.transport,
                                                 server.metrics->add_shard()));
    reactors.push_back({node->reactor(), *server.more.back(), server.more.back()->metrics});
  }
  return reactors;
}

/// The sum of a counter over all reactors except the first.
uint64_t Cluster::sum_of_others(const char* counter) const {
  uint64_t sum = 0;
  for (const auto& server : servers_) {
    for (size_t i = 0; i < server->more.size(); ++i) {
      sum += server->more[i]
                 ->metrics.counter(counter, "", {{"reactor", std::to_string(i + 1)}})
                 .value();
    }
  }
  return sum;
}

uint64_t Cluster::messages_of_other_reactors() const {
  return sum_of_others("ramcloud_replication_messages_total");
}

uint64_t Cluster::replica_writes_of_other_reactors() const {
  return sum_of_others("ramcloud_backup_writes_total");
}

void Cluster::start_server(ServerRole& server) {
  SimNode& node = *server.node;
  server.metrics = std::make_unique<MetricsRegistry>();
  server.transport = network_.make_transport(node);
  server.transport->set_highest_version(server.highest_version);
  server::ServerNodeOptions o;
  o.coordinators = coordinator_locators();
  const HostPort address{node.name(), kServerPort};
  o.locator = Locator{"sim", address};
  o.name = o.failure_domain = node.name();
  o.version = "sim";
  o.backup_dir = "backup";
  o.log_bytes = options_.log_bytes;
  o.log_bytes_most = options_.log_bytes_most;
  o.recovery.fetches = options_.recovery_fetches;
  o.hash_table_bytes = 256u << 10;
  o.backup_bytes = options_.volume * std::max(options_.replicas, 1u) * options_.log_bytes;
  o.replicas = options_.replicas;
  o.synced = options_.synced;
  o.backup_silence = options_.backup_silence;
  o.prefault = false;
  o.cleaning = {.levels = options_.cleaning, .threads = 0, .policy = {}};
  server.role = std::make_unique<server::ServerNode>(
      node.reactor(), *server.transport, node.disk(), *server.metrics, o,
      [this, &server](const Status& why) { server_failed(server, why); }, make_more(server));
  server.spread = std::make_unique<Spread>(server);
  if (!server.transport->listen(address, Side::kInside, *server.spread)) {
    fatal("a simulated server cannot listen");
  }
  if (Status status = server.role->start(); !status.ok()) {
    failures_ += fmt::format("{}: {}\n", node.name(), status.to_string());
  }
}

void Cluster::server_failed(ServerRole& server, const Status& why) {
  if (!options_.condemned_start_again || !(why == StatusCode::kCrashed)) {
    failures_ += fmt::format("{}: {}\n", server.node->name(), why.to_string());
    return;
  }
  scheduler_.after({}, [this, &server, life = life_of(*server.node)] {
    if (!server.role || life_of(*server.node) != life) return;
    scheduler_.kill(*server.node);
    end_server(server);
    scheduler_.restart(*server.node);
    for (SimNode* node : server.more_nodes) scheduler_.restart(*node);
    start_server(server);
  });
}

bool Cluster::resize_log(size_t i, uint64_t bytes) {
  if (!server_runs(i)) return false;
  server::LogResize* resize = server(i).parts().resize;
  return resize != nullptr && resize->set(bytes).ok();
}

bool Cluster::wait_ready(Duration limit) {
  return scheduler_.run_until(
      [&] {
        for (const auto& server : servers_) {
          if (server->role && !server->role->ready()) return false;
        }
        return true;
      },
      limit);
}

void Cluster::spawn(size_t client_index, Task<void> task) {
  auto& client = clients_.at(client_index);
  auto holder = std::make_shared<Task<void>>(std::move(task));
  client.node->reactor().post([&client, holder] { client.tasks->spawn(std::move(*holder)); });
}

size_t Cluster::running_tasks() const {
  size_t sum = 0;
  for (const auto& client : clients_) sum += client.tasks->running();
  return sum;
}

void Cluster::kill_coordinator(size_t i) {
  auto& c = *coordinators_.at(i);
  scheduler_.kill(*c.node);
  c.role.reset();
  c.metadata.reset();
  c.rpc.reset();
  c.transport.reset();
}

void Cluster::restart_coordinator(size_t i) {
  scheduler_.restart(*coordinators_.at(i)->node);
  start_coordinator(i);
}

void Cluster::import_metadata(MetadataStore::Records exported) {
  const Status left = leave_gap(exported);
  if (!left.ok()) fatal("the export cannot be imported", {{"error", left}});
  metadata_ = SimMetadataState();
  metadata_.records = std::move(exported);
  invariants_.imported();
}

void Cluster::kill_server(size_t i) {
  auto& server = *servers_.at(i);
  scheduler_.kill(*server.node);
  end_server(server);
}

bool Cluster::stop_server(size_t i) {
  bool done = false, told = false;
  auto& server = *servers_.at(i);
  server.node->reactor().post([&] {
    server.role->announce_stop([&](const Status& status) {
      done = true;
      told = status.ok();
    });
  });
  (void)scheduler_.run_until([&] { return done; }, 30s);
  kill_server(i);
  return told;
}

void Cluster::stop_all_servers() {
  size_t running = 0;
  for (const auto& server : servers_) {
    if (!server->role) continue;
    ++running;
    server->node->reactor().post([&running, role = server->role.get()] {
      role->announce_stop([&running](const Status&) { --running; });
    });
  }
  (void)scheduler_.run_until([&] { return running == 0; }, 30s);
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i]->role) kill_server(i);
  }
}

void Cluster::reboot_server(size_t i) {
  auto& server = *servers_.at(i);
  scheduler_.power_off(*server.node);
  end_server(server);
}

void Cluster::end_server(ServerRole& server) {
  for (SimNode* node : server.more_nodes) scheduler_.kill(*node);
  server.role.reset();
  server.more.clear();
  server.transport.reset();
  server.durable = {};
}

void Cluster::restart_server(size_t i) {
  auto& server = *servers_.at(i);
  scheduler_.restart(*server.node);
  for (SimNode* node : server.more_nodes) scheduler_.restart(*node);
  start_server(server);
}

void Cluster::resume_server(size_t i) {
  scheduler_.resume(*servers_.at(i)->node);
  for (SimNode* node : servers_.at(i)->more_nodes) scheduler_.resume(*node);
}

void Cluster::cut_off(size_t i, size_t j) {
  cut_off_one_way(i, j);
  cut_off_one_way(j, i);
}

void Cluster::cut_off_one_way(size_t from, size_t to) {
  for (const SimNode* a : nodes_of_server(from)) {
    for (const SimNode* b : nodes_of_server(to)) network_.partition_one_way(*a, *b);
  }
}

void Cluster::slow_link(size_t i, size_t j, Duration more) {
  for (const SimNode* a : nodes_of_server(i)) {
    for (const SimNode* b : nodes_of_server(j)) network_.set_slow(*a, *b, more);
  }
}

std::vector<SimNode*> Cluster::nodes_of_server(size_t i) {
  std::vector<SimNode*> nodes{servers_.at(i)->node};
  nodes.insert(nodes.end(), servers_[i]->more_nodes.begin(), servers_[i]->more_nodes.end());
  return nodes;
}

void Cluster::pause_server(size_t i, Duration length) {
  for (SimNode* node : nodes_of_server(i)) scheduler_.pause(*node, scheduler_.now() + length);
}

void Cluster::pause_coordinator(size_t i, Duration length) {
  scheduler_.pause(*coordinators_.at(i)->node, scheduler_.now() + length);
}

// ---- failpoints

std::optional<Cluster::Role> Cluster::role_of(const SimNode* node) const {
  for (size_t i = 0; i < coordinators_.size(); ++i) {
    if (coordinators_[i]->node == node) return Role{.coordinator = true, .index = i};
  }
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i]->node == node || std::ranges::count(servers_[i]->more_nodes, node) > 0) {
      return Role{.coordinator = false, .index = i};
    }
  }
  return std::nullopt;
}

void Cluster::set_failpoint_probe(FailpointProbe probe) {
  has_failpoint_probe_ = true;
  set_failpoint_handler([this, probe = std::move(probe)](size_t number) {
    // Between turns this is called while a role is destroyed, or by the test itself.
    const SimNode* node = scheduler_.turning();
    if (node == nullptr || node->doomed()) return;
    if (const auto role = role_of(node)) probe(number, *role);
  });
}

void Cluster::die_here(const Role& role) {
  if (role.coordinator) {
    scheduler_.doom(*coordinators_.at(role.index)->node);
    return scheduler_.after({}, [this, role] { kill_coordinator(role.index); });
  }
  for (SimNode* node : nodes_of_server(role.index)) scheduler_.doom(*node);
  scheduler_.after({}, [this, role] { kill_server(role.index); });
}

// ---- looking on ---------------------------------------------------------------------------------

uint64_t Cluster::life_of(const SimNode& node) {
  return uint64_t{node.index()} << 32 | node.incarnation();
}

void Cluster::after_step(SimNode* turned) {
  if (!broken_.empty()) return;  // only the first one is reported
  // Actions of a dying node have no effect, so its own state may be wrong.
  if (turned != nullptr && turned->doomed()) return;
  if (turned != nullptr && turned->index() < coordinators_.size()) check_leader();
  for (const auto& server : servers_) {
    const bool one_of_its =
        turned != nullptr &&
        (server->node == turned || std::ranges::count(server->more_nodes, turned) > 0);
    if (one_of_its) after_turn(*server);
  }
  if (scheduler_.events() % options_.steps_between_looks != 0 || !broken_.empty()) return;
  check_all(++looks_ % options_.looks_between_deep_ones == 0);
}

void Cluster::after_turn(ServerRole& server) {
  if (!server.role) return;
  const ServerNumbers numbers = numbers_of(*server.role, life_of(*server.node));
  found(invariants_.after_turn(numbers));
  // After a pause, a turn may take acknowledgements first and then a server list. Then the replicas
  // that supported the rise do not count any more, until their backups know the new epoch.
  const bool fenced = std::exchange(server.epoch, numbers.epoch) != numbers.epoch;
  if (numbers.durable <= server.durable || options_.replicas == 0) return;
  const auto before = std::exchange(server.durable, numbers.durable);
  if (!fenced) found(invariants_.after_rise(numbers, backing_of(*server.role, before)));
}

/// Checks the leader's state whenever a checked part of it has changed.
void Cluster::check_leader() {
  Coordinator* leading = coordinator();
  if (leading == nullptr) return;
  const ClusterState& state = leading->state();
  if (state.restate) return;  // after an import the leader's state is not complete yet
  HashMixer fingerprint;
  fingerprint.add(state.term);
  fingerprint.add(state.list_version);
  fingerprint.add(state.ids.last_server_id);
  fingerprint.add(state.ids.last_table_id);
  for (const auto& [id, server] : state.servers) {
    fingerprint.add(id << 2 | static_cast<uint64_t>(server.record.state));
  }
  for (const auto& [id, table] : state.tables) {
    fingerprint.add(id);
    fingerprint.add(table.revision);
  }
  for (const auto& [id, record] : state.replication_epochs) {
    fingerprint.add(id);
    fingerprint.add(record.lowest_open_segment << 32 | record.epoch);
  }
  if (fingerprint.value() == leader_fingerprint_) return;
  leader_fingerprint_ = fingerprint.value();
  found(invariants_.after_change(state));
}

void Cluster::check_all(bool deep) {
  std::vector<Running> running;
  for (const auto& server : servers_) {
    if (server->role) running.push_back({server->role.get(), life_of(*server->node)});
  }
  Coordinator* leading = coordinator();
  if (deep) compared_.forget();
  const bool knows = leading != nullptr && !leading->state().restate;
  found(invariants_.check(look_at(running, knows ? &leading->state() : nullptr, compared_, deep)));
}

void Cluster::found(std::string what) {
  if (what.empty() || !broken_.empty()) return;
  broken_ =
      fmt::format("seed {}, step {}, {:.6f} s: {}", options_.seed, scheduler_.events(),
                  std::chrono::duration<double>(scheduler_.now().time_since_epoch()).count(), what);
  told_ = false;
  log_error("an invariant of the cluster is broken", {{"what", broken_}});
}

const std::string& Cluster::broken() {
  told_ = true;
  return broken_;
}

const std::string& Cluster::check_invariants() {
  if (broken_.empty()) check_all(true);
  return broken();
}

}  // namespace ramcloud::sim
