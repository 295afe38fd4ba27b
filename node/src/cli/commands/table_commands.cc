// ramcloud table create|list|show|drop
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "base/text.h"
#include "cli/commands/table_view.h"
#include "cli/formats/output.h"
#include "cli/session.h"

namespace ramcloud::cli {
namespace {

struct TableArguments {
  std::string name;
  uint32_t span = 1;
};

int create(Session& session, const TableArguments& arguments) {
  auto table = session.client().run(session.core().create_table(arguments.name, arguments.span));
  if (!table) return session.report(table.error());
  print_tables(session, {*table});
  return kExitOk;
}

int list(Session& session) {
  auto tables = session.client().run(session.core().list_tables());
  if (!tables) return session.report(tables.error());
  print_tables(session, *tables);
  return kExitOk;
}

int show(Session& session, const TableArguments& arguments) {
  auto table = open_table(session, arguments.name);
  if (!table) return session.report(table.error());
  if (session.json()) {
    session.out << table_json(*table) << '\n';
  } else {
    print_tablets(session, {*table});
  }
  return kExitOk;
}

int drop(Session& session, const TableArguments& arguments) {
  const Status status = session.client().run(session.core().drop_table(arguments.name));
  if (!status.ok()) return session.report(status, "table '" + arguments.name + "'");
  return kExitOk;
}

}  // namespace

void add_table_commands(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<TableArguments>();
  CLI::App* group = app.add_subcommand("table", "Create, list, show and drop tables");
  group->require_subcommand(0, 1);

  CLI::App* command = group->add_subcommand(
      "create", "Create a table; changes nothing if it exists with the same span");
  command->add_option("NAME", arguments->name, "The table's name, 1 to 255 bytes")->required();
  command->add_option("--span", arguments->span, "Number of tablets, each on a different server")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1'000'000u));
  needs_cluster(*command, session, [&session, arguments] { return create(session, *arguments); });

  command = group->add_subcommand("list", "List all tables");
  needs_cluster(*command, session, [&session] { return list(session); });

  command = group->add_subcommand("show", "Show one table and where its tablets are");
  command->add_option("NAME", arguments->name, "The table")->required();
  needs_cluster(*command, session, [&session, arguments] { return show(session, *arguments); });

  command = group->add_subcommand("drop", "Drop a table with all its objects, at once");
  command->add_option("NAME", arguments->name, "The table")->required();
  needs_cluster(*command, session, [&session, arguments] { return drop(session, *arguments); });
}

}  // namespace ramcloud::cli
