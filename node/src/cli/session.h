// What all commands share: the global options, where to write, and the client.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "cli/exit_codes.h"
#include "cli/formats/record_source.h"
#include "client/blocking_client.h"

namespace CLI {
class App;
}

namespace ramcloud::cli {

enum class OutputFormat : uint8_t { kTable, kJson };

struct Session {
  Session(std::istream& input, std::ostream& output, std::ostream& errors)
      : in(input), out(output), err(errors) {}

  std::istream& in;
  std::ostream& out;  // data only
  std::ostream& err;  // everything else
  bool in_is_terminal = false;
  bool in_is_script = false;  // a shell reads its commands from it
  bool out_is_terminal = false;
  bool err_is_terminal = false;

  std::string cluster;          // --cluster or RAMCLOUD_CLUSTER
  std::string timeout = "30s";  // --timeout
  OutputFormat format = OutputFormat::kTable;
  SystemClock clock;

  /// Set by the command that was chosen; run after all options are known to be good.
  std::function<int()> action;

  bool json() const { return format == OutputFormat::kJson; }
  Duration timeout_duration() const;
  /// Connects on first use, and again when the global options are others (in a shell). Only after
  /// the options were checked (main.cc does).
  BlockingClient& client();
  ClientCore& core() { return client().core(); }

  /// Before a command reads `in` to its end. INVALID_ARGUMENT: a script is being read from it. At a
  /// terminal the end that was typed last time is forgotten.
  [[nodiscard]] Status take_input();
  /// Behind it: what was read is all of it, or IO_ERROR.
  [[nodiscard]] Status input_status() const;
  int report_input(const Status& status);

  /// Says on err what went wrong, with the context in front, and gives the exit code for it.
  int report(const Status& status, std::string_view context = {});
  int usage_error(std::string_view message);

 private:
  std::unique_ptr<BlockingClient> client_;
  std::string client_of_;  // --cluster and --timeout that it was made with
};

/// A command that needs the cluster: checks --cluster and --timeout, then runs `action`.
void needs_cluster(CLI::App& command, Session& session, std::function<int()> action);
/// A command that does not need the cluster.
void runs(CLI::App& command, Session& session, std::function<int()> action);

// One function a file of commands.
void add_table_commands(CLI::App& app, Session& session);
void add_object_commands(CLI::App& app, Session& session);
void add_scan_command(CLI::App& app, Session& session);
void add_import_command(CLI::App& app, Session& session);
void add_export_command(CLI::App& app, Session& session);
void add_status_commands(CLI::App& app, Session& session);
void add_metadata_command(CLI::App& app, Session& session);
void add_replica_commands(CLI::App& app, Session& session);
void add_recovery_command(CLI::App& app, Session& session);
/// Of the group `recovery`.
void add_accept_loss_commands(CLI::App& group, Session& session);
void add_bench_command(CLI::App& app, Session& session);
void add_top_command(CLI::App& app, Session& session);
void add_trace_command(CLI::App& app, Session& session);
void add_log_level_command(CLI::App& app, Session& session);
void add_completion_command(CLI::App& app, Session& session);
void add_shell_command(CLI::App& app, Session& session);

/// Parses the arguments (argv[0] is the program) and runs the command: what main() returns.
int run_cli(int argc, const char* const* argv, Session& session);

/// --format, --key-column and --value-column of import and export; empty: not given.
struct FormatArguments {
  std::string format, key_column, value_column;
};
void add_format_options(CLI::App& command, FormatArguments& arguments);

struct ChosenFormat {
  FileFormat format = FileFormat::kJsonLines;
  CsvColumns columns;
};
/// What they say together with the file's name. Says on err what was taken from the name.
/// INVALID_ARGUMENT: a column is named, and there are none.
Result<ChosenFormat> choose_format(Session& session, const FormatArguments& arguments,
                                   const std::string& file);

/// The table's id; NOT_FOUND names it.
Result<wire::TableInfo> open_table(Session& session, const std::string& name);

}  // namespace ramcloud::cli
