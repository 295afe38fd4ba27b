// The options of `ramcloudd`: flags, a config file (--config), RAMCLOUD_* environment variables.
// Errors name the flag, the value and what is accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/logging.h"
#include "base/text.h"
#include "coordinator/metadata/etcd_options.h"
#include "daemon/http_server.h"
#include "runtime/posix_disk.h"
#include "server/cleaning_options.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcloud::daemon {

struct CommonOptions {
  Duration poll_for = 50us;
  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
  std::string config;  // the config file, if any
};

/// Limits on resources that peers can take, so that no process that reaches the ports can make the
/// daemon grow, stop, or starve its clients.
struct LimitOptions {
  TcpOptions data;
  HttpOptions http;
  uint32_t max_admin_connections = 256;  // of a coordinator
};

/// Where metadata is kept: a SQLite file or an etcd.
struct MetadataPlace {
  std::string sqlite_path;  // empty: etcd
  std::optional<EtcdOptions> etcd;
  /// Parses the value of --metadata.
  static Result<MetadataPlace> parse(const std::string& text);
  std::string to_string() const;
};

struct CoordinatorOptions {
  CommonOptions common;
  LimitOptions limits;
  HostPort listen;
  std::optional<HostPort> listen_outside;
  HostPort advertise;  // of the data RPC
  std::optional<HostPort> advertise_outside;
  HostPort admin_listen;
  std::optional<HostPort> admin_advertise, admin_advertise_outside;
  HostPort http_listen;
  MetadataPlace metadata;
  std::string cluster_name;
  Duration leader_lease = 5s;
  Duration server_silence = 5s;
  Duration volume_return = std::chrono::minutes(10);
};

struct ServerOptions {
  CommonOptions common;
  LimitOptions limits;
  std::vector<HostPort> coordinators;
  HostPort listen;
  std::optional<HostPort> advertise;  // default: listen
  std::string advertise_host;         // replaces the host of `advertise`; empty: not set
  std::optional<HostPort> advertise_outside;
  HostPort http_listen;
  std::string dir;
  std::string name;            // default: the advertised address
  std::string failure_domain;  // default: a domain of its own, named like the server
  uint64_t log_bytes = 0;
  uint64_t log_bytes_most = 0;    // 0: 16 x log, at least 16 GiB
  uint64_t huge_page_bytes = 0;   // 0: ordinary pages
  uint64_t hash_table_bytes = 0;  // 0: an eighth of the log
  uint64_t backup_bytes = 0;      // 0: 2 x R x log
  uint32_t replicas = 0;
  uint32_t min_replicas = 0;  // 0: max(1, replicas - 1)
  uint32_t reactors = 1;
  bool synced = false;
  DiskIo disk_io = DiskIo::kAuto;
  DirectIo direct_io = DirectIo::kAuto;
  uint64_t read_bytes_per_second = 0;      // 0: measured
  uint64_t recovery_bytes_per_second = 0;  // 0: no limit
  Duration flush_interval = 10ms;
  Duration read_lease = 500ms;
  Duration backup_silence = 1s;
  Duration restart_grace = 30s;
  server::CleaningOptions cleaning;
};

struct DevOptions {
  CommonOptions common;
  LimitOptions limits;
  uint32_t servers = 0;
  std::string dir;
  HostPort listen;
  std::optional<uint32_t> asked_replicas;  // none: as recorded in the folder (dev_record.h)
  uint32_t replicas = 0;                   // decided at start
  uint64_t log_bytes = 0;
  uint64_t backup_bytes = 0;  // 0: as for a server
  uint32_t reactors = 1;      // of each server
  bool synced = false;
  DiskIo disk_io = DiskIo::kAuto;
  DirectIo direct_io = DirectIo::kAuto;
  server::CleaningOptions cleaning;
  bool processes = false;
};

struct MetadataOptions {
  CommonOptions common;
  MetadataPlace metadata;
  std::string file = "-";  // "-": standard output or input
};

struct Command {
  enum class Kind { kExit, kCoordinator, kServer, kDev, kExport, kImport } kind = Kind::kExit;
  int exit_code = 0;  // for kExit: --help, --version, or a usage error (2)
  CoordinatorOptions coordinator;
  ServerOptions server;
  DevOptions dev;
  MetadataOptions metadata;

  const CommonOptions& common() const;
  const LimitOptions* limits() const;  // null: the command listens on no port
};

/// The default of --log-memory-max for this --log-memory.
uint64_t usual_most_log_bytes(uint64_t log_bytes);

/// Reads the command line; prints help, version and errors itself.
Command parse_command_line(int argc, const char* const* argv);

}  // namespace ramcloud::daemon
