#include "daemon/processes.h"

#include <fmt/core.h>

#include <atomic>
#include <future>

#include "base/logging.h"
#include "coordinator/admin/admin_service.h"
#include "coordinator/core/coordinator_node.h"
#include "daemon/daemon_runtime.h"
#include "daemon/http_server.h"
#include "daemon/metadata_place.h"
#include "daemon/option_values.h"
#include "runtime/posix_disk.h"
#include "server/forwarder.h"
#include "server/server_node.h"

namespace ramcloud::daemon {
namespace {

Locator tcp(const HostPort& address) {
  return {"tcp", address};
}

/// An address to show and advertise: the configured host with the bound port.
HostPort with_port(HostPort address, uint16_t port) {
  if (address.port == 0) address.port = port;
  return address;
}

}  // namespace

// ---- server -------------------------------------------------------------------------------------

struct ServerProcess::Impl {
  ServerOptions options;
  StopSignals& signals;
  DaemonRuntime runtime;
  std::unique_ptr<PosixDisk> disk;
  HttpServer http;
  std::unique_ptr<server::ServerNode> node;
  std::atomic<server::ServerNode*> seen_node{
      nullptr};  // the same for threads of `http`, which start earlier
  HostPort address, http_address;
  bool running = false;

  Impl(ServerOptions o, StopSignals& s)
      : options(std::move(o)),
        signals(s),
        runtime(options.common.poll_for, options.limits.data, options.reactors),
        http(
            runtime.metrics(), [this] { return runtime.trace_json(); },
            [this] { return runtime.check_turns(); },
            [this] {
              const server::ServerNode* seen = seen_node;
              return seen != nullptr ? seen->why_not_ready() : "the server starts";
            },
            options.limits.http) {}

  server::ServerNodeOptions node_options() const {
    server::ServerNodeOptions n;
    for (const auto& coordinator : options.coordinators) n.coordinators.push_back(tcp(coordinator));
    n.locator = tcp(with_port(options.advertise.value_or(options.listen), address.port));
    if (options.advertise_outside) n.locator_outside = tcp(*options.advertise_outside).to_string();
    n.http_address = http_address.to_string();
    n.name = options.name.empty() ? n.locator.address.to_string() : options.name;
    n.failure_domain = options.failure_domain.empty() ? n.name : options.failure_domain;
    n.version = RAMCLOUD_VERSION;
    n.backup_dir = options.dir;
    n.log_bytes = options.log_bytes;
    n.log_bytes_most = options.log_bytes_most;
    n.huge_page_bytes = options.huge_page_bytes;
    n.hash_table_bytes = options.hash_table_bytes;
    n.backup_bytes = options.backup_bytes;
    n.replicas = options.replicas;
    n.min_replicas = options.min_replicas;
    n.flush_interval = options.flush_interval;
    n.read_lease = options.read_lease;
    n.backup_silence = options.backup_silence;
    n.restart_grace = options.restart_grace;
    n.synced = options.synced;
    n.cleaning = options.cleaning;
    n.read_bytes_per_second = options.read_bytes_per_second;
    n.recovery.bytes_per_second = options.recovery_bytes_per_second;
    return n;
  }

  Status start() {
    // The node's registry must exist before we listen, but its locator needs the bound port. So
    // listen with a handler that forwards to the registry.
    std::vector<TcpTransport*> others;
    for (size_t i = 1; i < runtime.reactors(); ++i) {
      others.push_back(&runtime.lane(i).transport);
    }
    runtime.transport().spread_over(others, &server::any_reactor_serves);
    auto bound = runtime.transport().listen(options.listen, Side::kInside, forward);
    if (!bound) return std::move(bound.error());
    address = with_port(options.listen, bound->port);
    auto bound_http = http.start(options.http_listen);
    if (!bound_http) return std::move(bound_http.error());
    http_address = *bound_http;
    RC_RETURN_IF_ERROR(make_disk());
    make_node();
    RC_RETURN_IF_ERROR(node->start());
    runtime.start(options.name.empty() ? "server" : options.name);
    running = true;
    log_info("server.started", {{"listen", address.to_string()},
                                {"http", http_address.to_string()},
                                {"dir", options.dir},
                                {"reactors", options.reactors}});
    return {};
  }

  Status make_disk() {
    auto engine = make_disk_engine(runtime.reactor(), runtime.lane(0).events, options.disk_io);
    if (!engine) {
      return {engine.error().code(), fmt::format("--disk-io {}: {}", disk_io_name(options.disk_io),
                                                 engine.error().message())};
    }
    // Direct writes help only operations that wait for the device.
    const DirectIo direct = options.synced ? options.direct_io : DirectIo::kNever;
    disk = std::make_unique<PosixDisk>(std::move(*engine), direct);
    return {};
  }

  void make_node() {
    std::vector<server::ReactorResources> more;
    for (size_t i = 1; i < runtime.reactors(); ++i) {
      auto& lane = runtime.lane(i);
      more.push_back({lane.reactor, lane.transport, lane.metrics});
    }
    node = std::make_unique<server::ServerNode>(
        runtime.reactor(), runtime.transport(), *disk, runtime.metrics(), node_options(),
        [this](Status why) { signals.request_stop(std::move(why)); }, more);
    seen_node = node.get();
    forward.target = &node->registry();
    for (size_t i = 1; i < runtime.reactors(); ++i) {
      runtime.lane(i).transport.serve_handed_over(node->registry(i));
    }
  }

  void announce_stop() {
    std::promise<void> done;
    runtime.reactor().post([&] { node->announce_stop([&](const Status&) { done.set_value(); }); });
    done.get_future().wait();
  }

  void stop() {
    if (running) {
      std::promise<void> done;
      runtime.reactor().post([&] {
        node->shut_down([&](const Status& status) {
          if (!status.ok()) log_warn("backup.not_synced_at_end", {{"reason", status}});
          done.set_value();
        });
      });
      done.get_future().wait();
      runtime.stop();
    }
    http.stop();
    node.reset();
  }

  struct Forward final : RequestHandler {
    RequestHandler* target = nullptr;
    void on_ahead(std::span<const Ahead> requests) override { target->on_ahead(requests); }
    void on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                    ByteView body) override {
      target->on_request(handle, header, body);
    }
  } forward;
};

ServerProcess::ServerProcess(ServerOptions options, StopSignals& signals)
    : impl_(std::make_unique<Impl>(std::move(options), signals)) {}
ServerProcess::~ServerProcess() {
  impl_->stop();
}
Status ServerProcess::start() {
  return impl_->start();
}
bool ServerProcess::ready() const {
  return impl_->node && impl_->node->ready();
}
HostPort ServerProcess::address() const {
  return impl_->address;
}
HostPort ServerProcess::http_address() const {
  return impl_->http_address;
}

void ServerProcess::announce_stop() {
  impl_->announce_stop();
}

Status run_server(const ServerOptions& options, StopSignals& signals) {
  ServerProcess server(options, signals);
  RC_RETURN_IF_ERROR(server.start());
  const Status why = signals.wait();
  if (why.ok()) server.announce_stop();
  return why;
}

// ---- coordinator --------------------------------------------------------------------------------

struct CoordinatorProcess::Impl {
  CoordinatorOptions options;
  StopSignals& signals;
  DaemonRuntime runtime;
  HttpServer http;
  RpcClient rpc;
  std::unique_ptr<MetadataStore> metadata;
  std::unique_ptr<CoordinatorNode> node;
  std::unique_ptr<AdminService> admin;
  HostPort address, admin_address, http_address;
  bool running = false;

  Impl(CoordinatorOptions o, StopSignals& s)
      : options(std::move(o)),
        signals(s),
        runtime(options.common.poll_for, options.limits.data),
        http(
            runtime.metrics(), [this] { return runtime.trace_json(); },
            [this] { return runtime.check_turns(); },
            [this] {
              return node && node->serves_or_redirects()
                         ? std::string()
                         : "not the leader, and no leader is known: check "
                           "whether the metadata store is reachable";
            },
            options.limits.http),
        rpc(runtime.reactor(), runtime.transport()) {}

  Status listen() {
    auto bound = runtime.transport().listen(options.listen, Side::kInside, *node);
    if (!bound) return std::move(bound.error());
    address = with_port(options.listen, bound->port);
    if (options.listen_outside) {
      auto outside = runtime.transport().listen(*options.listen_outside, Side::kOutside, *node);
      if (!outside) return std::move(outside.error());
    }
    auto bound_http = http.start(options.http_listen);
    if (!bound_http) return std::move(bound_http.error());
    http_address = *bound_http;
    auto bound_admin = admin->start(options.admin_listen);
    if (!bound_admin) return std::move(bound_admin.error());
    admin_address = with_port(options.admin_listen, bound_admin->port);
    LeaderRecord self;
    self.locator = tcp(with_port(options.advertise, address.port)).to_string();
    if (options.advertise_outside) {
      self.locator_outside = tcp(*options.advertise_outside).to_string();
    }
    self.admin_address =
        with_port(options.admin_advertise.value_or(admin_address), admin_address.port).to_string();
    self.admin_address_outside = options.admin_advertise_outside
                                     ? options.admin_advertise_outside->to_string()
                                     : self.admin_address;
    node->set_addresses(std::move(self));
    return {};
  }

  Status start() {
    auto opened = open_metadata(runtime.reactor(), options.metadata);
    if (!opened) return std::move(opened.error());
    metadata = std::move(*opened);
    Coordinator::Options o;
    o.cluster_name = options.cluster_name;
    o.version = RAMCLOUD_VERSION;
    o.detector.thresholds.silence = options.server_silence;
    o.recoveries.query.returning = options.volume_return;
    node = std::make_unique<CoordinatorNode>(
        rpc, runtime.transport(), *metadata, runtime.metrics(), o,
        [this](Status why) { signals.request_stop(std::move(why)); });
    admin = std::make_unique<AdminService>(
        *node,
        AdminService::Options{.max_connections = options.limits.max_admin_connections,
                              .hello_timeout = options.limits.data.hello_timeout},
        runtime.metrics());
    RC_RETURN_IF_ERROR(listen());
    node->start();
    runtime.start("coordinator");
    running = true;
    log_info("coordinator.started", {{"listen", address.to_string()},
                                     {"admin", admin_address.to_string()},
                                     {"metadata", options.metadata.to_string()},
                                     {"cluster", options.cluster_name}});
    return {};
  }

  void stop() {
    if (running) {
      std::promise<void> done;
      runtime.reactor().post([&] { node->shut_down([&] { done.set_value(); }); });
      done.get_future().wait();
      runtime.on_reactor([this] { admin->stop(); });
      runtime.stop();
    }
    http.stop();
    admin.reset();
    node.reset();
    metadata.reset();
  }
};

CoordinatorProcess::CoordinatorProcess(CoordinatorOptions options, StopSignals& signals)
    : impl_(std::make_unique<Impl>(std::move(options), signals)) {}
CoordinatorProcess::~CoordinatorProcess() {
  impl_->stop();
}
Status CoordinatorProcess::start() {
  return impl_->start();
}
bool CoordinatorProcess::ready() const {
  return impl_->node && impl_->node->is_leading();
}
HostPort CoordinatorProcess::address() const {
  return impl_->address;
}
HostPort CoordinatorProcess::admin_address() const {
  return impl_->admin_address;
}
HostPort CoordinatorProcess::http_address() const {
  return impl_->http_address;
}

Status run_coordinator(const CoordinatorOptions& options, StopSignals& signals) {
  CoordinatorProcess coordinator(options, signals);
  RC_RETURN_IF_ERROR(coordinator.start());
  return signals.wait();
}

}  // namespace ramcloud::daemon
