#include "sim/cluster.h"

#include <fmt/core.h>

#include "base/logging.h"

namespace ramcloud::sim {
namespace {
constexpr uint16_t kCoordinatorPort = 11100;
constexpr uint16_t kServerPort = 11200;

HostPort coordinator_address(size_t i) {
  return {fmt::format("coordinator-{}", i + 1), kCoordinatorPort};
}
}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : options_(options), scheduler_(options.seed), network_(scheduler_, options.network) {
  for (size_t i = 0; i < options.coordinators; ++i) {
    coordinators_.push_back(std::make_unique<CoordinatorRole>());
    coordinators_[i]->node = &scheduler_.add_node(coordinator_address(i).host);
  }
  for (size_t i = 0; i < options.coordinators; ++i) start_coordinator(i);
  for (uint32_t i = 0; i < options.servers; ++i) {
    auto server = std::make_unique<ServerRole>();
    server->node = &scheduler_.add_node(fmt::format("server-{}", i + 1));
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
  for (auto& client : clients_) {
    client.tasks.reset();
    client.core.reset();
  }
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
  o.cluster_name = "sim";
  o.version = "sim";
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

void Cluster::start_server(ServerRole& server) {
  SimNode& node = *server.node;
  server.metrics = std::make_unique<MetricsRegistry>();
  server.transport = network_.make_transport(node);
  daemon::ServerNodeOptions o;
  o.coordinators = coordinator_locators();
  const HostPort address{node.name(), kServerPort};
  o.locator = Locator{"sim", address};
  o.name = o.failure_domain = node.name();
  o.version = "sim";
  o.backup_dir = "backup";
  o.log_bytes = options_.log_bytes;
  o.hash_table_bytes = 256u << 10;
  o.backup_bytes = 2 * std::max(options_.replicas, 1u) * options_.log_bytes;
  o.replicas = options_.replicas;
  o.prefault = false;
  server.role = std::make_unique<daemon::ServerNode>(
      node.reactor(), *server.transport, node.disk(), *server.metrics, o,
      [this, name = node.name()](const Status& why) {
        failures_ += fmt::format("{}: {}\n", name, why.to_string());
      });
  if (!server.transport->listen(address, Side::kInside, server.role->registry())) {
    fatal("a simulated server cannot listen");
  }
  if (Status status = server.role->start(); !status.ok()) {
    failures_ += fmt::format("{}: {}\n", node.name(), status.to_string());
  }
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

void Cluster::kill_server(size_t i) {
  auto& server = *servers_.at(i);
  scheduler_.kill(*server.node);
  server.role.reset();
  server.transport.reset();
}

void Cluster::restart_server(size_t i) {
  auto& server = *servers_.at(i);
  scheduler_.restart(*server.node);
  start_server(server);
}

std::string Cluster::check_coordinators() {
  Coordinator* leading = coordinator();
  if (leading == nullptr) return {};
  const Status status = coordinator_invariants_.check(leading->state());
  return status.ok() ? std::string() : "coordinator: " + status.to_string() + "\n";
}

std::string Cluster::check_invariants() {
  std::string broken = check_coordinators();
  for (const auto& server : servers_) {
    if (!server->role) continue;
    const std::string text = server->role->check_invariants();
    if (!text.empty()) broken += server->node->name() + ": " + text + "\n";
  }
  return broken;
}

}  // namespace ramcloud::sim
