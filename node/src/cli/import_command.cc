// ramcloud import: JSON lines into a table, many writes outstanding.
#include <fmt/core.h>
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include <fstream>
#include <map>
#include <ostream>

#include "base/text.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/record.h"
#include "cli/session.h"
#include "runtime/when_all.h"

namespace ramcloud::cli {
namespace {

/// A whole key and value, every byte escaped as \u00NN, and the field names.
constexpr size_t kMaxLineBytes = 6 * (size_t{wire::kMaxKeyBytes} + wire::kMaxValueBytes) + 64;

struct ImportArguments {
  std::string table, file;
  uint32_t outstanding = 64;
  bool create = false;
  uint32_t span = 1;
};

/// The state that the concurrent writers of one import share.
class Importer {
 public:
  Importer(Session& session, uint64_t table_id, std::istream& in, Progress& progress)
      : core_(session.core()),
        table_id_(table_id),
        lines_(in, kMaxLineBytes),
        progress_(progress),
        key_released_(core_.reactor()) {}

  Task<Status> run(uint32_t outstanding) {
    std::vector<Task<void>> writers;
    for (uint32_t i = 0; i < outstanding; ++i) writers.push_back(write_lines());
    co_await when_all(std::move(writers));
    co_return failure_;
  }

  uint64_t imported() const { return imported_; }
  uint64_t failed_line() const { return failed_line_; }
  bool input_is_bad() const { return input_is_bad_; }

 private:
  Task<void> write_lines() {
    std::string_view line;
    while (failure_.ok()) {
      auto more = lines_.next(line);
      const uint64_t number = lines_.line_number();
      if (!more) co_return fail_at(number, std::move(more.error()), true);
      if (!*more) co_return;
      auto record = parse_record(line);
      if (!record) co_return fail_at(number, std::move(record.error()), true);
      co_await write_one(number, std::move(*record));
    }
  }

  Task<void> write_one(uint64_t number, Record record) {
    // Of two lines with one key the later must win: writes of one key go one after the other.
    const auto queue = queues_.try_emplace(record.key).first;
    const uint64_t turn = queue->second.last++;
    while (queue->second.serving != turn) {
      key_released_.reset();
      co_await key_released_;
    }
    Result<uint64_t> version = 0;
    const bool wanted = failure_.ok();
    if (wanted) version = co_await core_.write(table_id_, record.key, record.value);
    if (++queue->second.serving == queue->second.last) queues_.erase(queue);
    key_released_.set();
    if (!wanted) co_return;
    if (!version) {
      co_return fail_at(number,
                        Status(version.error().code(),
                               fmt::format("key '{}': {}", printable(record.key.substr(0, 100)),
                                           version.error().message())),
                        false);
    }
    ++imported_;
    progress_.update(lines_.bytes_read(), imported_);
  }

  void fail_at(uint64_t number, Status status, bool input_is_bad) {
    if (!failure_.ok()) return;  // the first one is told
    failure_ = std::move(status);
    failed_line_ = number;
    input_is_bad_ = input_is_bad && failure_ == StatusCode::kInvalidArgument;
  }

  ClientCore& core_;
  uint64_t table_id_;
  LineReader lines_;
  Progress& progress_;
  struct KeyQueue {
    uint64_t serving = 0, last = 0;  // turns
  };
  std::map<std::string, KeyQueue> queues_;  // of the keys that are being written
  Event key_released_;
  uint64_t imported_ = 0;
  Status failure_;
  uint64_t failed_line_ = 0;
  bool input_is_bad_ = false;
};

Result<wire::TableInfo> target_table(Session& session, const ImportArguments& arguments) {
  if (!arguments.create) return open_table(session, arguments.table);
  return session.client().run(session.core().create_table(arguments.table, arguments.span));
}

uint64_t size_of(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)
             ? static_cast<uint64_t>(info.st_size)
             : 0;
}

int import_lines(Session& session, const ImportArguments& arguments) {
  std::ifstream file;
  const bool from_stdin = arguments.file == "-";
  if (!from_stdin) {
    file.open(arguments.file, std::ios::binary);
    if (!file) {
      return session.usage_error("FILE: '" + arguments.file +
                                 "' cannot be opened; accepted is a readable file or -");
    }
  }
  auto table = target_table(session, arguments);
  if (!table) return session.report(table.error());

  const Time started = session.clock.now();
  Progress progress(session.err, session.err_is_terminal, "objects",
                    from_stdin ? 0 : size_of(arguments.file), session.clock);
  Importer importer(session, table->table_id, from_stdin ? session.in : file, progress);
  const Status status = session.client().run(importer.run(arguments.outstanding));
  progress.finish();

  const double seconds = std::chrono::duration<double>(session.clock.now() - started).count();
  if (!status.ok()) {
    const int code = session.report(
        status, fmt::format("{}, line {}", from_stdin ? "standard input" : arguments.file,
                            importer.failed_line()));
    session.err << fmt::format("ramcloud: {} objects were imported before that\n",
                               importer.imported());
    return importer.input_is_bad() ? int{kExitUsage} : code;
  }
  if (session.json()) {
    session.out << fmt::format("{{\"imported\":{},\"seconds\":{:.3f}}}\n", importer.imported(),
                               seconds);
  } else {
    session.out << fmt::format("imported {} objects in {:.1f} s\n", importer.imported(), seconds);
  }
  return kExitOk;
}

}  // namespace

void add_import_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand("import", "Write the objects of a file into a table");
  command->add_option("TABLE", arguments->table, "The table")->required();
  command->add_option("FILE", arguments->file, "JSON lines, or - for standard input")->required();
  command->add_option("--outstanding", arguments->outstanding, "Writes under way at a time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 4096u));
  CLI::Option* create =
      command->add_flag("--create", arguments->create, "Create the table if there is none");
  command->add_option("--span", arguments->span, "With --create: into how many tablets")
      ->capture_default_str()
      ->needs(create)
      ->check(CLI::Range(1u, 1'000'000u));
  command->footer(
      "Each line is {\"key\":\"...\",\"value\":\"...\"}; key_b64 and value_b64 hold bytes that are "
      "not\n"
      "text, as base64. Of two lines with one key the later wins. The import stops at the first\n"
      "error, naming the line; running it again does no harm.\n\n"
      "Examples:\n"
      "  ramcloud import users users.jsonl --create --span 3\n"
      "  zcat users.jsonl.gz | ramcloud import users -\n");
  needs_cluster(*command, session,
                [&session, arguments] { return import_lines(session, *arguments); });
}

}  // namespace ramcloud::cli
