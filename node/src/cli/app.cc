// The command line as a whole: global options, groups of commands, and the way from arguments to an
// exit code.
#include <CLI/CLI.hpp>
#include <map>
#include <ostream>
#include <utility>

#include "base/text.h"
#include "cli/session.h"
#include "cli/usage.h"

#ifndef RAMCLOUD_VERSION
#define RAMCLOUD_VERSION "dev"
#endif

namespace ramcloud::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  export RAMCLOUD_CLUSTER=127.0.0.1:11100
  ramcloud status
  ramcloud table create users --span 3
  ramcloud put users alice '{"age": 41}'
  ramcloud get users alice
  ramcloud import users users.jsonl
  ramcloud export users --sort | sha256sum
  ramcloud bench write --size 100 --duration 10s

Data goes to standard output, everything else to standard error.
)";

std::string check_timeout(const std::string& text) {
  if (text == "0") return {};
  auto parsed = parse_duration(text);
  return parsed ? std::string() : parsed.error().message();
}

void add_global_options(CLI::App& app, Session& session) {
  app.set_version_flag("--version", std::string("ramcloud ") + RAMCLOUD_VERSION,
                       "Print the version and exit");
  app.add_option("--cluster", session.cluster, "The coordinators' addresses")
      ->envname("RAMCLOUD_CLUSTER")
      ->type_name("HOST:PORT[,...]")
      ->take_last();
  app.add_option("--timeout", session.timeout,
                 "How long each operation may take, retries included; 0 waits for ever")
      ->capture_default_str()
      ->type_name("DURATION")
      ->take_last()
      ->check(CLI::Validator(check_timeout, ""));
  static const std::map<std::string, OutputFormat> kFormats = {{"table", OutputFormat::kTable},
                                                               {"json", OutputFormat::kJson}};
  app.add_option_function<std::string>(
         "-o,--output", [&session](const std::string& name) { session.format = kFormats.at(name); },
         "How results are printed: table or json")
      ->type_name("FORMAT")
      ->default_str("table")
      ->take_last()
      ->check(CLI::IsMember({"table", "json"}));
}

}  // namespace

int run_cli(int argc, const char* const* argv, Session& session) {
  CLI::App app("The command line of a RAMCloud cluster", "ramcloud");
  app.footer(exit_codes_help() + "\n" + kExamples);
  app.require_subcommand(0, 1);
  app.failure_message(usage_failure);
  app.fallthrough();  // inherited: global options may follow the command
  add_global_options(app, session);
  add_table_commands(app, session);
  add_object_commands(app, session);
  add_scan_command(app, session);
  add_import_command(app, session);
  add_export_command(app, session);
  add_status_commands(app, session);
  add_metadata_command(app, session);
  add_replica_commands(app, session);
  add_recovery_command(app, session);
  add_bench_command(app, session);
  add_top_command(app, session);
  add_trace_command(app, session);
  add_log_level_command(app, session);
  add_completion_command(app, session);
  add_shell_command(app, session);

  try {
    app.parse(argc, const_cast<char**>(argv));
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, session.out, session.err);
    return code == 0 ? kExitOk : kExitUsage;  // 0: --help and --version
  }
  // A shell's action calls this again for each of its commands.
  const auto action = std::exchange(session.action, nullptr);
  if (!action) return session.usage_error(missing_command(app));
  const int code = action();
  session.out.flush();
  if (code == kExitOk && !session.out) {
    return session.report({StatusCode::kIoError, "standard output cannot be written"});
  }
  return code;
}

}  // namespace ramcloud::cli
