#include "daemon/dev.h"

#include <fmt/core.h>
#include <httplib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "daemon/dev_record.h"
#include "daemon/option_values.h"
#include "daemon/processes.h"

namespace ramcloud::daemon {
namespace {

constexpr Duration kStartLimit = 120s;

HostPort offset(HostPort base, uint32_t by) {
  if (base.port != 0) base.port = static_cast<uint16_t>(base.port + by);
  return base;
}

std::string server_name(uint32_t i) {
  return fmt::format("server-{}", i);
}

/// The address to connect to: for a wildcard address loopback, because the cluster is on one
/// machine.
HostPort reached_by(HostPort listen) {
  if (listen.is_wildcard()) {
    listen.host = listen.host.find(':') == std::string::npos ? "127.0.0.1" : "::1";
  }
  return listen;
}

CoordinatorOptions coordinator_of(const DevOptions& dev) {
  CoordinatorOptions o;
  o.common = dev.common;
  o.limits = dev.limits;
  o.listen = dev.listen;
  o.advertise = reached_by(o.listen);
  o.admin_listen = offset(dev.listen, 1);
  if (o.admin_listen.is_wildcard()) o.admin_advertise = reached_by(o.admin_listen);
  o.http_listen = offset(dev.listen, 2);
  o.metadata.sqlite_path = dev.dir + "/coordinator/metadata.db";
  o.cluster_name = "dev";
  return o;
}

ServerOptions server_of(const DevOptions& dev, uint32_t i, const HostPort& coordinator) {
  ServerOptions o;
  o.common = dev.common;
  o.limits = dev.limits;
  o.coordinators = {reached_by(coordinator)};
  o.listen = offset(dev.listen, 10 * i);
  o.advertise = reached_by(o.listen);
  o.http_listen = offset(dev.listen, 10 * i + 2);
  o.dir = fmt::format("{}/{}", dev.dir, server_name(i));
  o.name = o.failure_domain = server_name(i);
  o.log_bytes = dev.log_bytes;
  o.log_bytes_most = usual_most_log_bytes(dev.log_bytes);
  o.hash_table_bytes = dev.log_bytes / 8;
  o.replicas = dev.replicas;
  o.synced = dev.synced;
  o.disk_io = dev.disk_io;
  o.direct_io = dev.direct_io;
  o.reactors = dev.reactors;
  o.cleaning = dev.cleaning;
  o.backup_bytes =
      dev.backup_bytes != 0 ? dev.backup_bytes : std::max(2 * dev.replicas, 2u) * dev.log_bytes;
  return o;
}

void print_ready(const DevOptions& dev, const HostPort& coordinator) {
  fmt::print("ready: {} servers, R = {}, data in {}; try: ramcloud --cluster {} status\n",
             dev.servers, dev.replicas, dev.dir, reached_by(coordinator).to_string());
  std::fflush(stdout);
}

/// Waits for `ready()`. OK when it is true; otherwise the status that ended the wait.
Status wait_ready(StopSignals& signals, const std::function<bool()>& ready, bool& stopped) {
  SystemClock clock;
  const Time limit = clock.now() + kStartLimit;
  while (!ready()) {
    if (auto status = signals.wait_for(20ms)) {
      stopped = true;
      return *status;
    }
    if (clock.now() > limit) {
      return Status(
          StatusCode::kDeadlineExceeded,
          fmt::format("the servers were not ready after {}", format_duration(kStartLimit)));
    }
  }
  return {};
}

// ---- one process --------------------------------------------------------------------------------

Status run_in_one_process(const DevOptions& dev, StopSignals& signals) {
  CoordinatorProcess coordinator(coordinator_of(dev), signals);
  RC_RETURN_IF_ERROR(coordinator.start());
  std::vector<std::unique_ptr<ServerProcess>> servers;
  for (uint32_t i = 1; i <= dev.servers; ++i) {
    servers.push_back(
        std::make_unique<ServerProcess>(server_of(dev, i, coordinator.address()), signals));
    RC_RETURN_IF_ERROR(servers.back()->start());
  }
  bool stopped = false;
  const auto all_ready = [&] {
    if (!coordinator.ready()) return false;
    for (const auto& server : servers) {
      if (!server->ready()) return false;
    }
    return true;
  };
  Status status = wait_ready(signals, all_ready, stopped);
  if (!status.ok() || stopped) return status;
  print_ready(dev, coordinator.address());
  return signals.wait();
}

// ---- child processes ----------------------------------------------------------------------------

struct Child {
  std::string role, name, dir;
  pid_t pid = -1;
  HostPort rpc, http;
  std::optional<HostPort> admin;
};

/// Starts this program as a child with the arguments; it ends when this process does.
Result<pid_t> spawn(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return fail(StatusCode::kIoError, fmt::format("fork: {}", std::strerror(errno)));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);  // only the parent gets Ctrl-C; it stops the children in order
  execv("/proc/self/exe", argv.data());
  _exit(127);
}

std::vector<std::string> common_arguments(const CommonOptions& common) {
  const auto poll =
      common.poll_for < Duration(0) ? std::string("-1") : std::to_string(common.poll_for / 1us);
  constexpr const char* kLevels[] = {"debug", "info", "warn", "error"};
  return {"--poll-us",    poll,
          "--log-format", common.log_format == LogFormat::kJson ? "json" : "text",
          "--log-level",  kLevels[static_cast<int>(common.log_level)]};
}

std::vector<std::string> limit_arguments(const LimitOptions& limits) {
  return {"--max-connections",
          std::to_string(limits.data.max_connections),
          "--max-connections-per-peer",
          std::to_string(limits.data.max_connections_per_peer),
          "--max-silent-connections",
          std::to_string(limits.data.max_silent_connections),
          "--max-outstanding",
          std::to_string(limits.data.max_outstanding),
          "--max-unsent",
          std::to_string(limits.data.max_pending_bytes),
          "--max-buffered",
          std::to_string(limits.data.max_buffered_bytes),
          "--hello-timeout",
          exact_duration(limits.data.hello_timeout),
          "--message-timeout",
          exact_duration(limits.data.message_timeout),
          "--max-http-connections",
          std::to_string(limits.http.max_connections)};
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

Result<Child> spawn_coordinator(const CoordinatorOptions& o) {
  Child child{"coordinator",
              "coordinator",
              std::filesystem::path(o.metadata.sqlite_path).parent_path(),
              -1,
              o.listen,
              o.http_listen,
              o.admin_listen};
  std::vector<std::string> arguments = {"ramcloudd",
                                        "coordinator",
                                        "--listen",
                                        o.listen.to_string(),
                                        "--advertise",
                                        o.advertise.to_string(),
                                        "--admin-listen",
                                        o.admin_listen.to_string(),
                                        "--admin-advertise",
                                        reached_by(o.admin_listen).to_string(),
                                        "--http-listen",
                                        o.http_listen.to_string(),
                                        "--metadata",
                                        o.metadata.to_string(),
                                        "--cluster-name",
                                        o.cluster_name,
                                        "--max-admin-connections",
                                        std::to_string(o.limits.max_admin_connections)};
  append(arguments, limit_arguments(o.limits));
  append(arguments, common_arguments(o.common));
  auto pid = spawn(arguments);
  if (!pid) return fail(std::move(pid.error()));
  child.pid = *pid;
  return child;
}

Result<Child> spawn_server(const ServerOptions& o) {
  Child child{"server", o.name, o.dir, -1, o.listen, o.http_listen, std::nullopt};
  std::vector<std::string> arguments = {"ramcloudd",
                                        "server",
                                        "--coordinator",
                                        o.coordinators.front().to_string(),
                                        "--listen",
                                        o.listen.to_string(),
                                        "--advertise",
                                        reached_by(o.listen).to_string(),
                                        "--http-listen",
                                        o.http_listen.to_string(),
                                        "--dir",
                                        o.dir,
                                        "--name",
                                        o.name,
                                        "--failure-domain",
                                        o.failure_domain,
                                        "--log-memory",
                                        std::to_string(o.log_bytes),
                                        "--log-memory-max",
                                        std::to_string(o.log_bytes_most),
                                        "--hash-table-memory",
                                        std::to_string(o.hash_table_bytes),
                                        "--backup-size",
                                        std::to_string(o.backup_bytes),
                                        "--replicas",
                                        std::to_string(o.replicas),
                                        "--durability",
                                        o.synced ? "synced" : "buffered",
                                        "--disk-io",
                                        disk_io_name(o.disk_io),
                                        "--direct-io",
                                        direct_io_name(o.direct_io),
                                        "--reactors",
                                        std::to_string(o.reactors),
                                        "--cleaning",
                                        cleaning_levels_name(o.cleaning.levels),
                                        "--cleaner-threads",
                                        std::to_string(o.cleaning.threads),
                                        "--cleaner-policy",
                                        cleaning_policy_name(o.cleaning.policy)};
  append(arguments, limit_arguments(o.limits));
  append(arguments, common_arguments(o.common));
  auto pid = spawn(arguments);
  if (!pid) return fail(std::move(pid.error()));
  child.pid = *pid;
  return child;
}

Status write_process_list(const std::string& path, const std::vector<Child>& children) {
  auto list = nlohmann::json::array();
  for (const auto& child : children) {
    nlohmann::json ports = {{"rpc", child.rpc.port}, {"http", child.http.port}};
    if (child.admin) ports["admin"] = child.admin->port;
    list.push_back({{"role", child.role},
                    {"name", child.name},
                    {"pid", child.pid},
                    {"ports", ports},
                    {"dir", child.dir}});
  }
  return replace_file(path, list.dump(2) + "\n");
}

bool answers_ready(const HostPort& http) {
  httplib::Client client(http.host, http.port);
  client.set_connection_timeout(1);
  const auto response = client.Get("/readyz");
  return response && response->status == 200;
}

/// Asks the children to stop, servers before the coordinator, and waits for each. A child that was
/// killed before is not an error.
void stop_children(const std::vector<Child>& children) {
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    kill(child->pid, SIGTERM);
    waitpid(child->pid, nullptr, 0);
  }
}

Status run_as_processes(const DevOptions& dev, StopSignals& signals) {
  if (dev.listen.port == 0) {
    return Status(StatusCode::kInvalidArgument,
                  "--listen: port 0 cannot be used with --processes: the children must know it");
  }
  std::vector<Child> children;
  const auto coordinator = coordinator_of(dev);
  std::filesystem::create_directories(dev.dir + "/coordinator");
  Status status;
  const auto take = [&](Result<Child> child) {
    if (child) {
      children.push_back(std::move(*child));
    } else {
      status = std::move(child.error());
    }
  };
  take(spawn_coordinator(coordinator));
  for (uint32_t i = 1; i <= dev.servers && status.ok(); ++i) {
    take(spawn_server(server_of(dev, i, dev.listen)));
  }
  if (status.ok()) status = write_process_list(dev.dir + "/processes.json", children);
  bool stopped = false;
  if (status.ok()) {
    size_t ready = 0;  // children are checked in order; one that was ready is not checked again
    status = wait_ready(
        signals,
        [&] {
          for (const auto& child : children) {
            int how = 0;
            if (waitpid(child.pid, &how, WNOHANG) == child.pid) {
              signals.request_stop(Status(
                  StatusCode::kInternal,
                  fmt::format("{} ended before it was ready; its log says why", child.name)));
              return false;
            }
          }
          while (ready < children.size() && answers_ready(children[ready].http)) ++ready;
          return ready == children.size();
        },
        stopped);
  }
  if (status.ok() && !stopped) {
    print_ready(dev, dev.listen);
    status = signals.wait();
  }
  stop_children(children);
  return status;
}

}  // namespace

Status run_dev(const DevOptions& options, StopSignals& signals) {
  std::error_code error;
  std::filesystem::create_directories(options.dir, error);
  if (error) {
    return Status(StatusCode::kIoError,
                  fmt::format("--dir '{}': {}", options.dir, error.message()));
  }
  auto replicas = resolve_replicas(options.dir, options.servers, options.asked_replicas);
  if (!replicas) return std::move(replicas.error());
  DevOptions dev = options;
  dev.replicas = *replicas;
  return dev.processes ? run_as_processes(dev, signals) : run_in_one_process(dev, signals);
}

}  // namespace ramcloud::daemon
