#include "cli/session.h"

#include <CLI/CLI.hpp>
#include <istream>
#include <ostream>
#include <tuple>

#include "base/text.h"

namespace ramcloud::cli {

Duration Session::timeout_duration() const {
  if (timeout == "0") return Duration::zero();  // for ever
  return parse_duration(timeout).value_or(30s);
}

BlockingClient& Session::client() {
  const std::string wanted = cluster + " " + timeout;
  if (!client_ || client_of_ != wanted) {
    client_of_ = wanted;
    client_.reset();
    client_ = std::make_unique<BlockingClient>(BlockingClient::Options{
        .coordinators = parse_cluster(cluster).value(),
        .timeout = timeout_duration(),
        .poll_for = 50us,
    });
  }
  return *client_;
}

Status Session::take_input() {
  if (in_is_script) {
    return {StatusCode::kInvalidArgument,
            "'-' is standard input, from which the script is read; accepted here is a word or a "
            "file"};
  }
  if (in_is_terminal) in.clear();
  return input_status();
}

Status Session::input_status() const {
  if (!in.bad()) return {};
  return {StatusCode::kIoError, "standard input cannot be read"};
}

int Session::report_input(const Status& status) {
  if (status == StatusCode::kInvalidArgument) return usage_error(status.message());
  return report(status);
}

int Session::report(const Status& status, std::string_view context) {
  out.flush();
  err << "ramcloud: ";
  // Not if the message contains the context already.
  if (!context.empty() && !status.message().contains(context)) err << context << ": ";
  err << status.to_string() << '\n';
  return exit_code_of(status.code());
}

int Session::usage_error(std::string_view message) {
  err << "ramcloud: " << message << "\nRun 'ramcloud --help' for what is accepted.\n";
  return kExitUsage;
}

void runs(CLI::App& command, Session& session, std::function<int()> action) {
  command.callback([&session, action = std::move(action)] { session.action = action; });
}

void needs_cluster(CLI::App& command, Session& session, std::function<int()> action) {
  runs(command, session, [&session, action = std::move(action)] {
    if (session.cluster.empty()) {
      return session.usage_error(
          "--cluster is not given; accepted is HOST:PORT[,HOST:PORT...] here or in "
          "RAMCLOUD_CLUSTER");
    }
    if (auto parsed = parse_cluster(session.cluster); !parsed) {
      return session.usage_error("--cluster: " + parsed.error().message());
    }
    return action();
  });
}

void add_format_options(CLI::App& command, FormatArguments& arguments) {
  command
      .add_option("--format", arguments.format,
                  "Format of the file: jsonl (JSON lines) or csv (RFC 4180). Default: csv if its "
                  "name ends in .csv or .CSV, otherwise jsonl")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"jsonl", "csv"}));
  command.add_option("--key-column", arguments.key_column, "With csv: the column of the keys")
      ->default_str("key")
      ->type_name("NAME");
  command
      .add_option("--value-column", arguments.value_column, "With csv: the column of the values")
      ->default_str("value")
      ->type_name("NAME");
}

Result<ChosenFormat> choose_format(Session& session, const FormatArguments& arguments,
                                   const std::string& file) {
  ChosenFormat chosen;
  std::string format = arguments.format;
  if (format.empty() && (file.ends_with(".csv") || file.ends_with(".CSV"))) {
    format = "csv";
    session.err << "format: csv, by the ending of '" << file << "' (--format jsonl otherwise)\n";
  }
  if (format == "csv") chosen.format = FileFormat::kCsv;
  for (const auto& [option, name, column] :
       {std::tuple("--key-column", &arguments.key_column, &chosen.columns.key),
        std::tuple("--value-column", &arguments.value_column, &chosen.columns.value)}) {
    if (name->empty()) continue;
    if (chosen.format != FileFormat::kCsv) {
      return fail(StatusCode::kInvalidArgument,
                  std::string(option) + ": JSON lines have no columns; accepted with --format csv");
    }
    *column = *name;
  }
  return chosen;
}

Result<wire::TableInfo> open_table(Session& session, const std::string& name) {
  auto table = session.client().run(session.core().open_table(name));
  if (!table && table.error() == StatusCode::kNotFound) {
    return fail(StatusCode::kNotFound, "table '" + name + "' does not exist");
  }
  return table;
}

}  // namespace ramcloud::cli
