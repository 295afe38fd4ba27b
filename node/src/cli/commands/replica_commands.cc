// ramcloud replica dump|rebuild: reads backup folders without a server.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "backup/replica_reader.h"
#include "base/text.h"
#include "cli/formats/record.h"
#include "cli/session.h"
#include "cli/usage.h"

namespace ramcloud::cli {
namespace {

using nlohmann::ordered_json;

std::string problem_text(const std::string& path, const ReplicaProblem& problem) {
  std::string text = fmt::format("{}: offset {}: {}", path, problem.file_offset, problem.what);
  if (problem.flipped_byte) {
    text += fmt::format("; the byte at offset {} explains it", *problem.flipped_byte);
  }
  return text;
}

ordered_json to_json(const ReplicaProblem& problem) {
  ordered_json json = {{"offset", problem.file_offset}, {"what", problem.what}};
  if (problem.flipped_byte) json["flipped_byte_offset"] = *problem.flipped_byte;
  return json;
}

ordered_json to_json(const ReplicaDump& replica) {
  ordered_json entries = ordered_json::object();
  for (const auto& [type, count] : replica.entries) entries[entry_type_name(type)] = count;
  ordered_json problems = ordered_json::array();
  for (const auto& problem : replica.problems) problems.push_back(to_json(problem));
  return {{"frame", replica.frame},
          {"offset", replica.file_offset},
          {"master_id", replica.identity.master_id},
          {"segment_id", replica.identity.segment_id},
          {"backup_id", replica.backup_id},
          {"epoch", replica.epoch},
          {"state", frame_state_name(replica.state)},
          {"primary", (replica.flags & FrameSlot::kPrimary) != 0},
          {"complete", replica.complete()},
          {"metadata_valid", replica.metadata_valid},
          {"end", scan_end_name(replica.scan.end)},
          {"valid_bytes", replica.scan.valid_bytes},
          {"groups", replica.scan.groups},
          {"group_epoch", replica.scan.replication_epoch},
          {"entries", std::move(entries)},
          {"digest", replica.scan.digest},
          {"problems", std::move(problems)}};
}

std::string to_text(const ReplicaDump& replica) {
  std::string text = fmt::format(
      "frame {} at {}: master {}, segment {}, {}{}{}, {} valid bytes in {} groups, end {}",
      replica.frame, replica.file_offset, replica.identity.master_id, replica.identity.segment_id,
      frame_state_name(replica.state),
      (replica.flags & FrameSlot::kPrimary) != 0 ? ", primary" : "",
      (replica.complete() ? "" : ", incomplete") +
          (replica.epoch == 0 ? std::string() : fmt::format(", epoch {}", replica.epoch)),
      replica.scan.valid_bytes, replica.scan.groups, scan_end_name(replica.scan.end));
  for (const auto& [type, count] : replica.entries) {
    text += fmt::format(", {} {}", count, entry_type_name(type));
  }
  return text;
}

int dump(Session& session, const std::string& path) {
  const auto print = [&session](const ordered_json& json) {
    session.out << json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  };
  auto volume = dump_replicas(path, [&](const ReplicaDump& replica) {
    if (session.json()) {
      print(to_json(replica));
    } else {
      session.out << to_text(replica) << '\n';
    }
    session.out.flush();  // before messages about it
    for (const auto& problem : replica.problems) {
      session.err << "ramcloud: " << problem_text(path, problem) << '\n';
    }
  });
  if (!volume) return session.report(volume.error());
  for (const auto& problem : volume->problems) {
    session.err << "ramcloud: " << problem_text(path, problem) << '\n';
  }
  if (session.json()) {
    ordered_json problems = ordered_json::array();
    for (const auto& problem : volume->problems) problems.push_back(to_json(problem));
    print({{"superblock_valid", volume->superblock_valid},
           {"cluster_uuid", format_uuid(volume->cluster_uuid)},
           {"server_id", volume->server_id},
           {"frames_total", volume->frames_total},
           {"frames_used", volume->frames_used},
           {"problems_total", volume->problems_total},
           {"problems", std::move(problems)}});
  } else {
    session.out << fmt::format("server {} of cluster {}: {} of {} frames in use, {} problems\n",
                               volume->server_id, format_uuid(volume->cluster_uuid),
                               volume->frames_used, volume->frames_total, volume->problems_total);
  }
  return volume->problems_total == 0 ? kExitOk : kExitFailed;
}

/// The path of a server's folder or of its frames file.
CLI::Validator volume_path() {
  return CLI::Validator(
      [](const std::string& path) -> std::string {
        if (!path.empty()) return {};
        return "it is empty; accepted is the path of a server's folder, or of its frames file";
      },
      "");
}

struct RebuildArguments {
  std::vector<std::string> paths;
  uint64_t table = 0;
  std::vector<std::string> fences;
  std::vector<uint64_t> recovered;
};

/// "MASTER:SEGMENT:EPOCH"; empty if the text has another form.
std::optional<std::pair<uint64_t, log::ReplicationFence>> parse_fence(const std::string& text) {
  uint64_t numbers[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    if (i > 0 && (at == end || *at++ != ':')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc()) return std::nullopt;
    at = next;
  }
  if (at != end || numbers[2] > UINT32_MAX) return std::nullopt;
  return std::pair(numbers[0],
                   log::ReplicationFence{numbers[1], static_cast<uint32_t>(numbers[2])});
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// Prints the records of a rebuild, which come ordered by table. Lines name their table only if
/// there are several tables, which is known at the second table or at the end. Until then the lines
/// of the first table are kept in a nameless temporary file, so that memory does not grow with the
/// data.
class RebuiltPrinter {
 public:
  explicit RebuiltPrinter(std::ostream& out) : out_(out), waiting_(std::tmpfile()) {}

  void add(const log::ReplayedObject& object) {
    if (!first_table_) first_table_ = object.table_id;
    if (object.table_id != *first_table_ && !several_) {
      several_ = true;
      release();
    }
    const std::string line = format_record(object.key, object.value) + '\n';
    if (several_) {
      out_ << with_table(line, object.table_id);
    } else if (waiting_ == nullptr ||
               std::fwrite(line.data(), 1, line.size(), waiting_.get()) != line.size()) {
      failed_ = true;
    }
  }

  Status finish() {
    if (!several_) release();
    if (failed_) return {StatusCode::kIoError, "a temporary file cannot be written or read"};
    return {};
  }

 private:
  static std::string with_table(const std::string& line, uint64_t table_id) {
    return fmt::format("{{\"table\":{},{}", table_id, std::string_view(line).substr(1));
  }

  void release() {
    if (waiting_ == nullptr || std::fflush(waiting_.get()) != 0) {
      failed_ = failed_ || first_table_.has_value();
      return;
    }
    std::rewind(waiting_.get());
    std::string buffer(1 << 16, '\0');
    bool line_begins = true;
    while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), waiting_.get())) {
      for (size_t i = 0; i < n;) {
        if (line_begins && several_) {
          out_ << fmt::format("{{\"table\":{},", *first_table_);
          ++i;  // skip the line's opening brace
        }
        const size_t end = std::min(std::string_view(buffer.data(), n).find('\n', i), n);
        line_begins = end < n;
        const size_t stop = line_begins ? end + 1 : n;
        out_.write(buffer.data() + i, static_cast<std::streamsize>(stop - i));
        i = stop;
      }
    }
    failed_ = failed_ || std::ferror(waiting_.get()) != 0;
    waiting_.reset();
  }

  std::ostream& out_;
  std::unique_ptr<std::FILE, FileCloser> waiting_;
  std::optional<uint64_t> first_table_;
  bool several_ = false, failed_ = false;
};

/// "1, 7 and 3 more".
std::string tables_text(const std::vector<uint64_t>& tables) {
  constexpr size_t kNamed = 20;
  std::string text;
  for (size_t i = 0; i < std::min(tables.size(), kNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tables[i]);
  }
  if (tables.size() > kNamed) text += fmt::format(" and {} more", tables.size() - kNamed);
  return text;
}

/// NOT_FOUND: a table is asked for of which nothing was rebuilt. `tables`: of which something was.
Status check_table(uint64_t asked, const std::vector<uint64_t>& tables) {
  if (asked == 0 || std::ranges::binary_search(tables, asked)) return {};
  return {StatusCode::kNotFound,
          fmt::format(
              "--table {}: no object of such a table is in these folders; there are {}", asked,
              tables.empty() ? "no objects at all" : "objects of tables " + tables_text(tables))};
}

std::string result_text(const RebuiltMaster& master) {
  if (!master.status.ok()) return master.status.to_string();
  std::string text = fmt::format("{} objects", master.objects);
  if (master.objects_not_owned > 0) {
    text += fmt::format("; {} of tablets that it did not own any more are left out",
                        master.objects_not_owned);
  }
  return text;
}

int rebuild_data(Session& session, const RebuildArguments& arguments) {
  RebuiltPrinter printer(session.out);
  RebuildSummary summary;
  KnownOfMasters known;
  for (const std::string& text : arguments.fences) known.fences.insert(*parse_fence(text));
  known.recovered.insert(arguments.recovered.begin(), arguments.recovered.end());
  std::vector<uint64_t> tables;  // by rising id, as the objects come
  Status status = rebuild(
      arguments.paths,
      [&](const log::ReplayedObject& object) {
        if (tables.empty() || tables.back() != object.table_id) tables.push_back(object.table_id);
        if (arguments.table == 0 || object.table_id == arguments.table) printer.add(object);
      },
      &summary, known);
  if (status.ok()) status = printer.finish();
  for (const std::string& warning : summary.warnings) session.err << "warning: " << warning << '\n';
  for (const uint64_t id : known.recovered) {
    const auto found = summary.left_out.find(id);
    session.err << fmt::format("master {}: recovered, {} replicas are left out\n", id,
                               found == summary.left_out.end() ? 0 : found->second);
  }
  for (const RebuiltMaster& master : summary.masters) {
    session.err << fmt::format("master {}: {}\n", master.master_id, result_text(master));
  }
  if (!status.ok()) {
    session.report(status);
    return kExitFailed;  // the check failed
  }
  status = check_table(arguments.table, tables);
  return status.ok() ? kExitOk : session.report(status);
}

}  // namespace

void add_replica_commands(CLI::App& app, Session& session) {
  CLI::App* group =
      app.add_subcommand("replica", "Inspect the replicas in backup folders; no server has to run");
  group->require_subcommand(0, 1);

  auto path = std::make_shared<std::string>();
  CLI::App* command = group->add_subcommand(
      "dump", "Verify a frames file and list its replicas; names what is damaged and exits with 1");
  command->add_option("FILE", *path, "A server's frames file, or its folder")
      ->required()
      ->check(volume_path());
  command->footer("Example:\n  ramcloud replica dump /var/lib/ramcloud/frames\n");
  runs(*command, session, [&session, path] { return dump(session, *path); });

  auto arguments = std::make_shared<RebuildArguments>();
  command = group->add_subcommand(
      "rebuild", "Rebuild the data from the replicas in these folders and print it as JSON lines");
  command->add_option("DIR", arguments->paths, "The servers' folders")
      ->required()
      ->check(volume_path());
  command->add_option("--table", arguments->table, "Only the objects of the table with this id")
      ->check(positive());
  // An option for a list would take the folders behind it for further values.
  command
      ->add_option_function<std::string>(
          "--fence", [arguments](const std::string& text) { arguments->fences.push_back(text); },
          "MASTER:SEGMENT:EPOCH from the coordinator (`ramcloud servers -o json`): open "
          "replicas of this master count only if their segment and epoch are at least "
          "these; may be repeated")
      ->check([](const std::string& text) {
        return parse_fence(text) ? std::string()
                                 : fmt::format(
                                       "value '{}': accepted is MASTER:SEGMENT:EPOCH, three "
                                       "whole numbers",
                                       text);
      })
      ->trigger_on_parse();
  command
      ->add_option_function<uint64_t>(
          "--recovered", [arguments](uint64_t id) { arguments->recovered.push_back(id); },
          "ID of a server that the cluster has recovered (`ramcloud recovery list`): "
          "other servers own its data, so the rest of its log is ignored; may be repeated")
      ->check(positive())
      ->trigger_on_parse();
  command->footer(
      "The lines are those of `ramcloud export`, ordered by table and key, with a field \"table\" "
      "(its\n"
      "id) when there is more than one. With R replicas any R - 1 folders may be left out. Exit 1 "
      "if\n"
      "a log is incomplete or damaged, 3 if there is no object of --table. A folder may still "
      "have\n"
      "a part of the log of a server that died and was recovered: leave it out with --recovered.\n"
      "\n"
      "Example:\n  ramcloud replica rebuild cluster/server-1 cluster/server-2 > data.jsonl\n");
  runs(*command, session, [&session, arguments] { return rebuild_data(session, *arguments); });
}

}  // namespace ramcloud::cli
