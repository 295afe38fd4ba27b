#include "daemon/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "coordinator/core/checks.h"
#include "daemon/config_file.h"
#include "daemon/dev_record.h"
#include "daemon/option_values.h"

namespace ramcloud::daemon {
namespace {

/// "log-memory" is RAMCLOUD_LOG_MEMORY.
std::string environment_name(const std::string& name) {
  std::string env = "RAMCLOUD_" + name;
  std::transform(env.begin(), env.end(), env.begin(),
                 [](char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
  return env;
}

/// Adds a flag whose text `parse` converts into `target`; the error message says what is accepted.
template <typename T, typename Parse>
CLI::Option* add_parsed(CLI::App& app, const std::string& flag, T& target, Parse parse,
                        const std::string& help, const std::string& default_text) {
  auto* option = app.add_option_function<std::string>(
      flag,
      [&target, parse, flag](const std::string& text) {
        auto value = parse(text);
        if (!value) throw CLI::ValidationError(flag, value.error().message());
        target = std::move(*value);
      },
      help);
  if (!default_text.empty()) option->default_str(default_text)->force_callback();
  return option->envname(environment_name(flag.substr(2)))->type_name("");
}

constexpr const char* kDurabilityHelp =
    "buffered: replicas are in the operating system's cache when a write is acknowledged; synced: "
    "on the device";

constexpr const char* kDiskIoHelp =
    "how the backup waits for its device: io_uring, threads (where the kernel or the container "
    "runtime forbids io_uring), or auto, the first of these that works";

constexpr const char* kDirectIoHelp =
    "with --durability synced: write replicas without the operating system's cache (O_DIRECT): "
    "always, never, or auto (if the file system supports it)";

/// More threads than any server has cores for.
constexpr uint32_t kMaxCleanerThreads = 16;

constexpr const char* kConfigFlag = "--config";

constexpr uint64_t kMinLogBytes = 64u << 20;
/// More threads than any server has cores for; also the limit of RoutedReplies.
constexpr uint32_t kMaxReactors = 64;
constexpr const char* kReactorsHelp =
    "threads that serve data, each polling for requests of its own; useful only with a core for "
    "each";

void add_common(CLI::App& app, CommonOptions& o) {
  add_parsed(
      app, "--poll-us", o.poll_for, parse_poll,
      "microseconds to poll before sleeping, up to four times longer while work arrives soon "
      "after a sleep; 0 sleeps at once, -1 polls for ever (pinned cores)",
      "50");
  add_parsed(app, "--log-format", o.log_format, parse_log_format, "text or json", "text");
  add_parsed(app, "--log-level", o.log_level, parse_log_level, "debug, info, warn or error",
             "info");
  add_parsed(
      app, kConfigFlag, o.config, as_is,
      "a file of flags, one NAME=VALUE a line, without dashes; the environment and the command "
      "line override it",
      "");
}

/// The defaults come from the limits' own structs, so that they are defined only once.
void add_limits(CLI::App& app, LimitOptions& o, bool has_admin) {
  const auto add = [&app](const char* flag, auto& target, auto parse, const char* help,
                          const std::string& default_text) {
    add_parsed(app, flag, target, parse, help, default_text)->group("Limits");
  };
  const auto count = [](uint32_t n) { return std::to_string(n); };
  add("--max-connections", o.data.max_connections, between(1, 1'000'000),
      "connections to the data port at once; further ones are closed",
      count(o.data.max_connections));
  add("--max-connections-per-peer", o.data.max_connections_per_peer, between(0, 1'000'000),
      "connections to the data port from one peer address; further ones are closed; 0: no limit "
      "for one address",
      count(o.data.max_connections_per_peer));
  add("--max-silent-connections", o.data.max_silent_connections, between(1, 1'000'000),
      "connections to the data port that have not sent a hello message yet; one more closes the "
      "oldest of them",
      count(o.data.max_silent_connections));
  add("--max-outstanding", o.data.max_outstanding, between(1, 1'000'000),
      "outstanding (unanswered) requests of one connection; further ones wait in its socket",
      count(o.data.max_outstanding));
  add("--max-unsent", o.data.max_pending_bytes, size_at_least(2 * wire::kMaxBodyBytes),
      "unsent bytes of one connection whose peer reads slowly; if there are more, the connection "
      "is closed",
      exact_size(o.data.max_pending_bytes));
  add("--max-buffered", o.data.max_buffered_bytes, size_at_least(4 * wire::kMaxBodyBytes),
      "memory for messages of all connections: input, replies in progress or held, unsent output; "
      "if three quarters are used, replies wait; above the limit, the connections with the oldest "
      "incomplete message are closed",
      exact_size(o.data.max_buffered_bytes));
  add("--hello-timeout", o.data.hello_timeout, duration_between(100ms, 10min),
      "how long a new connection may take to send its hello message; then it is closed",
      exact_duration(o.data.hello_timeout));
  add("--message-timeout", o.data.message_timeout, duration_between(1s, 1h),
      "how long a peer may take to send the rest of a message, or to read the output that waits "
      "for it; then its connection is closed",
      exact_duration(o.data.message_timeout));
  add("--max-http-connections", o.http.max_connections, between(1, 10'000),
      "connections to the HTTP port at once", count(o.http.max_connections));
  if (!has_admin) return;
  add("--max-admin-connections", o.max_admin_connections, between(1, 10'000),
      "connections to the admin API at once", count(o.max_admin_connections));
}

void add_cleaning(CLI::App& app, server::CleaningOptions& o) {
  add_parsed(app, "--cleaning", o.levels, parse_levels,
             "how the memory of overwritten and deleted objects is reclaimed: two-level (memory "
             "first, disks less often), one-level (memory and disks together), or off (never)",
             "one-level");
  add_parsed(app, "--cleaner-threads", o.threads, between(0, kMaxCleanerThreads),
             "threads that clean, besides the reactors; 0: the first reactor cleans between its "
             "other work",
             "1");
  add_parsed(
      app, "--cleaner-policy", o.policy, parse_policy,
      "which segments are cleaned first: cost-benefit (much dead space, and written long ago), "
      "object-age (the same with the average age of their objects), greedy (most dead "
      "space), or lfs (the formula of log-structured file systems)",
      "cost-benefit");
}

void add_metadata(CLI::App& app, MetadataPlace& place) {
  add_parsed(app, "--metadata", place, MetadataPlace::parse,
             "where the metadata is kept: sqlite:PATH, or "
             "etcd:HOST:PORT[,HOST:PORT...][?prefix=/PATH&ca=FILE&cert=FILE&key=FILE]",
             "")
      ->required();
}

void add_coordinator(CLI::App& app, CoordinatorOptions& o) {
  const auto address = [](const std::string& text) { return parse_host_port(text); };
  add_parsed(app, "--listen", o.listen, address, "address for servers and clients",
             "127.0.0.1:11100");
  add_parsed(app, "--listen-outside", o.listen_outside, optional_of(parse_host_port),
             "a second address, for clients outside the cluster: they are given the outside "
             "addresses of all daemons",
             "");
  add_parsed(app, "--advertise", o.advertise, address,
             "address that others use to reach --listen (default: --listen)", "");
  add_parsed(app, "--admin-listen", o.admin_listen, address, "address of the admin API (gRPC)",
             "127.0.0.1:11101");
  add_parsed(app, "--admin-advertise", o.admin_advertise, optional_of(parse_host_port),
             "address that others use to reach --admin-listen (default: --admin-listen)", "");
  add_parsed(app, "--admin-advertise-outside", o.admin_advertise_outside,
             optional_of(parse_host_port),
             "address that clients outside the cluster use to reach --admin-listen", "");
  add_parsed(app, "--http-listen", o.http_listen, address,
             "address of /metrics, /healthz and /readyz", "127.0.0.1:11102");
  add_parsed(app, "--advertise-outside", o.advertise_outside, optional_of(parse_host_port),
             "address that clients outside the cluster use to reach --listen-outside", "");
  add_metadata(app, o.metadata);
  add_parsed(
      app, "--leader-lease", o.leader_lease, duration_between(1s, 60s),
      "with etcd: lease of the leader; after a leader crashed or was partitioned, it may take "
      "this long until another coordinator leads",
      "5s");
  add_parsed(app, "--server-silence", o.server_silence, duration_between(500ms, 10min),
             "a server that does not answer for this long is marked CRASHED, if at least half of "
             "the servers answer; a process that ended is detected at once",
             "5s");
  add_parsed(app, "--volume-return", o.volume_return, duration_between(1s, 24h),
             "how long a crashed server is expected to come back with its volume, and one whose "
             "device failed to answer after all: a recovery that lacks a part of a log waits this "
             "long, then it is BLOCKED",
             "10m");
  add_parsed(app, "--cluster-name", o.cluster_name, as_is, "name of the cluster", "ramcloud");
  add_limits(app, o.limits, true);
  add_common(app, o.common);
}

void add_server(CLI::App& app, ServerOptions& o) {
  const auto address = [](const std::string& text) { return parse_host_port(text); };
  add_parsed(
      app, "--coordinator", o.coordinators,
      [](const std::string& text) { return parse_host_port_list(text); },
      "coordinator's address, or several: host:port[,host:port]", "127.0.0.1:11100");
  add_parsed(app, "--listen", o.listen, address, "address for clients and other servers",
             "127.0.0.1:11200");
  add_parsed(app, "--advertise", o.advertise, optional_of(parse_host_port),
             "address that others use to reach --listen (default: --listen)", "");
  add_parsed(app, "--advertise-host", o.advertise_host, parse_host,
             "host that replaces the one in --advertise: a name or an address without a port, IPv6 "
             "with or without brackets",
             "");
  add_parsed(app, "--advertise-outside", o.advertise_outside, optional_of(parse_host_port),
             "address that clients outside the cluster use to reach --listen", "");
  add_parsed(app, "--http-listen", o.http_listen, address,
             "address of /metrics, /healthz and /readyz", "127.0.0.1:11202");
  add_parsed(
      app, "--dir", o.dir, parse_folder,
      "folder for replicas of other servers' data, or a block device that is used for nothing else",
      "")
      ->required();
  add_parsed(app, "--name", o.name, as_is,
             "stable name shown to people (default: the advertised address)", "");
  add_parsed(app, "--failure-domain", o.failure_domain, as_is,
             "failure domain of this server; servers in one domain never have replicas of each "
             "other's data (default: the name)",
             "");
  add_parsed(app, "--log-memory", o.log_bytes, size_at_least(kMinLogBytes), "memory for data",
             "256MiB");
  add_parsed(app, "--log-memory-max", o.log_bytes_most, size_at_least(kMinLogBytes),
             "largest --log-memory that `ramcloud server set` can set later; it reserves address "
             "space, no memory (default: 16 x --log-memory, at least 16GiB)",
             "");
  add_parsed(app, "--huge-pages", o.huge_page_bytes, parse_huge_pages,
             "pages of --log-memory: 2Mi or 1Gi (huge pages that are reserved on the machine), or "
             "none (ordinary pages, or transparent huge pages if the kernel offers them)",
             "none");
  add_parsed(app, "--hash-table-memory", o.hash_table_bytes, size_at_least(64u << 10),
             "memory for the hash table (default: an eighth of --log-memory)", "");
  add_parsed(app, "--backup-size", o.backup_bytes, size_at_least(kMinLogBytes),
             "disk space for replicas (default: 2 x replicas x --log-memory)", "");
  add_parsed(app, "--replicas", o.replicas, between(0, 7),
             "copies of every segment on other servers' disks", "3");
  add_parsed(
      app, "--min-replicas", o.min_replicas, between(1, 7),
      "fewest replicas with which writes continue; with fewer than --replicas the cluster is "
      "DEGRADED (default: one less than --replicas, at least 1)",
      "");
  add_parsed(app, "--flush-interval", o.flush_interval, parse_flush_interval,
             "how long replica bytes may be only in the operating system's cache before they are "
             "synced to the device",
             "10ms");
  add_parsed(app, "--read-lease", o.read_lease, duration_between(100ms, 10s),
             "how long a server may answer reads after the last confirmation by the backups of its "
             "newest data (with --replicas 0: by the coordinator); if it dies, other servers serve "
             "its tablets only after this time",
             "500ms");
  add_parsed(app, "--backup-silence", o.backup_silence, duration_between(500ms, 10min),
             "a backup of a server's newest data that does not answer for this long is replaced, "
             "if another backup can take its place",
             "1s");
  add_parsed(
      app, "--restart-grace", o.restart_grace, duration_between(0s, 5min),
      "how long closed replicas on a server that was asked to stop are not copied to others, "
      "because it may start again and still have them; replicas that are being written, and "
      "those on a crashed server, are copied at once; 0s: all are",
      "30s");
  add_parsed(app, "--durability", o.synced, parse_durability, kDurabilityHelp, "buffered");
  add_parsed(app, "--disk-io", o.disk_io, parse_disk_io, kDiskIoHelp, "auto");
  add_parsed(app, "--direct-io", o.direct_io, parse_direct_io, kDirectIoHelp, "auto");
  add_parsed(app, "--reactors", o.reactors, between(1, kMaxReactors), kReactorsHelp, "1");
  add_cleaning(app, o.cleaning);
  add_parsed(app, "--disk-read-speed", o.read_bytes_per_second, size_at_least(1u << 20),
             "read speed of --dir's device in bytes per second, for the placement of replicas "
             "(default: measured at start)",
             "");
  add_parsed(app, "--recovery-bandwidth", o.recovery_bytes_per_second, size_at_least(1u << 20),
             "most bytes per second of dead servers' logs that this server replays: a limit leaves "
             "bandwidth to clients, and recoveries take longer (default: no limit)",
             "");
  add_limits(app, o.limits, false);
  add_common(app, o.common);
}

void add_dev(CLI::App& app, DevOptions& o, std::optional<uint32_t>& replicas) {
  const auto address = [](const std::string& text) { return parse_host_port(text); };
  add_parsed(app, "--servers", o.servers, between(1, 64), "number of servers", "4");
  add_parsed(app, "--dir", o.dir, parse_folder, "folder for all files of the cluster", "")
      ->required();
  add_parsed(app, "--listen", o.listen, address,
             "address of the coordinator; the other daemons use ports after this one",
             "127.0.0.1:11100");
  add_parsed(app, "--replicas", replicas, optional_count(0, 7),
             "copies of every segment (default: as DIR was created; for a new DIR 3, or one less "
             "than --servers if that is fewer)",
             "");
  add_parsed(app, "--log-memory", o.log_bytes, size_at_least(kMinLogBytes),
             "memory of each server for data", "256MiB");
  add_parsed(app, "--backup-size", o.backup_bytes, size_at_least(kMinLogBytes),
             "disk space of each server for replicas (default: 2 x replicas x --log-memory)", "");
  add_parsed(app, "--durability", o.synced, parse_durability, kDurabilityHelp, "buffered");
  add_parsed(app, "--disk-io", o.disk_io, parse_disk_io, kDiskIoHelp, "auto");
  add_parsed(app, "--direct-io", o.direct_io, parse_direct_io, kDirectIoHelp, "auto");
  add_parsed(app, "--reactors", o.reactors, between(1, kMaxReactors),
             "of each server: " + std::string(kReactorsHelp), "1");
  add_cleaning(app, o.cleaning);
  app.add_flag("--processes", o.processes,
               "run each daemon in a process of its own, listed in DIR/processes.json, instead of "
               "all in one process");
  add_limits(app, o.limits, true);
  add_common(app, o.common);
}

/// Checks the address that others connect to: `advertised`, otherwise `listen`.
void check_advertised(const char* flag, const std::optional<HostPort>& advertised,
                      const char* listen_flag, const HostPort& listen) {
  constexpr const char* kAccepted = "accepted is the address by which others reach this machine";
  if (advertised && advertised->is_wildcard()) {
    throw CLI::ValidationError(flag,
                               fmt::format("value '{}': {}", advertised->to_string(), kAccepted));
  }
  if (!advertised && listen.is_wildcard()) {
    throw CLI::ValidationError(flag, fmt::format("needed because {} is '{}'; {}", listen_flag,
                                                 listen.to_string(), kAccepted));
  }
}

void check_outside(const char* flag, const std::optional<HostPort>& advertised) {
  check_advertised(flag, advertised, "", {});
}

/// Rules between flags.
void check_coordinator(CoordinatorOptions& o) {
  if (o.metadata.etcd) o.metadata.etcd->lease = o.leader_lease;
  const auto advertised = o.advertise.host.empty() ? std::nullopt : std::optional(o.advertise);
  check_advertised("--advertise", advertised, "--listen", o.listen);
  check_advertised("--admin-advertise", o.admin_advertise, "--admin-listen", o.admin_listen);
  check_outside("--advertise-outside", o.advertise_outside);
  check_outside("--admin-advertise-outside", o.admin_advertise_outside);
  if (!advertised) o.advertise = o.listen;
  if (o.cluster_name.empty() || o.cluster_name.size() > 255) {
    throw CLI::ValidationError("--cluster-name", "accepted are 1 to 255 bytes");
  }
  const bool control = std::ranges::any_of(
      o.cluster_name, [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; });
  // The admin API cannot send such a name.
  if (control || !is_valid_utf8(o.cluster_name)) {
    throw CLI::ValidationError(
        "--cluster-name", fmt::format("value {}: accepted is UTF-8 text without control characters",
                                      ramcloud::quoted(o.cluster_name)));
  }
}

void check_server(ServerOptions& o) {
  if (!o.advertise_host.empty()) {
    o.advertise = HostPort{o.advertise_host, o.advertise.value_or(o.listen).port};
    check_advertised("--advertise-host", o.advertise, "", {});
  }
  check_advertised("--advertise", o.advertise, "--listen", o.listen);
  check_outside("--advertise-outside", o.advertise_outside);
  if (o.min_replicas > o.replicas) {
    throw CLI::ValidationError("--min-replicas",
                               fmt::format("value '{}': accepted are 1 to --replicas, which is {}",
                                           o.min_replicas, o.replicas));
  }
  if (o.huge_page_bytes != 0 && o.log_bytes % o.huge_page_bytes != 0) {
    throw CLI::ValidationError(
        "--log-memory",
        fmt::format("value '{}': accepted are multiples of {}, the size of the --huge-pages",
                    format_size(o.log_bytes), format_size(o.huge_page_bytes)));
  }
  if (o.log_bytes_most == 0) o.log_bytes_most = usual_most_log_bytes(o.log_bytes);
  if (o.log_bytes_most < o.log_bytes) {
    throw CLI::ValidationError("--log-memory-max",
                               fmt::format("value '{}': accepted are sizes from --log-memory on, "
                                           "which is {}",
                                           exact_size(o.log_bytes_most), exact_size(o.log_bytes)));
  }
  if (o.hash_table_bytes == 0) o.hash_table_bytes = o.log_bytes / 8;
  if (o.backup_bytes == 0) o.backup_bytes = std::max<uint64_t>(2 * o.replicas, 2) * o.log_bytes;
}

/// The highest port is that of the last server's --http-listen; 0: any free port.
void check_dev_ports(const DevOptions& o) {
  const uint32_t more = 10 * o.servers + 2;
  const uint32_t highest = 65'535 - more;
  if (o.listen.port <= highest) return;
  throw CLI::ValidationError(
      "--listen", fmt::format("value '{}': the ports of {} servers follow, up to {} more; accepted "
                              "are ports from 1 to {}, or 0 for any",
                              o.listen.to_string(), o.servers, more, highest));
}

void check_dev(DevOptions& o, std::optional<uint32_t> replicas) {
  o.asked_replicas = replicas;
  o.replicas = replicas.value_or(default_replicas(o.servers));
  if (o.replicas >= o.servers) {
    throw CLI::ValidationError(
        "--replicas",
        fmt::format("value '{}': {} replicas on servers other than the data's own need "
                    "{} servers, and --servers is {}; accepted are 0 to {}",
                    o.replicas, o.replicas, o.replicas + 1, o.servers, o.servers - 1));
  }
  check_dev_ports(o);
}

CLI::App* add_metadata_command(CLI::App& group, MetadataOptions& o, const char* name,
                               const char* help, const char* file_help) {
  auto* command = group.add_subcommand(name, help);
  add_metadata(*command, o.metadata);
  add_parsed(*command, "--file", o.file, as_is, file_help, "-");
  add_common(*command, o.common);
  return command;
}

/// The command in these words, and how many words it has.
std::pair<CLI::App*, size_t> command_of(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* command = &app;
  size_t used = 0;
  while (used < words.size()) {
    const auto found = command->get_subcommands(
        [&](const CLI::App* one) { return one->get_name() == words[used]; });
    if (found.empty()) break;
    command = found.front();
    ++used;
  }
  return {command, used};
}

/// The last value of a flag on the command line.
std::optional<std::string> given(const std::vector<std::string>& words, const std::string& flag) {
  for (size_t i = words.size(); i-- > 0;) {
    if (words[i].starts_with(flag + "=")) return words[i].substr(flag.size() + 1);
    if (words[i] == flag) return i + 1 < words.size() ? words[i + 1] : std::string();
  }
  return std::nullopt;
}

/// Inserts the flags of --config's file after the command's name, except those given on the command
/// line or in the environment. (The parser's own config files do not support commands.)
void add_config(CLI::App& app, std::vector<std::string>& words) {
  const auto [command, used] = command_of(app, words);
  auto path = given(words, kConfigFlag);
  const char* from_environment = std::getenv(environment_name(kConfigFlag + 2).c_str());
  if (!path && from_environment != nullptr) path = from_environment;
  if (!path || command->get_option_no_throw(kConfigFlag) == nullptr) return;
  const auto refuse = [&](const std::string& why) {
    throw CLI::ValidationError(kConfigFlag, fmt::format("file '{}': {}", *path, why));
  };
  const auto lines = read_config(*path);
  if (!lines) return refuse(lines.error().message());
  auto place = words.begin() + static_cast<std::ptrdiff_t>(used);
  std::vector<std::string> more;
  for (const ConfigLine& line : *lines) {
    const std::string flag = "--" + line.name;
    if (flag == kConfigFlag || command->get_option_no_throw(flag) == nullptr) {
      refuse(
          fmt::format("line {}: there is no flag '{}'; accepted are those of ramcloudd {} --help",
                      line.number, line.name, command->get_name()));
    }
    if (given(words, flag) || std::getenv(environment_name(line.name).c_str()) != nullptr) continue;
    more.push_back(flag + "=" + line.value);
  }
  words.insert(place, more.begin(), more.end());
}

}  // namespace

uint64_t usual_most_log_bytes(uint64_t log_bytes) {
  return std::max(16 * log_bytes, uint64_t{16} << 30);
}

Result<MetadataPlace> MetadataPlace::parse(const std::string& text) {
  constexpr const char* kAccepted =
      "accepted are sqlite:PATH and etcd:HOST:PORT[,HOST:PORT...][?prefix=/PATH&...]";
  MetadataPlace place;
  if (text.starts_with("sqlite:") && text.size() > 7) {
    place.sqlite_path = text.substr(7);
    return place;
  }
  if (!text.starts_with("etcd:")) {
    return fail(StatusCode::kInvalidArgument, fmt::format("value '{}': {}", text, kAccepted));
  }
  auto etcd = parse_etcd_options(std::string_view(text).substr(5));
  if (!etcd) {
    return fail(StatusCode::kInvalidArgument,
                fmt::format("value '{}': {}; {}", text, kAccepted, etcd.error().message()));
  }
  place.etcd = std::move(*etcd);
  return place;
}

std::string MetadataPlace::to_string() const {
  if (!etcd) return "sqlite:" + sqlite_path;
  std::string text = "etcd:";
  for (const auto& endpoint : etcd->endpoints) text += endpoint.to_string() + ",";
  text.back() = '?';
  return text + "prefix=" + etcd->prefix;
}

const LimitOptions* Command::limits() const {
  switch (kind) {
    case Kind::kServer:
      return &server.limits;
    case Kind::kCoordinator:
      return &coordinator.limits;
    case Kind::kDev:
      return &dev.limits;
    case Kind::kExport:
    case Kind::kImport:
    case Kind::kExit:
      break;
  }
  return nullptr;
}

const CommonOptions& Command::common() const {
  switch (kind) {
    case Kind::kServer:
      return server.common;
    case Kind::kCoordinator:
      return coordinator.common;
    case Kind::kExport:
    case Kind::kImport:
      return metadata.common;
    case Kind::kDev:
    case Kind::kExit:
      break;
  }
  return dev.common;
}

Command parse_command_line(int argc, const char* const* argv) {
  Command command;
  CLI::App app{"RAMCloud: a memory-resident, durable key-value store", "ramcloudd"};
  app.set_version_flag("--version", std::string(RAMCLOUD_VERSION));
  app.require_subcommand(1);
  app.footer(
      "Every flag can also come from --config FILE and from RAMCLOUD_<FLAG> in the environment; "
      "the\n"
      "command line overrides the environment, and that overrides the file.\n"
      "Exit codes: 0 stopped as asked, 1 failed while running, 2 wrong usage.");
  auto* coordinator = app.add_subcommand("coordinator", "Runs a coordinator");
  auto* server = app.add_subcommand("server", "Runs a storage server (master and backup)");
  auto* dev = app.add_subcommand("dev", "Runs a whole cluster on this machine");
  auto* metadata = app.add_subcommand("metadata", "Exports and imports a cluster's metadata");
  std::optional<uint32_t> replicas;
  add_coordinator(*coordinator, command.coordinator);
  metadata->require_subcommand(1);
  MetadataOptions importing;
  auto* exports =
      add_metadata_command(*metadata, command.metadata, "export", "Writes all metadata to a file",
                           "file to write; - is standard output");
  add_metadata_command(*metadata, importing, "import",
                       "Fills an empty metadata store from an exported file",
                       "file to read; - is standard input");
  add_server(*server, command.server);
  add_dev(*dev, command.dev, replicas);
  std::vector<std::string> words(argv + 1, argv + argc);
  try {
    add_config(app, words);
    std::ranges::reverse(words);  // the parser expects this order
    app.parse(std::move(words));
    if (coordinator->parsed()) {
      check_coordinator(command.coordinator);
      command.kind = Command::Kind::kCoordinator;
    } else if (server->parsed()) {
      check_server(command.server);
      command.kind = Command::Kind::kServer;
    } else if (metadata->parsed()) {
      command.kind = exports->parsed() ? Command::Kind::kExport : Command::Kind::kImport;
      if (!exports->parsed()) command.metadata = std::move(importing);
    } else {
      check_dev(command.dev, replicas);
      command.kind = Command::Kind::kDev;
    }
  } catch (const CLI::ParseError& error) {
    command.kind = Command::Kind::kExit;
    command.exit_code = app.exit(error) == 0 ? 0 : 2;
  }
  return command;
}

}  // namespace ramcloud::daemon
