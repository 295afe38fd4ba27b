// main() of `ramcloudd`.
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/failpoint.h"
#include "base/logging.h"
#include "daemon/again.h"
#include "daemon/dev.h"
#include "daemon/metadata_commands.h"
#include "daemon/options.h"
#include "daemon/processes.h"
#include "daemon/signals.h"

namespace {

/// Raises the limit of file descriptors, which is low in most shells. Without enough of them
/// accepting pauses (docs/design/wire.md), so it logs a warning.
void raise_file_limit(const ramcloud::daemon::LimitOptions& limits) {
  constexpr uint64_t kOwn = 512;  // files, sessions to other servers, the libraries'
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const uint64_t wanted = limits.data.max_connections + kOwn;
  if (files.rlim_max >= wanted) return;
  ramcloud::log_warn("daemon.few_file_descriptors",
                     {{"limit", files.rlim_max},
                      {"max_connections", limits.data.max_connections},
                      {"wanted", wanted}});
}

#ifdef RAMCLOUD_COUNT_SOMETIMES
/// In builds with tests: lists the failpoints, or arms those in the environment. An exit code if
/// the program should end.
std::optional<int> begin_test_build(int argc, char** argv) {
  using namespace ramcloud;
  if (argc == 2 && std::string_view(argv[1]) == "failpoints") {
    for (const Failpoint& point : kFailpoints) std::printf("%-36s %s\n", point.name, point.where);
    return 0;
  }
  const char* text = std::getenv("RAMCLOUD_FAILPOINTS");
  if (text == nullptr) return std::nullopt;
  const auto orders = parse_failpoints(text);
  if (!orders) {
    std::fprintf(stderr, "ramcloudd: %s\n", orders.error().message().c_str());
    return 2;
  }
  arm_failpoints(*orders);
  return std::nullopt;
}
#endif

}  // namespace

int main(int argc, char** argv) {
  using namespace ramcloud;
  using namespace ramcloud::daemon;
  const Lifetime lifetime;
#ifdef RAMCLOUD_COUNT_SOMETIMES
  if (const auto exit_code = begin_test_build(argc, argv)) return *exit_code;
#endif
  Command command = parse_command_line(argc, argv);
  if (command.kind == Command::Kind::kExit) return command.exit_code;
  StopSignals signals;  // before any thread starts, so that all inherit the mask
  const auto& common = command.common();
  set_log_level(common.log_level);
  set_log_format(common.log_format);
  if (const LimitOptions* limits = command.limits()) raise_file_limit(*limits);
  Status status;
  switch (command.kind) {
    case Command::Kind::kServer:
      status = run_server(command.server, signals);
      break;
    case Command::Kind::kCoordinator:
      status = run_coordinator(command.coordinator, signals);
      break;
    case Command::Kind::kDev:
      status = run_dev(command.dev, signals);
      break;
    case Command::Kind::kExport:
      status = export_metadata(command.metadata);
      break;
    case Command::Kind::kImport:
      status = import_metadata(command.metadata);
      break;
    case Command::Kind::kExit:
      break;
  }
  if (status.ok()) return 0;
  log_error("daemon.stopped", {{"reason", status}});
  // Given up by its cluster: start again as a new server.
  if (status == StatusCode::kCrashed) {
    status = lifetime.execute_again(argv, signals);
    if (status.ok()) return 0;
    log_error("daemon.cannot_start_again", {{"reason", status}});
  }
  return 1;
}
