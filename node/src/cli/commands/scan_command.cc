// ramcloud scan: all objects of a table, for people and small scripts (export is for programs).
#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <ostream>

#include "cli/commands/scanner.h"
#include "cli/formats/output.h"
#include "cli/formats/record.h"
#include "cli/usage.h"

namespace ramcloud::cli {

Status for_each_object(Session& session, uint64_t table_id, bool keys_only,
                       const std::function<bool(const ScannedObject&)>& visit) {
  ClientCore::ScanPosition position;
  while (!position.done) {
    auto page = session.client().run(session.core().scan_page(table_id, position, keys_only));
    if (!page) return page.error();
    while (const auto object = page->next()) {
      if (!visit(*object)) return {};
    }
  }
  return {};
}

namespace {

struct ScanArguments {
  std::string table;
  bool keys_only = false, count = false;
  uint64_t limit = 0;
};

std::string line_of(const Session& session, const ScanArguments& arguments,
                    const ScannedObject& object) {
  if (session.json()) {
    return format_record(
        object.key, object.value,
        {.version = object.version, .table_id = {}, .with_value = !arguments.keys_only});
  }
  if (arguments.keys_only) return printable(object.key);
  return printable(object.key) + '\t' + printable(object.value);
}

int scan(Session& session, const ScanArguments& arguments) {
  auto table = open_table(session, arguments.table);
  if (!table) return session.report(table.error());
  uint64_t seen = 0;
  const Status status =
      for_each_object(session, table->table_id, arguments.keys_only || arguments.count,
                      [&](const ScannedObject& object) {
                        ++seen;
                        if (!arguments.count)
                          session.out << line_of(session, arguments, object) << '\n';
                        return seen != arguments.limit && session.out.good();
                      });
  if (!status.ok()) return session.report(status, "table '" + arguments.table + "'");
  if (arguments.count) {
    session.out << (session.json() ? fmt::format("{{\"count\":{}}}\n", seen)
                                   : fmt::format("{}\n", seen));
  }
  return kExitOk;
}

}  // namespace

void add_scan_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ScanArguments>();
  CLI::App* command =
      app.add_subcommand("scan", "Print all objects of a table, in no particular order");
  command->add_option("TABLE", arguments->table, "The table")->required();
  command->add_flag("--keys-only", arguments->keys_only, "Print only the keys");
  command->add_flag("--count", arguments->count, "Print only the number of objects");
  command->add_option("--limit", arguments->limit, "Stop after this many objects")
      ->check(positive());
  command->footer(
      "Prints one line KEY<tab>VALUE for each object, with unprintable bytes as \\xNN; with -o "
      "json\n"
      "one JSON object on each line, with its version.\n\n"
      "Examples:\n"
      "  ramcloud scan users --count\n"
      "  ramcloud scan users --keys-only --limit 10\n");
  needs_cluster(*command, session, [&session, arguments] { return scan(session, *arguments); });
}

}  // namespace ramcloud::cli
