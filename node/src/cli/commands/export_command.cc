// ramcloud export: a table as JSON lines or CSV.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ostream>

#include "base/durable_file.h"
#include "cli/commands/scanner.h"
#include "cli/formats/output.h"
#include "cli/formats/record.h"
#include "cli/formats/record_source.h"

namespace ramcloud::cli {
namespace {

struct ExportArguments {
  std::string table;
  std::string file = "-";
  bool sort = false;
  FormatArguments wanted;
  FileFormat format = FileFormat::kJsonLines;  // chosen by choose_format()
  CsvColumns columns;
};

struct Line {
  std::string key, text;
};

/// Writes the objects to `to`; returns their number, or an error.
Result<uint64_t> write_objects(Session& session, const ExportArguments& arguments,
                               uint64_t table_id, std::ostream& to) {
  Progress progress(session.err, session.err_is_terminal, "objects", 0, session.clock);
  std::vector<Line> lines;
  uint64_t count = 0;
  const bool csv = arguments.format == FileFormat::kCsv;
  if (csv) to << format_csv_header(arguments.columns) << '\n';
  Status unfit;
  const Status status = for_each_object(session, table_id, false, [&](const ScannedObject& object) {
    auto formatted = csv ? format_csv_record(arguments.columns, object.key, object.value)
                         : Result<std::string>(format_record(object.key, object.value));
    if (!formatted) {
      unfit = Status(formatted.error().code(),
                     fmt::format("key '{}': {}", printable(object.key.substr(0, 100)),
                                 formatted.error().message()));
      return false;
    }
    std::string text = std::move(*formatted);
    if (arguments.sort) {
      lines.push_back({std::string(object.key), std::move(text)});
    } else {
      to << text << '\n';
    }
    progress.update(0, ++count);
    return to.good();
  });
  if (!status.ok()) return fail(status);
  if (!unfit.ok()) return fail(unfit);
  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.key < b.key; });
  for (const Line& line : lines) to << line.text << '\n';
  to.flush();
  if (!to.good()) return fail(StatusCode::kIoError, "the output cannot be written");
  return count;
}

/// Writes directly into a pipe or a device, which cannot be replaced.
Result<uint64_t> write_in_place(Session& session, const ExportArguments& arguments,
                                uint64_t table_id) {
  std::ofstream file(arguments.file, std::ios::binary);
  if (!file) return fail(StatusCode::kIoError, "'" + arguments.file + "' cannot be opened");
  auto count = write_objects(session, arguments, table_id, file);
  file.close();
  if (!count || file) return count;
  return fail(StatusCode::kIoError, "'" + arguments.file + "' cannot be written");
}

/// Writes into a temporary file beside the target first, so that an incomplete export never looks
/// complete, not even after a power cut. Only a plain file is replaced; for a symbolic link, its
/// target.
Result<uint64_t> write_file(Session& session, ExportArguments arguments, uint64_t table_id) {
  std::error_code error;
  const auto there = std::filesystem::status(arguments.file, error);
  if (std::filesystem::is_regular_file(there)) {
    const auto target = std::filesystem::canonical(arguments.file, error);
    if (!error) arguments.file = target.string();
  } else if (std::filesystem::exists(there)) {
    return write_in_place(session, arguments, table_id);
  }
  const std::string part = arguments.file + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  if (!file) return fail(StatusCode::kIoError, "'" + part + "' cannot be created");
  auto count = write_objects(session, arguments, table_id, file);
  file.close();
  if (count && file) {
    Status replaced = replace_file_by(arguments.file, part);
    if (!replaced.ok()) return fail(std::move(replaced));
    return count;
  }
  std::remove(part.c_str());
  if (!count) return count;
  return fail(StatusCode::kIoError, "'" + part + "' cannot be written");
}

int export_table(Session& session, ExportArguments arguments) {
  auto chosen = choose_format(session, arguments.wanted, arguments.file);
  if (!chosen) return session.usage_error(chosen.error().message());
  arguments.format = chosen->format;
  arguments.columns = std::move(chosen->columns);
  auto table = open_table(session, arguments.table);
  if (!table) return session.report(table.error());
  auto count = arguments.file == "-"
                   ? write_objects(session, arguments, table->table_id, session.out)
                   : write_file(session, arguments, table->table_id);
  if (!count) return session.report(count.error(), "table '" + arguments.table + "'");
  session.err << fmt::format("exported {} objects\n", *count);
  return kExitOk;
}

}  // namespace

void add_export_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand("export", "Write all objects of a table to a file");
  command->add_option("TABLE", arguments->table, "The table")->required();
  command->add_option("FILE", arguments->file, "File to write; - is standard output")
      ->capture_default_str();
  add_format_options(*command, arguments->wanted);
  command->add_flag("--sort", arguments->sort,
                    "Sort by key bytes; keeps the whole table in memory");
  command->footer(
      "The lines are what `ramcloud import` reads: key and value if the bytes are UTF-8 text,\n"
      "otherwise key_b64 and value_b64. With --format csv they are two columns under a header "
      "line;\n"
      "bytes that are not text need a column whose name ends in _b64, which is base64. Without\n"
      "--sort the order is arbitrary.\n\n"
      "Examples:\n"
      "  ramcloud export users users.jsonl\n"
      "  ramcloud export users users.csv --value-column value_b64\n"
      "  ramcloud export users --sort | sha256sum\n");
  needs_cluster(*command, session,
                [&session, arguments] { return export_table(session, *arguments); });
}

}  // namespace ramcloud::cli
