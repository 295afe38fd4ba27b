// ramcloud trace read|write: shows where the time of one operation is spent, from the time-traces
// of all involved processes ([Ousterhout15], figures 10 and 11).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/time_trace.h"
#include "cli/daemons.h"
#include "cli/formats/output.h"
#include "wire/message_header.h"

namespace ramcloud::cli {
namespace {

struct TraceArguments {
  bool write = false;
  std::string table, key, value;
  uint32_t times = 200;
};

struct Event {
  int64_t unix_ns = 0;
  std::string what;
  uint64_t id = 0, value = 0;
  std::string where;
};
using Events = std::vector<Event>;

std::string operation_name(uint64_t opcode) {
  using wire::Opcode;
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::kRead:
      return "read";
    case Opcode::kWrite:
      return "write";
    case Opcode::kReplicaOpen:
      return "replica open";
    case Opcode::kReplicaWrite:
      return "replica write";
    default:
      return fmt::format("operation {}", opcode);
  }
}

/// One call in its sender's trace.
struct Call {
  Event sent, received;
  int64_t duration_ns() const { return received.unix_ns - sent.unix_ns; }
};

/// The calls of operation `opcode`, each with its reply.
std::vector<Call> calls_of(const std::vector<TraceEvent>& events, uint16_t opcode) {
  std::vector<Call> calls;
  for (const TraceEvent& e : events) {
    if (e.value != opcode) continue;
    const Event event{e.unix_ns, e.what, e.id, e.value, "client"};
    if (e.what == "request sent") {
      calls.push_back({event, {}});
    } else if (e.what == "reply received") {
      for (Call& call : calls) {
        if (call.sent.id == e.id) call.received = event;
      }
    }
  }
  std::erase_if(calls, [](const Call& call) { return call.received.unix_ns == 0; });
  return calls;
}

Result<Events> events_of(const ServerView& server, Duration timeout) {
  auto text = http_get(server.http_address, "/trace", timeout);
  if (!text) return fail(std::move(text.error()));
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (json.is_discarded() || !json.contains("events")) {
    return fail(StatusCode::kProtocolError,
                fmt::format("{} answers /trace with what is not a trace", server.http_address));
  }
  Events events;
  for (const auto& e : json["events"]) {
    events.push_back({e.value("unix_ns", int64_t{0}), e.value("what", ""),
                      e.value("id", uint64_t{0}), e.value("value", uint64_t{0}), server.name});
  }
  return events;
}

/// The part of a server's trace from the arrival of this call to its reply; empty if it did not
/// arrive there. Calls of other clients may have the same id; the nearest in time is taken.
Events served_part(const Events& events, const Call& call) {
  constexpr int64_t kClocksDiffer = 50'000'000;  // ns, between machines
  auto best = events.end();
  for (auto it = events.begin(); it != events.end(); ++it) {
    if (it->what != "request received" || it->id != call.sent.id || it->value != call.sent.value) {
      continue;
    }
    const auto distance = [&](auto e) { return std::abs(e->unix_ns - call.sent.unix_ns); };
    if (distance(it) > kClocksDiffer) continue;
    if (best == events.end() || distance(it) < distance(best)) best = it;
  }
  Events part;
  for (auto it = best; it != events.end(); ++it) {
    part.push_back(*it);
    if (it->what == "reply sent" && it->id == call.sent.id && it->value == call.sent.value) {
      return part;
    }
  }
  return {};  // overwritten by newer events, or never at this server
}

/// Everything that happened for `call`, in order: the client, the master, and backups while the
/// master waited for them.
Events timeline(const Call& call, const std::vector<Events>& servers) {
  Events all = {call.sent, call.received};
  for (size_t master = 0; master < servers.size(); ++master) {
    const Events part = served_part(servers[master], call);
    if (part.empty()) continue;
    for (const Event& event : part) all.push_back(event);
    for (size_t backup = 0; backup < servers.size(); ++backup) {
      if (backup == master) continue;
      for (const Event& event : servers[backup]) {
        const bool replica = event.value >= static_cast<uint64_t>(wire::Opcode::kReplicaOpen) &&
                             event.value <= static_cast<uint64_t>(wire::Opcode::kReplicaFree);
        if (replica && event.unix_ns >= part.front().unix_ns &&
            event.unix_ns <= part.back().unix_ns) {
          all.push_back(event);
        }
      }
    }
  }
  std::ranges::sort(all, {}, &Event::unix_ns);
  return all;
}

void print(Session& session, const TraceArguments& arguments, const Events& events,
           const std::vector<Call>& calls) {
  const int64_t begin = events.front().unix_ns;
  if (session.json()) {
    auto json = nlohmann::ordered_json::array();
    for (const Event& e : events) {
      json.push_back({{"at_ns", e.unix_ns - begin},
                      {"where", e.where},
                      {"event", e.what},
                      {"operation", operation_name(e.value)},
                      {"call", e.id}});
    }
    session.out << json.dump() << '\n';
    return;
  }
  session.out << fmt::format("{} of {} calls with the median latency, {}:\n",
                             arguments.write ? "the write" : "the read", calls.size(),
                             format_duration(Duration(calls[calls.size() / 2].duration_ns())));
  std::vector<std::vector<std::string>> rows;
  int64_t last = begin;
  for (const Event& e : events) {
    rows.push_back({fmt::format("{:.1f}", static_cast<double>(e.unix_ns - begin) / 1e3),
                    fmt::format("+{:.1f}", static_cast<double>(e.unix_ns - last) / 1e3),
                    printable(e.where), fmt::format("{} ({})", e.what, operation_name(e.value))});
    last = e.unix_ns;
  }
  print_table(session.out, {"US", "STEP", "WHERE", "EVENT"}, rows);
}

/// Runs the operations one after the other; this process's own steps are in `trace`.
Status run_calls(Session& session, const TraceArguments& arguments, uint64_t table_id,
                 TimeTrace& trace) {
  session.core().reactor().set_trace(&trace);
  Status status;
  for (uint32_t i = 0; i < arguments.times && status.ok(); ++i) {
    if (arguments.write) {
      auto written =
          session.client().run(session.core().write(table_id, arguments.key, arguments.value));
      if (!written) status = std::move(written.error());
    } else {
      auto found = session.client().run(session.core().read(table_id, arguments.key));
      if (!found) status = std::move(found.error());
    }
  }
  session.core().reactor().set_trace(nullptr);
  return status;
}

int trace(Session& session, const TraceArguments& arguments) {
  auto table = open_table(session, arguments.table);
  if (!table) return session.report(table.error());
  TimeTrace own;
  if (const Status status = run_calls(session, arguments, table->table_id, own); !status.ok()) {
    return session.report(status, "table '" + arguments.table + "'");
  }
  const auto opcode =
      static_cast<uint16_t>(arguments.write ? wire::Opcode::kWrite : wire::Opcode::kRead);
  std::vector<Call> calls = calls_of(own.snapshot(), opcode);
  if (calls.empty()) {
    return session.report({StatusCode::kInternal, "no call is in this process' own trace"});
  }
  std::ranges::sort(calls, {}, &Call::duration_ns);
  auto servers = live_servers(session);
  if (!servers) return session.report(servers.error());
  std::vector<Events> traces;
  for (const ServerView& server : *servers) {
    auto events = events_of(server, session.timeout_duration());
    if (!events) return session.report(events.error(), server.name);
    traces.push_back(std::move(*events));
  }
  print(session, arguments, timeline(calls[calls.size() / 2], traces), calls);
  return kExitOk;
}

void add_operation(CLI::App& group, Session& session, bool write) {
  auto arguments = std::make_shared<TraceArguments>();
  arguments->write = write;
  CLI::App* command = group.add_subcommand(
      write ? "write" : "read",
      write ? "Write a key several times; the object keeps the value" : "Read a key several times");
  command->add_option("TABLE", arguments->table, "The table's name")->required();
  command->add_option("KEY", arguments->key, "The object's key")->required();
  if (write) command->add_option("VALUE", arguments->value, "Value to write")->required();
  command->add_option("--times", arguments->times, "Number of operations; the median is shown")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1000u));  // limited by the size of the trace rings of busy servers
  needs_cluster(*command, session, [&session, arguments] { return trace(session, *arguments); });
}

}  // namespace

void add_trace_command(CLI::App& app, Session& session) {
  CLI::App* group =
      app.add_subcommand("trace", "Show where the time of one operation goes, step by step");
  group->require_subcommand(0, 1);
  group->footer(
      "Every daemon keeps its last events in memory (its HTTP port's /trace); this command\n"
      "combines those of the client, the master and the backups. Steps of different machines are\n"
      "only as exact as the clocks of the machines agree.");
  add_operation(*group, session, false);
  add_operation(*group, session, true);
}

}  // namespace ramcloud::cli
