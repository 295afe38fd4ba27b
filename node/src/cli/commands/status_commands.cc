// ramcloud status|servers|tablets: the coordinator's view of the cluster, from its admin API.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/text.h"
#include "cli/commands/memory_view.h"
#include "cli/commands/table_view.h"
#include "cli/daemons.h"
#include "cli/formats/output.h"
#include "cli/session.h"
#include "cli/usage.h"
#include "coordinator/core/checks.h"

namespace ramcloud::cli {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

const char* state_name(wire::ServerState state) {
  switch (state) {
    case wire::ServerState::kUp:
      return "UP";
    case wire::ServerState::kCrashed:
      return "CRASHED";
    case wire::ServerState::kRemoved:
      return "REMOVED";
  }
  return "UNKNOWN";
}

bool fully_replicated(const ReplicationSummary& replication) {
  return replication.segments_under_replicated == 0 &&
         replication.segments_fully_replicated == replication.segments;
}

/// "every segment has its 2 replicas (12 of 12)".
std::string replication_text(const ReplicationSummary& replication) {
  if (fully_replicated(replication)) {
    return fmt::format("every segment has its {} replicas ({} of {})", replication.replicas_wanted,
                       replication.segments_fully_replicated, replication.segments);
  }
  std::string text =
      fmt::format("{} of {} segments have their {} replicas, {} bytes wait",
                  replication.segments_fully_replicated, replication.segments,
                  replication.replicas_wanted, with_thousands(replication.unreplicated_bytes));
  if (replication.segments_degraded > 0) {
    text += fmt::format("; {} go on with fewer", replication.segments_degraded);
  }
  if (replication.masters_waiting > 0) {
    text += fmt::format("; writes wait on {} masters", replication.masters_waiting);
  }
  return text;
}

/// "SOUND, 4 of 4 servers accounted for".
std::string detection_text(const Detection& detection) {
  return fmt::format("{}, {} of {} servers accounted for{}", detection_name(detection),
                     detection.accounted, detection.expected,
                     detection.suspect ? "; silence condemns none" : "");
}

/// 0: not known, as from a coordinator of an earlier version.
std::string survives_text(uint32_t servers) {
  if (servers == 0) return "not known";
  return fmt::format("the failure of {} more server{}, whichever {}", servers,
                     servers == 1 ? "" : "s", servers == 1 ? "it is" : "they are");
}

MemorySummary memory_of(const wire::ServerStats& stats) {
  MemorySummary memory;
  memory.add(stats);
  return memory;
}

ordered_json to_json(const MemorySummary& memory) {
  return {{"total_bytes", memory.total_bytes},
          {"live_bytes", memory.live_bytes},
          {"dead_bytes", memory.used_bytes - memory.live_bytes},
          {"free_bytes", memory.total_bytes - memory.used_bytes},
          {"target_bytes", memory.target_bytes},
          {"held_bytes", memory.held_bytes},
          {"hash_table_bytes", memory.hash_table_bytes}};
}

/// The share of live objects in the log.
double utilisation(const MemorySummary& memory) {
  if (memory.total_bytes == 0) return 0;
  return static_cast<double>(memory.live_bytes) / static_cast<double>(memory.total_bytes);
}

ordered_json to_json(const CleanerSummary& cleaner) {
  return {{"mode", cleaner_state_name(cleaner.state)},
          {"why", cleaner.why},
          {"write_cost", static_cast<double>(cleaner.write_cost_milli) / 1000}};
}

ordered_json to_json(const ClusterStatus& status) {
  const ReplicationSummary& replication = status.replication;
  return {
      {"cluster_name", status.cluster_name},
      {"cluster_uuid", status.cluster_uuid},
      {"version", status.version},
      {"term", status.term},
      {"revision", status.revision},
      {"health", status.health},
      {"reasons", status.reasons},
      {"detection",
       {{"state", detection_name(status.detection)},
        {"accounted", status.detection.accounted},
        {"expected", status.detection.expected},
        {"waits_for", status.detection.waits_for}}},
      {"survives_servers",
       status.survives_servers == 0 ? ordered_json() : ordered_json(status.survives_servers)},
      {"servers_up", status.servers_up},
      {"servers_crashed", status.servers_crashed},
      {"tables", status.tables},
      {"tablets", status.tablets},
      {"tablets_unavailable", status.tablets_unavailable},
      {"masters_with_tablets", status.masters_with_tablets},
      {"replication",
       {{"replicas_wanted", replication.replicas_wanted},
        {"segments", replication.segments},
        {"segments_fully_replicated", replication.segments_fully_replicated},
        {"segments_under_replicated", replication.segments_under_replicated},
        {"unreplicated_bytes", replication.unreplicated_bytes},
        {"segments_degraded", replication.segments_degraded},
        {"masters_waiting", replication.masters_waiting},
        {"all_segments_replicated", fully_replicated(replication)}}},
      {"objects", status.objects},
      {"log_bytes_used", status.memory.used_bytes},
      {"log_bytes_total", status.memory.total_bytes},
      {"memory", to_json(status.memory)},
      {"utilisation", utilisation(status.memory)},
      {"cleaner", to_json(status.cleaner)},
  };
}

std::string memory_text(const ClusterStatus& status) {
  const MemorySummary& memory = status.memory;
  std::string text = fmt::format("{} of {} in use", format_size(memory.used_bytes),
                                 format_size(memory.total_bytes));
  if (status.cleaner.state == wire::CleanerState::kNone) return text + ", not cleaned";
  return text + fmt::format(", {} of it by live objects; cleaner {}",
                            format_size(memory.live_bytes),
                            cleaner_state_name(status.cleaner.state));
}

void print_status(Session& session, const ClusterStatus& status) {
  const auto line = [&](const char* name, const std::string& text) {
    session.out << fmt::format("{:<13}{}\n", name, text);
  };
  line("cluster", fmt::format("{} ({})", printable(status.cluster_name), status.cluster_uuid));
  line("health", status.health);
  for (const std::string& reason : status.reasons) line("", printable(reason));
  line("version", fmt::format("{}, term {}", status.version, status.term));
  line("servers", fmt::format("{} up, {} crashed", status.servers_up, status.servers_crashed));
  line("detection", detection_text(status.detection));
  line("survives", survives_text(status.survives_servers));
  line("tables",
       fmt::format("{}, in {} tablets on {} masters, {} unavailable", status.tables, status.tablets,
                   status.masters_with_tablets, status.tablets_unavailable));
  line("objects", with_thousands(status.objects));
  line("memory", memory_text(status));
  line("replication", replication_text(status.replication));
}

int status(Session& session, bool check) {
  auto status = ask_admin(session, [](AdminClient& admin) { return admin.status(); });
  if (!status) return session.report(status.error());
  if (session.json()) {
    session.out << dump(to_json(*status)) << '\n';
  } else {
    print_status(session, *status);
  }
  const bool good = status->health == health_name(Health::kHealthy);
  return check && !good ? kExitFailed : kExitOk;
}

ordered_json to_json(const ServerView& server) {
  const wire::ServerStats& stats = server.stats;
  return {
      {"id", server.id},
      {"name", server.name},
      {"state", state_name(server.state)},
      {"state_reason", server.state_reason},
      {"locator", server.locator},
      {"locator_outside", server.locator_outside},
      {"http_address", server.http_address},
      {"failure_domain", server.failure_domain},
      {"version", server.version},
      {"enlisted_at_ms", server.enlisted_at_ms},
      {"log_bytes_total", stats.log_bytes_total},
      {"log_bytes_used", stats.log_bytes_used},
      {"log_bytes_target", stats.log_bytes_target},
      {"log_bytes_held", stats.log_bytes_held},
      {"log_resized", stats.log_resized()},
      {"objects", stats.objects},
      {"tablets", stats.tablets},
      {"segments", stats.segments},
      {"segments_fully_replicated", stats.segments_fully_replicated},
      {"segments_under_replicated", stats.segments_under_replicated},
      {"unreplicated_bytes", stats.unreplicated_bytes},
      {"replicas_wanted", stats.replicas_wanted},
      {"backup_frames_total", stats.frames_total},
      {"backup_frames_used", stats.frames_used},
      {"backup_frames_quarantined", stats.frames_quarantined},
      {"reads", stats.reads},
      {"writes", stats.writes},
      {"deletes", stats.deletes},
      {"segments_degraded", stats.segments_degraded},
      {"writes_wait", stats.writes_wait != 0},
      {"replication_epoch", stats.replication_epoch},
      {"backup_device", stats.device() == wire::BackupDevice::kGood   ? "good"
                        : stats.device() == wire::BackupDevice::kFull ? "full"
                                                                      : "failed"},
      {"memory", to_json(memory_of(stats))},
      {"utilisation", utilisation(memory_of(stats))},
      {"cleaner",
       to_json(CleanerSummary{stats.cleaner, stats.cleaner_why, stats.cleaner_write_cost_milli})},
      {"fence_segment", server.fence_segment},
      {"fence_epoch", server.fence_epoch},
  };
}

int servers(Session& session) {
  auto servers = ask_admin(session, [](AdminClient& admin) { return admin.servers(); });
  if (!servers) return session.report(servers.error());
  if (session.json()) {
    ordered_json list = ordered_json::array();
    for (const ServerView& server : *servers) list.push_back(to_json(server));
    session.out << dump(list) << '\n';
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const ServerView& server : *servers) {
    const wire::ServerStats& stats = server.stats;
    rows.push_back({std::to_string(server.id), printable(server.name), state_name(server.state),
                    server.locator, printable(server.failure_domain), std::to_string(stats.tablets),
                    with_thousands(stats.objects), live_text(stats), log_text(stats),
                    fmt::format("{} / {}", stats.segments_fully_replicated, stats.segments),
                    fmt::format("{} / {}", stats.frames_used, stats.frames_total)});
  }
  print_table(session.out,
              {"ID", "NAME", "STATE", "LOCATOR", "DOMAIN", "TABLETS", "OBJECTS", "LIVE", "MEMORY",
               "REPLICATED", "FRAMES"},
              rows);
  return kExitOk;
}

/// If the server does not exist, also says where the ids are.
int report_server(Session& session, const Status& status) {
  if (status != StatusCode::kNotFound) return session.report(status);
  return session.report(
      {StatusCode::kNotFound, status.message() + "; `ramcloud server list` shows the ids"});
}

Status no_server(uint64_t id) {
  return {StatusCode::kNotFound, fmt::format("server {} does not exist", id)};
}

int show_server(Session& session, uint64_t id) {
  auto servers = ask_admin(session, [](AdminClient& admin) { return admin.servers(); });
  if (!servers) return session.report(servers.error());
  const auto found = std::ranges::find(*servers, id, &ServerView::id);
  if (found == servers->end()) return report_server(session, no_server(id));
  const ordered_json fields = to_json(*found);
  if (session.json()) {
    session.out << dump(fields) << '\n';
    return kExitOk;
  }
  for (const auto& [name, value] : fields.items()) {
    session.out << fmt::format(
        "{:<28}{}\n", name, value.is_string() ? printable(value.get<std::string>()) : value.dump());
  }
  return kExitOk;
}

struct Condemn {
  uint64_t id = 0;
  bool yes = false, force = false;
  std::string reason;
};

int condemn(Session& session, const Condemn& wanted) {
  auto done = ask_admin(session, [&](AdminClient& admin) {
    return admin.condemn(wanted.id, wanted.yes, wanted.force, wanted.reason);
  });
  if (!done) return report_server(session, done.error());
  if (session.json()) {
    session.out << dump({{"server_id", wanted.id},
                         {"condemned", done->condemned},
                         {"answers", done->answers},
                         {"effect", done->effect}})
                << '\n';
  } else {
    session.out << printable(done->effect) << '\n';
  }
  if (done->condemned) return kExitOk;
  session.err << "nothing was changed; accepted is the same command with --yes\n";
  return kExitFailed;
}

/// The size in "log-memory=SIZE".
Result<uint64_t> log_memory_in(const std::string& setting) {
  constexpr std::string_view kName = "log-memory=";
  if (!setting.starts_with(kName)) {
    return fail(
        StatusCode::kInvalidArgument,
        fmt::format("setting {}: accepted is log-memory=SIZE, for example log-memory=512MiB",
                    ramcloud::quoted(setting)));
  }
  auto bytes = parse_size(std::string_view(setting).substr(kName.size()));
  if (bytes && *bytes == 0) {
    return fail(StatusCode::kInvalidArgument, "log-memory 0: accepted is what data needs");
  }
  return bytes;
}

std::string resize_text(uint64_t id, const wire::ResizeLogReply& reply) {
  std::string text =
      fmt::format("log-memory of server {} is {}", id, exact_size(reply.target_bytes));
  if (reply.done()) return text + ", and it has just that";
  return text + fmt::format(
                    "; it may use {} now, and has {} from the system. `ramcloud server show "
                    "{}` tells how far it is",
                    format_size(reply.limit_bytes), format_size(reply.held_bytes), id);
}

int set_server(Session& session, uint64_t id, const std::string& setting) {
  const auto bytes = log_memory_in(setting);
  if (!bytes) return session.report(bytes.error());
  auto reply =
      ask_admin(session, [&](AdminClient& admin) { return admin.set_log_memory(id, *bytes); });
  if (!reply) return report_server(session, reply.error());
  if (session.json()) {
    session.out << dump({{"server_id", id},
                         {"target_bytes", reply->target_bytes},
                         {"limit_bytes", reply->limit_bytes},
                         {"held_bytes", reply->held_bytes},
                         {"done", reply->done()},
                         {"least_bytes", reply->least_bytes},
                         {"most_bytes", reply->most_bytes},
                         {"notes", reply->notes}})
                << '\n';
    return kExitOk;
  }
  session.out << resize_text(id, *reply) << '\n';
  for (const std::string& note : reply->notes) session.out << "note: " << printable(note) << '\n';
  return kExitOk;
}

int release(Session& session, uint64_t id) {
  auto answer = ask_admin(session, [&](AdminClient& admin) { return admin.volume_release(id); });
  if (!answer) return session.report(answer.error());
  if (session.json()) {
    session.out << dump({{"server_id", id},
                         {"releasable", answer->releasable},
                         {"reason", answer->reason},
                         {"token", answer->token},
                         {"expires_at_ms", answer->expires_at_ms}})
                << '\n';
  } else {
    session.out << printable(answer->reason) << '\n';
    if (answer->releasable) session.out << printable(answer->token) << '\n';
  }
  return answer->releasable ? kExitOk : kExitFailed;
}

void add_server_commands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand(
      "server", "List, show, set and condemn servers, and release their volumes");
  group->require_subcommand(0, 1);
  CLI::App* list = group->add_subcommand("list", "List the servers (as `ramcloud servers`)");
  needs_cluster(*list, session, [&session] { return servers(session); });

  auto id = std::make_shared<uint64_t>(0);
  CLI::App* show =
      group->add_subcommand("show", "Show everything that the coordinator knows about one server");
  show->add_option("ID", *id, "The server's id, as `ramcloud server list` shows it")
      ->required()
      ->check(positive());
  needs_cluster(*show, session, [&session, id] { return show_server(session, *id); });

  auto setting = std::make_shared<std::string>();
  CLI::App* set = group->add_subcommand(
      "set",
      "Change the memory of a running server's log. Growing takes about half a second per GiB; "
      "shrinking takes as long as cleaning. Run the same command again to see the progress. After "
      "a restart the server has --log-memory again");
  set->add_option("ID", *id, "The server's id, as `ramcloud server list` shows it")
      ->required()
      ->check(positive());
  set->add_option(
         "SETTING", *setting,
         "log-memory=SIZE: at least what live objects need, and at most --log-memory-max of "
         "the server")
      ->required();
  needs_cluster(*set, session,
                [&session, id, setting] { return set_server(session, *id, *setting); });

  auto wanted = std::make_shared<Condemn>();
  CLI::App* condemn_command =
      group->add_subcommand("condemn",
                            "Mark a server as CRASHED. This is final: its tablets are unavailable "
                            "until they are recovered, and its replicas do not count. Use it for a "
                            "server that will not come back while failure detection is SUSPECT");
  condemn_command
      ->add_option("ID", wanted->id, "The server's id, as `ramcloud server list` shows it")
      ->required()
      ->check(positive());
  condemn_command->add_flag("--yes", wanted->yes,
                            "Do it; without --yes, only print what would happen");
  condemn_command->add_flag("--force", wanted->force,
                            "Do it even if the server answers. Such a server ends itself within "
                            "seconds; it may serve until then");
  condemn_command
      ->add_option("--reason", wanted->reason, "The reason; it is recorded with the server")
      ->check(recorded_text(0));
  needs_cluster(*condemn_command, session,
                [&session, wanted] { return condemn(session, *wanted); });

  CLI::App* release_command =
      group->add_subcommand("release",
                            "Ask whether the volume of a server that is not UP may be erased. "
                            "Prints the reason, and a token if it may; exits with 1 if it may not. "
                            "No server can start with the volume before the token expires");
  release_command->add_option("ID", *id, "The server's id, as `ramcloud server list` shows it")
      ->required()
      ->check(positive());
  needs_cluster(*release_command, session, [&session, id] { return release(session, *id); });
}

/// Uses the data protocol, which returns the locators for this client's side.
int tablets(Session& session, const std::string& name) {
  if (!name.empty()) {
    auto table = open_table(session, name);
    if (!table) return session.report(table.error());
    print_tablets(session, {*table});
    return kExitOk;
  }
  auto tables = session.client().run(session.core().list_tables());
  if (!tables) return session.report(tables.error());
  print_tablets(session, *tables);
  return kExitOk;
}

}  // namespace

void add_status_commands(CLI::App& app, Session& session) {
  auto check = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("status", "Show the cluster: health, servers, tables, replication");
  command->add_flag("--check", *check, "Exit with 1 unless the cluster is HEALTHY");
  needs_cluster(*command, session, [&session, check] { return status(session, *check); });

  command = app.add_subcommand("servers", "List the servers (as `ramcloud server list`)");
  needs_cluster(*command, session, [&session] { return servers(session); });
  add_server_commands(app, session);

  auto table = std::make_shared<std::string>();
  command = app.add_subcommand("tablets", "List tablets and the servers that have them");
  command->add_option("TABLE", *table, "Only the tablets of this table");
  needs_cluster(*command, session, [&session, table] { return tablets(session, *table); });
}

}  // namespace ramcloud::cli
