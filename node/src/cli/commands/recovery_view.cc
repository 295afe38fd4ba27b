#include "cli/commands/recovery_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "cli/formats/output.h"

namespace ramcloud::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kNotKnown = "not known";

using Moment = RecoveryProgress::Timeline::Moment;

struct Step {
  const char* name;
  const char* means;
  Moment RecoveryProgress::Timeline::* at;
};
constexpr Step kSteps[] = {
    {"verdict", "the server was given up", &RecoveryProgress::Timeline::verdict},
    {"queried", "the end of its log is known", &RecoveryProgress::Timeline::queried},
    {"planned", "the first recovery master has its order", &RecoveryProgress::Timeline::planned},
    {"first_key", "the first tablet is served", &RecoveryProgress::Timeline::first_key},
    {"half", "half of the hashes are served", &RecoveryProgress::Timeline::half},
    {"served", "all of them are served", &RecoveryProgress::Timeline::served},
    {"replicated", "all of it is on devices", &RecoveryProgress::Timeline::replicated},
};

template <typename T>
ordered_json known(bool is_known, const T& value) {
  return is_known ? ordered_json(value) : ordered_json();
}

ordered_json timeline_json(const RecoveryProgress::Timeline& timeline) {
  ordered_json steps = ordered_json::object();
  for (const Step& step : kSteps) {
    const Moment& at = timeline.*step.at;
    steps[step.name] = known(at.has_value(), at.value_or(0));
  }
  return steps;
}

ordered_json partitions_json(const RecoveryProgress& progress) {
  ordered_json list = ordered_json::array();
  for (const auto& partition : progress.partitions) {
    list.push_back({{"id", partition.id},
                    {"recovery_master", partition.recovery_master},
                    {"state", partition.state},
                    {"bytes", partition.bytes},
                    {"bytes_replayed", partition.bytes_replayed}});
  }
  return list;
}

/// Also with the field names of earlier versions.
void add_missing(const RecoveryProgress& progress, ordered_json& json) {
  ordered_json missing = ordered_json::array(), blocked = ordered_json::array();
  for (const auto& segment : progress.missing) {
    missing.push_back(
        {{"segment_id", segment.segment_id}, {"why", segment.why}, {"holders", segment.holders}});
    blocked.push_back({{"segment", known(segment.segment_id != 0, segment.segment_id)},
                       {"last_holders", segment.holders},
                       {"why", segment.why}});
  }
  json["blocked_segments"] = blocked;
  json["missing"] = missing;
}

std::string who(const RecoveryView& recovery) {
  return recovery.name.empty()
             ? fmt::format("server {}", recovery.server_id)
             : fmt::format("server {} ({})", recovery.server_id, printable(recovery.name));
}

/// A coordinator of an earlier version sends only the phase.
std::string state_of(const RecoveryView& recovery) {
  return recovery.told_whole ? recovery_state_name(recovery.progress)
                             : recovery_phase_name(recovery.progress.phase);
}

/// The replayed part of the log, in percent; none if its size is not known.
std::optional<uint64_t> percent(const RecoveryProgress& progress) {
  if (progress.done) return 100;
  if (progress.bytes_total == 0) return std::nullopt;
  return static_cast<uint64_t>(
      static_cast<double>(std::min(progress.bytes_done, progress.bytes_total)) * 100 /
      static_cast<double>(progress.bytes_total));
}

/// The numbers of a plan are 0 before there is one.
bool planned(const RecoveryProgress& progress) {
  return progress.timeline.planned.has_value();
}
bool knows_parts(const RecoveryProgress& progress) {
  return progress.done || planned(progress) || progress.parts != 0;
}
bool knows_bytes(const RecoveryProgress& progress) {
  return progress.done || planned(progress) || progress.bytes_total != 0;
}
bool knows_entries(const RecoveryView& recovery) {
  return recovery.told_whole && (planned(recovery.progress) || recovery.progress.entries != 0);
}
bool knows_memory(const RecoveryView& recovery) {
  const RecoveryProgress& progress = recovery.progress;
  return recovery.told_whole &&
         (planned(progress) || progress.needed_bytes != 0 || progress.free_bytes != 0);
}

std::string bytes_text(const RecoveryProgress& progress) {
  const auto share = percent(progress);
  if (!share) return "size not known";
  return fmt::format("{} of {} ({}%)", format_size(progress.bytes_done),
                     format_size(progress.bytes_total), *share);
}

std::string parts_text(const RecoveryProgress& progress) {
  if (!knows_parts(progress)) return "parts not known";
  return fmt::format("{} of {} parts", progress.parts_done, progress.parts);
}

/// The time since the crash (since the verdict, from a coordinator of an earlier version); for an
/// ended recovery, until everything was served.
std::string seconds_text(const RecoveryView& recovery, uint64_t now_ms) {
  const RecoveryProgress& progress = recovery.progress;
  if (progress.done) {
    if (!progress.timeline.served) return "?";
    return fmt::format("{:.1f}", static_cast<double>(*progress.timeline.served) / 1000);
  }
  const uint64_t since = recovery.told_whole ? progress.crashed_at_ms : progress.begun_at_ms;
  return since == 0 ? "?" : std::to_string((now_ms - std::min(now_ms, since)) / 1000);
}

void print_lines(const RecoveryView& recovery, std::ostream& out) {
  const RecoveryProgress& progress = recovery.progress;
  const auto line = [&](const char* name, const std::string& text) {
    out << fmt::format("{:<13}{}\n", name, text);
  };
  const auto told = [&](bool is_known, const std::string& text) {
    return is_known ? text : std::string(kNotKnown);
  };
  const bool whole = recovery.told_whole;
  line("server", who(recovery));
  line("state", fmt::format("{}, attempt {}", state_of(recovery), progress.attempt));
  const bool all_lost = progress.outcome == kAllLost;
  line("outcome", told(!progress.outcome.empty(), printable(progress.outcome)) +
                      (all_lost ? ": the server had no replicas (--replicas 0), so all objects of "
                                  "its tablets are lost"
                                : ""));
  line("reason", told(whole && !progress.reason.empty(), printable(progress.reason)));
  line("crashed at", told(whole && progress.crashed_at_ms != 0, time_text(progress.crashed_at_ms)));
  if (!progress.waits_for.empty()) line("waits for", printable(progress.waits_for));
  line("data", fmt::format("{}, {}", bytes_text(progress),
                           knows_entries(recovery) ? with_thousands(progress.entries) + " objects"
                                                   : std::string("objects not known")));
  line("parts", told(knows_parts(progress),
                     fmt::format("{} of {} done", progress.parts_done, progress.parts)));
  line("memory", told(knows_memory(recovery),
                      fmt::format("{} needed, {} free", format_size(progress.needed_bytes),
                                  format_size(progress.free_bytes))));
}

void print_steps(const RecoveryView& recovery, std::ostream& out) {
  out << '\n';
  std::vector<std::vector<std::string>> rows;
  for (const Step& step : kSteps) {
    const Moment& at = recovery.progress.timeline.*step.at;
    rows.push_back({step.name, at ? with_thousands(*at) + " ms" : "?", step.means});
  }
  print_table(out, {"STEP", "AFTER", "MEANS"}, rows);
}

void print_partitions(const RecoveryProgress& progress, std::ostream& out) {
  if (progress.partitions.empty()) return;
  out << '\n';
  std::vector<std::vector<std::string>> rows;
  for (const auto& partition : progress.partitions) {
    rows.push_back({std::to_string(partition.id), std::to_string(partition.recovery_master),
                    printable(partition.state),
                    fmt::format("{} / {}", format_size(partition.bytes_replayed),
                                format_size(partition.bytes))});
  }
  print_table(out, {"PART", "RECOVERY MASTER", "STATE", "BYTES"}, rows);
}

void print_missing(const RecoveryProgress& progress, std::ostream& out) {
  if (progress.missing.empty()) return;
  out << '\n';
  std::vector<std::vector<std::string>> rows;
  for (const auto& segment : progress.missing) {
    std::string holders;
    for (const uint64_t id : segment.holders) {
      holders += (holders.empty() ? "" : ", ") + std::to_string(id);
    }
    rows.push_back({segment.segment_id == 0 ? "?" : std::to_string(segment.segment_id),
                    holders.empty() ? "?" : holders, printable(segment.why)});
  }
  print_table(out, {"MISSING SEGMENT", "LAST HOLDERS", "WHY"}, rows);
}

}  // namespace

std::string time_text(uint64_t unix_ms) {
  const auto seconds = static_cast<time_t>(unix_ms / 1000);
  tm parts{};
  char text[32] = "";
  if (gmtime_r(&seconds, &parts) == nullptr) return std::to_string(unix_ms) + " ms";
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text, unix_ms % 1000);
}

std::vector<const RecoveryView*> all_recoveries(const ClusterStatus& status) {
  std::vector<const RecoveryView*> all;
  for (const RecoveryView& recovery : status.recoveries) all.push_back(&recovery);
  for (auto ended = status.recoveries_ended.rbegin(); ended != status.recoveries_ended.rend();
       ++ended) {
    all.push_back(&*ended);
  }
  return all;
}

ordered_json recovery_json(const RecoveryView& recovery) {
  const RecoveryProgress& progress = recovery.progress;
  const bool whole = recovery.told_whole;
  ordered_json json = {
      {"id", recovery.server_id},
      {"server_id", recovery.server_id},
      {"server_name", recovery.name},
      {"state", known(whole, recovery_state_name(progress))},
      {"ended", progress.done},
      {"outcome", known(!progress.outcome.empty(), progress.outcome)},
      {"reason", known(whole, progress.reason)},
      {"attempt", progress.attempt},
      {"crashed_at_ms", known(whole && progress.crashed_at_ms != 0, progress.crashed_at_ms)},
      {"timeline_ms", timeline_json(progress.timeline)},
      {"bytes", progress.bytes_total},
      {"bytes_replayed", progress.bytes_done},
      {"entries", known(knows_entries(recovery), progress.entries)},
      {"partitions", known(whole, partitions_json(progress))},
      {"memory", known(knows_memory(recovery), ordered_json{{"needed_bytes", progress.needed_bytes},
                                                            {"free_bytes", progress.free_bytes}})},
      {"waits_for", progress.waits_for},
      {"parts", progress.parts},
      {"parts_done", progress.parts_done},
  };
  add_missing(progress, json);
  // The field names of earlier versions.
  json["name"] = recovery.name;
  json["phase"] = recovery_phase_name(progress.phase);
  json["bytes_total"] = progress.bytes_total;
  json["bytes_done"] = progress.bytes_done;
  json["begun_at_ms"] = progress.begun_at_ms;
  return json;
}

std::vector<std::string> recovery_header() {
  return {"SERVER", "NAME",  "STATE",   "OUTCOME",  "ATTEMPT",
          "PARTS",  "BYTES", "SECONDS", "WAITS FOR"};
}

std::vector<std::string> recovery_row(const RecoveryView& recovery, uint64_t now_ms) {
  const RecoveryProgress& progress = recovery.progress;
  return {std::to_string(recovery.server_id),
          printable(recovery.name),
          state_of(recovery),
          progress.outcome.empty() ? "?" : printable(progress.outcome),
          std::to_string(progress.attempt),
          knows_parts(progress) ? fmt::format("{} / {}", progress.parts_done, progress.parts) : "?",
          knows_bytes(progress) ? fmt::format("{} / {}", format_size(progress.bytes_done),
                                              format_size(progress.bytes_total))
                                : "?",
          seconds_text(recovery, now_ms),
          printable(progress.waits_for)};
}

std::string recovery_text(const RecoveryView& recovery) {
  std::ostringstream out;
  print_lines(recovery, out);
  print_steps(recovery, out);
  print_partitions(recovery.progress, out);
  print_missing(recovery.progress, out);
  return out.str();
}

std::string recovery_line(const RecoveryView& recovery) {
  const RecoveryProgress& progress = recovery.progress;
  std::string text = fmt::format("{}: {}", who(recovery), state_of(recovery));
  if (!progress.outcome.empty()) text += ", " + printable(progress.outcome);
  text += fmt::format(", attempt {}, {}, {}", progress.attempt, parts_text(progress),
                      bytes_text(progress));
  if (progress.done && progress.timeline.served) {
    text += fmt::format(", served after {} ms", with_thousands(*progress.timeline.served));
  }
  if (!progress.waits_for.empty()) text += "; waits for " + printable(progress.waits_for);
  return text;
}

std::string recovery_bar(const RecoveryView& recovery) {
  constexpr size_t kCells = 30;
  const RecoveryProgress& progress = recovery.progress;
  const auto share = percent(progress);
  const size_t full = share.value_or(0) * kCells / 100;
  std::string text = fmt::format("{}  [{}{}] {}  {}, {}", who(recovery), std::string(full, '#'),
                                 std::string(kCells - full, '.'),
                                 share ? fmt::format("{:3}%", *share) : std::string("   ?"),
                                 state_of(recovery), parts_text(progress));
  if (!progress.waits_for.empty()) text += "; waits for " + printable(progress.waits_for);
  return text;
}

}  // namespace ramcloud::cli
