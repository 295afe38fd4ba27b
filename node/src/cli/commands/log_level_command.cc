// ramcloud log-level: shows or changes the log level of running daemons.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/logging.h"
#include "cli/daemons.h"
#include "cli/formats/output.h"

namespace ramcloud::cli {
namespace {

struct LogLevelArguments {
  std::string level;   // empty: only show
  std::string server;  // empty: all
  std::string at;      // an HTTP address instead of servers by name
};

std::string without_line_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::string> ask_level(Session& session, const LogLevelArguments& arguments,
                              const std::string& address) {
  const Duration timeout = session.timeout_duration();
  auto level = arguments.level.empty() ? http_get(address, "/log-level", timeout)
                                       : http_put(address, "/log-level", arguments.level, timeout);
  if (!level) return level;
  return without_line_end(std::move(*level));
}

int log_level(Session& session, const LogLevelArguments& arguments) {
  std::vector<std::pair<std::string, std::string>> daemons;  // name and address
  if (!arguments.at.empty()) {
    daemons.emplace_back(arguments.at, arguments.at);
  } else {
    auto servers = live_servers(session, arguments.server);
    if (!servers) return session.report(servers.error());
    for (const ServerView& server : *servers)
      daemons.emplace_back(server.name, server.http_address);
  }
  std::vector<std::vector<std::string>> rows;
  auto json = nlohmann::ordered_json::array();
  int code = kExitOk;
  for (const auto& [name, address] : daemons) {
    auto level = ask_level(session, arguments, address);
    if (!level) {
      code = session.report(level.error(), name);
      continue;
    }
    rows.push_back({printable(name), *level});
    json.push_back({{"daemon", name}, {"level", *level}});
  }
  if (session.json()) {
    session.out << json.dump() << '\n';
  } else if (!rows.empty()) {
    print_table(session.out, {"DAEMON", "LEVEL"}, rows);
  }
  return code;
}

std::string check_level(const std::string& text) {
  const auto level = parse_log_level(text);
  return level ? std::string() : level.error().message();
}

}  // namespace

void add_log_level_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<LogLevelArguments>();
  CLI::App* command =
      app.add_subcommand("log-level", "Show or change what running daemons write to their logs");
  command->add_option("LEVEL", arguments->level, "debug, info, warn or error; without it, show")
      ->check(CLI::Validator(check_level, ""));
  CLI::Option* server = command->add_option("--server", arguments->server,
                                            "Only the server of this name (default: every server)");
  command
      ->add_option("--at", arguments->at,
                   "The daemon with this HTTP address, for example a coordinator")
      ->type_name("HOST:PORT")
      ->excludes(server);
  command->footer(
      "A change lasts until the daemon ends. A daemon starts with its flag --log-level.");
  needs_cluster(*command, session,
                [&session, arguments] { return log_level(session, *arguments); });
}

}  // namespace ramcloud::cli
