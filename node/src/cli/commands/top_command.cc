// ramcloud top: what each server does right now, refreshed until interrupted.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <thread>

#include "cli/commands/memory_view.h"
#include "cli/daemons.h"
#include "cli/formats/metrics_text.h"
#include "cli/formats/output.h"
#include "cli/usage.h"

namespace ramcloud::cli {
namespace {

struct TopArguments {
  std::string interval = "1s";
  uint32_t count = 0;  // 0: until interrupted
};

/// The metrics of a server at one moment.
struct Sample {
  ServerView server;
  OperationMetrics metrics;
  Time at{};
};
using Samples = std::map<uint64_t, Sample>;  // by server id

/// The differences between two samples.
struct Row {
  std::string name, state;
  double reads = 0, writes = 0, others = 0;  // per second
  double p99_us = 0;                         // of all operations; 0: there were none
  double busy = 0;                           // share of a core that the reactor was working
  std::optional<double> live;                // share of the log that live objects take, if known
  double memory = 0;                         // share of the log in use
  uint64_t lag_bytes = 0;                    // appended, but not on all replicas yet
  uint64_t lacking = 0;                      // segments that lack a replica
};

Result<Samples> take(Session& session) {
  auto servers = ask_admin(session, [](AdminClient& admin) { return admin.servers(); });
  if (!servers) return fail(std::move(servers.error()));
  Samples samples;
  for (ServerView& server : *servers) {
    if (server.state == wire::ServerState::kRemoved) continue;
    Sample sample;
    if (server.state == wire::ServerState::kUp) {
      // A server that does not answer is shown without rates, because it may be the one that the
      // user is looking for.
      auto text = http_get(server.http_address, "/metrics", session.timeout_duration());
      if (text) sample.metrics = read_operation_metrics(*text);
    }
    sample.at = session.clock.now();
    const uint64_t id = server.id;
    sample.server = std::move(server);
    samples.emplace(id, std::move(sample));
  }
  return samples;
}

double rate(uint64_t now, uint64_t before, double seconds) {
  return now > before && seconds > 0 ? static_cast<double>(now - before) / seconds : 0;
}

Row compare(const Sample& now, const Sample* before) {
  const wire::ServerStats& stats = now.server.stats;
  Row row;
  row.name = now.server.name;
  row.state = now.server.state == wire::ServerState::kUp ? "UP" : "CRASHED";
  row.lag_bytes = stats.unreplicated_bytes;
  row.lacking = stats.segments_under_replicated;
  row.memory = stats.log_bytes_total == 0 ? 0
                                          : static_cast<double>(stats.log_bytes_used) /
                                                static_cast<double>(stats.log_bytes_total);
  row.live = live_share(stats);
  if (before == nullptr) return row;
  const double seconds = std::chrono::duration<double>(now.at - before->at).count();
  const OperationMetrics change = now.metrics.since(before->metrics);
  row.reads = rate(change.operations("read"), 0, seconds);
  row.writes = rate(change.operations("write"), 0, seconds);
  row.others = rate(change.operations(), 0, seconds) - row.reads - row.writes;
  row.p99_us = change.quantile(0.99) * 1e6;
  row.busy = seconds > 0 ? change.busy_seconds / seconds : 0;
  return row;
}

std::string per_second(double n) {
  return with_thousands(static_cast<uint64_t>(n + 0.5));
}

void print_rows(Session& session, const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const Row& row : rows) {
    cells.push_back({printable(row.name), row.state, per_second(row.reads), per_second(row.writes),
                     per_second(row.others),
                     row.p99_us > 0 ? fmt::format("{:.0f}us", row.p99_us) : "-",
                     fmt::format("{:.0f}%", row.busy * 100),
                     row.live ? fmt::format("{:.0f}%", *row.live * 100) : "-",
                     fmt::format("{:.0f}%", row.memory * 100), format_size(row.lag_bytes),
                     with_thousands(row.lacking)});
  }
  print_table(session.out,
              {"SERVER", "STATE", "READS/S", "WRITES/S", "OTHERS/S", "P99", "BUSY", "LIVE",
               "MEMORY", "LAG", "LACKING"},
              cells);
}

void print_json(Session& session, const std::vector<Row>& rows) {
  auto json = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    json.push_back(
        {{"server", row.name},
         {"state", row.state},
         {"reads_per_second", row.reads},
         {"writes_per_second", row.writes},
         {"others_per_second", row.others},
         {"p99_us", row.p99_us},
         {"busy", row.busy},
         {"live", row.live ? nlohmann::ordered_json(*row.live) : nlohmann::ordered_json()},
         {"memory", row.memory},
         {"unreplicated_bytes", row.lag_bytes},
         {"segments_under_replicated", row.lacking}});
  }
  session.out << json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << '\n';
}

int top(Session& session, const TopArguments& arguments) {
  const Duration interval = parse_duration(arguments.interval).value_or(1s);
  auto before = take(session);
  if (!before) return session.report(before.error());
  for (uint32_t shown = 0; arguments.count == 0 || shown < arguments.count; ++shown) {
    std::this_thread::sleep_for(interval);
    auto now = take(session);
    if (!now) return session.report(now.error());
    std::vector<Row> rows;
    for (const auto& [id, sample] : *now) {
      const auto old = before->find(id);
      rows.push_back(compare(sample, old == before->end() ? nullptr : &old->second));
    }
    if (session.json()) {
      print_json(session, rows);
    } else {
      // On a terminal each picture replaces the previous one.
      if (session.err_is_terminal) session.out << "\x1b[H\x1b[2J";
      print_rows(session, rows);
    }
    session.out.flush();
    if (!session.out) return kExitOk;  // the output was closed
    before = std::move(now);
  }
  return kExitOk;
}

}  // namespace

void add_top_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* command = app.add_subcommand("top", "Watch what each server does");
  command->add_option("--interval", arguments->interval, "How often")
      ->capture_default_str()
      ->type_name("DURATION")
      ->check(interval());
  command->add_option("--count", arguments->count, "Number of updates; 0: until interrupted")
      ->capture_default_str();
  command->footer(
      "P99 is the latency from arrival to reply of the operations of the last interval. BUSY is "
      "the\n"
      "share of a core that the server used. LIVE is the part of the log memory that live objects\n"
      "take, MEMORY the part in use. LAG is what is appended but not on all replicas yet. LACKING "
      "is\n"
      "the number of segments that lack a replica. With -o json, one line for each interval.");
  needs_cluster(*command, session, [&session, arguments] { return top(session, *arguments); });
}

}  // namespace ramcloud::cli
