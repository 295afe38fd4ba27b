// The command line and the config file of `ramcloudd`. The first byte chooses the command; then
// follow arguments, one on each line, up to a NUL, then the config file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <vector>

#include "daemon/options.h"
#include "fuzz/input.h"

using namespace ramcloud;
using daemon::Command;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// Creates an anonymous file; returns its path.
std::string config_file(std::string_view text) {
  static const int file = memfd_create("config", 0);
  require(file >= 0 && ftruncate(file, 0) == 0);
  require(pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return "/proc/self/fd/" + std::to_string(file);
}

/// Checks that accepted options are usable.
void check_server(const daemon::ServerOptions& o) {
  constexpr uint64_t kLeast = 64u << 20, kMost = uint64_t{1} << 46;
  require(o.log_bytes >= kLeast && o.log_bytes <= kMost);
  require(o.backup_bytes >= kLeast && o.hash_table_bytes > 0 && o.hash_table_bytes <= kMost);
  require(o.replicas <= 7 && o.min_replicas <= o.replicas);
  require(o.flush_interval >= Duration(0) && o.flush_interval <= 1h);
  require(!o.coordinators.empty() && !o.dir.empty());
}

void check_coordinator(const daemon::CoordinatorOptions& o) {
  require(o.metadata.etcd.has_value() != !o.metadata.sqlite_path.empty());
  require(o.leader_lease >= 1s && o.leader_lease <= 60s);
  require(!o.cluster_name.empty() && o.cluster_name.size() <= 255);
}

void check_dev(const daemon::DevOptions& o) {
  require(o.servers >= 1 && o.servers <= 64 && o.replicas < o.servers && o.replicas <= 7);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Help and errors would be a megabyte a second.
  std::cout.rdbuf(nullptr);
  std::cerr.rdbuf(nullptr);
  fuzz::Input in(data, size);
  constexpr const char* kCommands[] = {"server", "coordinator", "dev", "metadata", ""};
  std::vector<std::string> arguments = {"ramcloudd", kCommands[in.u8() % std::size(kCommands)]};
  if (arguments.back().empty()) arguments.pop_back();
  if (arguments.back() == "metadata") arguments.push_back(in.u8() % 2 == 0 ? "export" : "import");
  const std::string_view written = in.take_until('\0');
  fuzz::Input lines(reinterpret_cast<const uint8_t*>(written.data()), written.size());
  while (!lines.empty()) arguments.emplace_back(lines.take_until('\n'));
  if (!in.empty()) {
    arguments.push_back("--config");
    arguments.push_back(config_file(in.rest()));
  }
  std::vector<const char*> argv;
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  const Command command = daemon::parse_command_line(static_cast<int>(argv.size()), argv.data());
  switch (command.kind) {
    case Command::Kind::kServer:
      check_server(command.server);
      break;
    case Command::Kind::kCoordinator:
      check_coordinator(command.coordinator);
      break;
    case Command::Kind::kDev:
      check_dev(command.dev);
      break;
    case Command::Kind::kExit:
      require(command.exit_code == 0 || command.exit_code == 2);
      break;
    case Command::Kind::kExport:
    case Command::Kind::kImport:
      break;
  }
  return 0;
}
