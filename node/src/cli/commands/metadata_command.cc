// ramcloud metadata upgrade: by the coordinator's admin API.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/daemons.h"
#include "cli/exit_codes.h"
#include "cli/session.h"

namespace ramcloud::cli {
namespace {

int upgrade(Session& session, bool yes) {
  if (!yes) {
    return session.report({StatusCode::kInvalidArgument,
                           "there is no way back: coordinators of earlier versions cannot lead "
                           "afterwards; accepted is the same command with --yes"});
  }
  const auto format =
      ask_admin(session, [](AdminClient& admin) { return admin.upgrade_metadata(); });
  if (!format) return session.report(format.error());
  if (session.json()) {
    session.out << nlohmann::ordered_json{{"format", *format}}.dump() << '\n';
  } else {
    session.out << fmt::format("the metadata is written in format {}\n", *format);
  }
  return kExitOk;
}

}  // namespace

void add_metadata_command(CLI::App& app, Session& session) {
  CLI::App* metadata =
      app.add_subcommand("metadata", "Upgrade the format of the coordinators' metadata");
  metadata->require_subcommand(0, 1);
  auto yes = std::make_shared<bool>(false);
  CLI::App* command = metadata->add_subcommand(
      "upgrade",
      "Write the metadata in the newest format. All coordinators must run this version before");
  command->add_flag("--yes", *yes, "Do it. It cannot be undone");
  needs_cluster(*command, session, [&session, yes] { return upgrade(session, *yes); });
}

}  // namespace ramcloud::cli
