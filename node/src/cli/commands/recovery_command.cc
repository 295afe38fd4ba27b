// ramcloud recovery list: by the coordinator's admin API.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/text.h"
#include "cli/daemons.h"
#include "cli/formats/output.h"
#include "cli/session.h"

namespace ramcloud::cli {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const RecoveryView& recovery) {
  const RecoveryProgress& progress = recovery.progress;
  ordered_json missing = ordered_json::array();
  for (const auto& segment : progress.missing) {
    missing.push_back(
        {{"segment_id", segment.segment_id}, {"why", segment.why}, {"holders", segment.holders}});
  }
  return {
      {"server_id", recovery.server_id},
      {"name", recovery.name},
      {"phase", recovery_phase_name(progress.phase)},
      {"waits_for", progress.waits_for},
      {"missing", missing},
      {"attempt", progress.attempt},
      {"parts", progress.parts},
      {"parts_done", progress.parts_done},
      {"bytes_total", progress.bytes_total},
      {"bytes_done", progress.bytes_done},
      {"begun_at_ms", progress.begun_at_ms},
  };
}

std::vector<std::string> row_of(const RecoveryView& recovery) {
  const RecoveryProgress& progress = recovery.progress;
  const uint64_t now = SystemClock().unix_ms();
  const uint64_t seconds = (now - std::min(now, progress.begun_at_ms)) / 1000;
  return {
      std::to_string(recovery.server_id),
      printable(recovery.name),
      recovery_phase_name(progress.phase),
      std::to_string(progress.attempt),
      fmt::format("{} / {}", progress.parts_done, progress.parts),
      fmt::format("{} / {}", format_size(progress.bytes_done), format_size(progress.bytes_total)),
      std::to_string(seconds),
      printable(progress.waits_for)};
}

int recoveries(Session& session) {
  const auto status = ask_admin(session, [](AdminClient& admin) { return admin.status(); });
  if (!status) return session.report(status.error());
  if (session.json()) {
    ordered_json list = ordered_json::array();
    for (const RecoveryView& recovery : status->recoveries) list.push_back(to_json(recovery));
    session.out << list.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const RecoveryView& recovery : status->recoveries) rows.push_back(row_of(recovery));
  print_table(session.out,
              {"SERVER", "NAME", "PHASE", "ATTEMPT", "PARTS", "BYTES", "SECONDS", "WAITS FOR"},
              rows);
  return kExitOk;
}

}  // namespace

void add_recovery_command(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("recovery", "Show how crashed servers are recovered");
  group->require_subcommand(1);
  CLI::App* list = group->add_subcommand(
      "list", "List crashed servers that still have tablets, and what their recovery waits for");
  needs_cluster(*list, session, [&session] { return recoveries(session); });
}

}  // namespace ramcloud::cli
