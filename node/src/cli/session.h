// The state that all commands share: the global options, the streams, and the client.
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
  bool in_is_script = false;  // a shell reads its commands from `in`
  bool out_is_terminal = false;
  bool err_is_terminal = false;

  std::string cluster;          // --cluster or RAMCLOUD_CLUSTER
  std::string timeout = "30s";  // --timeout
  OutputFormat format = OutputFormat::kTable;
  SystemClock clock;

  /// Set by the chosen command; run after all options were checked.
  std::function<int()> action;

  bool json() const { return format == OutputFormat::kJson; }
  Duration timeout_duration() const;
  /// Connects on first use, and again when the global options change (in a shell). Precondition:
  /// the options were checked.
  BlockingClient& client();
  ClientCore& core() { return client().core(); }

  /// Call it before a command reads `in` to its end. INVALID_ARGUMENT: a script is being read from
  /// it. At a terminal it clears an earlier end of input.
  [[nodiscard]] Status take_input();
  /// Call it after that: OK if everything was read, otherwise IO_ERROR.
  [[nodiscard]] Status input_status() const;
  int report_input(const Status& status);

  /// Prints the error to `err`, after the context, and returns its exit code.
  int report(const Status& status, std::string_view context = {});
  int usage_error(std::string_view message);

 private:
  std::unique_ptr<BlockingClient> client_;
  std::string client_of_;  // --cluster and --timeout of the present client
};

/// A command that needs the cluster: checks --cluster and --timeout, then runs `action`.
void needs_cluster(CLI::App& command, Session& session, std::function<int()> action);
/// A command that does not need the cluster.
void runs(CLI::App& command, Session& session, std::function<int()> action);

// One function for each file of commands.
void add_table_commands(CLI::App& app, Session& session);
void add_object_commands(CLI::App& app, Session& session);
void add_scan_command(CLI::App& app, Session& session);
void add_import_command(CLI::App& app, Session& session);
void add_export_command(CLI::App& app, Session& session);
void add_status_commands(CLI::App& app, Session& session);
void add_metadata_command(CLI::App& app, Session& session);
void add_replica_commands(CLI::App& app, Session& session);
void add_recovery_command(CLI::App& app, Session& session);
/// Adds commands to the group `recovery`.
void add_accept_loss_commands(CLI::App& group, Session& session);
void add_bench_command(CLI::App& app, Session& session);
void add_top_command(CLI::App& app, Session& session);
void add_trace_command(CLI::App& app, Session& session);
void add_log_level_command(CLI::App& app, Session& session);
void add_completion_command(CLI::App& app, Session& session);
void add_shell_command(CLI::App& app, Session& session);

/// Parses the arguments (argv[0] is the program), runs the command, and returns the exit code.
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
/// Chooses the format from the arguments and the file's name; prints to `err` what it took from the
/// name. INVALID_ARGUMENT: a column is named, but the format has none.
Result<ChosenFormat> choose_format(Session& session, const FormatArguments& arguments,
                                   const std::string& file);

/// The table's id; NOT_FOUND names it.
Result<wire::TableInfo> open_table(Session& session, const std::string& name);

}  // namespace ramcloud::cli
