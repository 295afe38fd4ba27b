// ramcloud import: imports a file into a table, with many writes outstanding.
#include <fmt/core.h>
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include <fstream>
#include <map>
#include <optional>
#include <ostream>

#include "base/text.h"
#include "cli/commands/import_state.h"
#include "cli/formats/output.h"
#include "cli/formats/record.h"
#include "cli/formats/record_source.h"
#include "cli/session.h"
#include "runtime/when_all.h"

namespace ramcloud::cli {
namespace {

/// How often the state of an import is written: a killed import repeats at most this much.
constexpr Duration kSaveEvery = 500ms;

struct ImportArguments {
  std::string table, file;
  FormatArguments wanted;
  FileFormat format = FileFormat::kJsonLines;  // chosen by choose_format()
  CsvColumns columns;
  std::string resume;  // the state's file; empty: none
  uint32_t outstanding = 64;
  bool create = false;
  uint32_t span = 1;
};

/// The state that the concurrent writers of one import share.
class Importer {
 public:
  Importer(Session& session, uint64_t table_id, RecordSource& source, Progress& progress)
      : core_(session.core()),
        clock_(session.clock),
        table_id_(table_id),
        source_(source),
        acked_(source.position()),
        progress_(progress),
        key_released_(core_.reactor()) {}

  /// Keeps the state's file up to date; `state` has the progress of earlier runs.
  void keep(const std::string& path, ImportState& state) {
    state_path_ = path;
    state_ = &state;
    imported_before_ = state.imported;
  }

  Task<Status> run(uint32_t outstanding) {
    std::vector<Task<void>> writers;
    for (uint32_t i = 0; i < outstanding; ++i) writers.push_back(write_lines());
    co_await when_all(std::move(writers));
    if (state_ != nullptr) {
      state_->whole = failure_.ok();
      if (Status saved = save(); failure_.ok()) co_return saved;
    }
    co_return failure_;
  }

  uint64_t imported() const { return imported_; }
  uint64_t failed_line() const { return failed_line_; }
  bool input_is_bad() const { return input_is_bad_; }

 private:
  Task<void> write_lines() {
    Record record;
    while (failure_.ok()) {
      auto more = source_.next(record);
      const uint64_t number = source_.line();
      if (!more) co_return fail_at(number, std::move(more.error()), true);
      if (!*more) co_return;
      const uint64_t ticket = acked_.started(source_.position());
      co_await write_one(number, ticket, std::move(record));
    }
  }

  Status save() {
    state_->acked = acked_.acked();
    state_->imported = imported_before_ + acked_.records();
    auto prefix = prefix_hash(state_->identity.file, state_->acked.bytes);
    if (!prefix) return std::move(prefix.error());
    state_->prefix_hash = *prefix;
    saved_ = clock_.now();
    return save_state(state_path_, *state_);
  }

  Task<void> write_one(uint64_t number, uint64_t ticket, Record record) {
    // If two lines have the same key the later one must win, so writes of one key are not
    // concurrent.
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
    acked_.done(ticket);
    progress_.update(source_.position().bytes, imported_);
    if (state_ == nullptr || clock_.now() - saved_ < kSaveEvery) co_return;
    if (Status saved = save(); !saved.ok()) fail_at(number, std::move(saved), false);
  }

  void fail_at(uint64_t number, Status status, bool input_is_bad) {
    if (!failure_.ok()) return;  // only the first failure is reported
    failure_ = std::move(status);
    failed_line_ = number;
    input_is_bad_ = input_is_bad && failure_ == StatusCode::kInvalidArgument;
  }

  ClientCore& core_;
  const Clock& clock_;
  uint64_t table_id_;
  RecordSource& source_;
  AckedPrefix acked_;
  std::string state_path_;
  ImportState* state_ = nullptr;  // null: not kept
  uint64_t imported_before_ = 0;
  Time saved_{};
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

std::string format_name(const ImportArguments& arguments) {
  if (arguments.format == FileFormat::kJsonLines) return "jsonl";
  return "csv " + printable(format_csv_header(arguments.columns));  // JSON takes UTF-8 only
}

/// With --resume: the state of an earlier run, or a new one.
Result<ImportState> begin_state(Session& session, const ImportArguments& arguments,
                                const wire::TableInfo& table) {
  ImportState state;
  Status done = identify_file(arguments.file, state.identity);
  if (!done.ok()) return fail(std::move(done));
  auto cluster = session.client().run(session.core().cluster_info());
  if (!cluster) return fail(std::move(cluster.error()));
  state.identity.cluster = format_uuid(cluster->cluster_uuid);
  state.identity.table = arguments.table;
  state.identity.table_id = table.table_id;
  state.identity.format = format_name(arguments);
  auto earlier = load_state(arguments.resume);
  if (!earlier) return fail(std::move(earlier.error()));
  if (*earlier) {
    done = check_same_import(**earlier, state.identity);
    if (!done.ok()) return fail(std::move(done));
    (*earlier)->identity.file = state.identity.file;  // the path may have changed
    return std::move(**earlier);
  }
  // Write the state first, to be sure that it is writable.
  auto prefix = prefix_hash(arguments.file, 0);
  if (!prefix) return fail(std::move(prefix.error()));
  state.prefix_hash = *prefix;
  done = save_state(arguments.resume, state);
  if (!done.ok()) return fail(std::move(done));
  return state;
}

int print_imported(Session& session, uint64_t imported, uint64_t before, Duration took) {
  const double seconds = std::chrono::duration<double>(took).count();
  if (session.json()) {
    session.out << fmt::format("{{\"imported\":{},", imported);
    if (before > 0) session.out << fmt::format("\"imported_before\":{},", before);
    session.out << fmt::format("\"seconds\":{:.3f}}}\n", seconds);
  } else {
    session.out << fmt::format("imported {} objects in {:.1f} s", imported, seconds);
    if (before > 0) session.out << fmt::format(", after {} of earlier runs", before);
    session.out << '\n';
  }
  return kExitOk;
}

int import_from(Session& session, const ImportArguments& arguments, std::istream& in) {
  const bool from_stdin = arguments.file == "-";
  const std::string name = from_stdin ? "standard input" : arguments.file;
  auto source = make_record_source(arguments.format, arguments.columns, in);
  if (const Status begun = source->begin(); !begun.ok()) {
    session.report(begun, name + ", line 1");
    return kExitUsage;
  }
  auto table = target_table(session, arguments);
  if (!table) return session.report(table.error());
  std::optional<ImportState> state;
  if (!arguments.resume.empty()) {
    auto begun = begin_state(session, arguments, *table);
    if (!begun) {
      const int code = session.report(begun.error(), "--resume " + arguments.resume);
      return begun.error() == StatusCode::kInvalidArgument ? int{kExitUsage} : code;
    }
    state = std::move(*begun);
    if (state->acked.bytes > 0) {
      in.clear();
      in.seekg(static_cast<std::streamoff>(state->acked.bytes));
      source->continue_at(state->acked);
      session.err << fmt::format("continuing after line {}; {} objects were imported before\n",
                                 state->acked.lines, state->imported);
    }
  }

  const uint64_t before = state ? state->imported : 0;
  const Time started = session.clock.now();
  Progress progress(session.err, session.err_is_terminal, "objects",
                    from_stdin ? 0 : size_of(arguments.file), session.clock);
  Importer importer(session, table->table_id, *source, progress);
  if (state) importer.keep(arguments.resume, *state);
  const Status status = session.client().run(importer.run(arguments.outstanding));
  progress.finish();
  if (status.ok()) {
    return print_imported(session, importer.imported(), before, session.clock.now() - started);
  }
  const int code = session.report(status, fmt::format("{}, line {}", name, importer.failed_line()));
  session.err << fmt::format("ramcloud: {} objects were imported before that\n",
                             importer.imported());
  if (importer.input_is_bad() && arguments.wanted.format.empty()) {
    session.err << fmt::format("ramcloud: it was read as {}; --format says what it is\n",
                               arguments.format == FileFormat::kCsv ? "csv" : "jsonl");
  }
  return importer.input_is_bad() ? int{kExitUsage} : code;
}

int import_file(Session& session, ImportArguments arguments) {
  auto chosen = choose_format(session, arguments.wanted, arguments.file);
  if (!chosen) return session.usage_error(chosen.error().message());
  arguments.format = chosen->format;
  arguments.columns = std::move(chosen->columns);
  if (arguments.file == "-") {
    if (!arguments.resume.empty()) {
      return session.usage_error(
          "--resume: standard input cannot be read again; accepted is a file");
    }
    if (const Status bad = session.take_input(); !bad.ok()) {
      return session.report_input(bad);
    }
    return import_from(session, arguments, session.in);
  }
  std::ifstream file(arguments.file, std::ios::binary);
  file.peek();  // a folder can be opened, but not read
  if (!file.is_open() || file.bad()) {
    return session.usage_error("FILE: '" + arguments.file +
                               "' cannot be read; accepted is a readable file or -");
  }
  file.clear();  // an empty file has no first byte
  return import_from(session, arguments, file);
}

}  // namespace

void add_import_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand("import", "Write the objects of a file into a table");
  command->add_option("TABLE", arguments->table, "The table")->required();
  command->add_option("FILE", arguments->file, "File to read; - is standard input")->required();
  add_format_options(*command, arguments->wanted);
  command
      ->add_option("--resume", arguments->resume,
                   "Record progress in this file; if the file exists, continue from there")
      ->type_name("STATE");
  command->add_option("--outstanding", arguments->outstanding, "Writes in flight at a time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 4096u));
  CLI::Option* create =
      command->add_flag("--create", arguments->create, "Create the table if there is none");
  command
      ->add_option("--span", arguments->span,
                   "With --create: number of tablets, each on a different server")
      ->capture_default_str()
      ->needs(create)
      ->check(CLI::Range(1u, 1'000'000u));
  command->footer(
      "Each line is {\"key\":\"...\",\"value\":\"...\"}; key_b64 and value_b64 hold bytes that are "
      "not\n"
      "text, as base64. In a csv file the first line names the columns; all columns but\n"
      "these two are ignored. If a key occurs twice, the later object wins. The import stops at "
      "the\n"
      "first error and names the line; it is safe to run it again.\n\n"
      "With --resume, run the same command again after an interruption, even after a kill. It\n"
      "continues after the last object up to which all objects were acknowledged. A different "
      "file,\n"
      "table or format is refused.\n\n"
      "Examples:\n"
      "  ramcloud import users users.jsonl --create --span 3\n"
      "  ramcloud import users users.csv --key-column id --value-column email\n"
      "  ramcloud import users users.jsonl --resume users.state\n"
      "  zcat users.jsonl.gz | ramcloud import users -\n");
  needs_cluster(*command, session,
                [&session, arguments] { return import_file(session, *arguments); });
}

}  // namespace ramcloud::cli
