// ramcloud recovery list|show, ramcloud recoveries: by the coordinator's admin API.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands/interrupts.h"
#include "cli/commands/recovery_view.h"
#include "cli/daemons.h"
#include "cli/formats/output.h"
#include "cli/session.h"
#include "cli/usage.h"

namespace ramcloud::cli {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<ClusterStatus> ask_status(Session& session) {
  return ask_admin(session, [](AdminClient& admin) { return admin.status(); });
}

int list(Session& session) {
  const auto status = ask_status(session);
  if (!status) return session.report(status.error());
  if (session.json()) {
    ordered_json list = ordered_json::array();
    for (const RecoveryView* one : all_recoveries(*status)) list.push_back(recovery_json(*one));
    session.out << dump(list) << '\n';
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  const uint64_t now_ms = SystemClock().unix_ms();
  for (const RecoveryView* one : all_recoveries(*status)) {
    rows.push_back(recovery_row(*one, now_ms));
  }
  print_table(session.out, recovery_header(), rows);
  return kExitOk;
}

int show(Session& session, uint64_t id) {
  const auto status = ask_status(session);
  if (!status) return session.report(status.error());
  const auto all = all_recoveries(*status);
  const auto found = std::ranges::find(all, id, &RecoveryView::server_id);
  if (found == all.end()) {
    return session.report(
        {StatusCode::kNotFound,
         fmt::format("no recovery of server {} is known: it is not being recovered, and is not "
                     "among the last {} that were; `ramcloud recovery list` shows the ids",
                     id, kEndedRecoveries)});
  }
  if (session.json()) {
    session.out << dump(recovery_json(**found)) << '\n';
  } else {
    session.out << recovery_text(**found);
  }
  return kExitOk;
}

/// Prints the changes since the previous status.
class Watched {
 public:
  explicit Watched(Session& session) : session_(session) {}

  void show(const ClusterStatus& status) {
    if (session_.out_is_terminal && !session_.json()) {
      draw(status);
    } else {
      print_changes(status);
    }
    session_.out.flush();
  }

 private:
  /// Overwrites the previous picture line by line, because clearing it first would flicker.
  void draw(const ClusterStatus& status) {
    constexpr size_t kEndedShown = 5;
    const auto all = all_recoveries(status);
    const size_t shown = std::min(all.size(), status.recoveries.size() + kEndedShown);
    if (!drawn_) session_.out << "\x1b[2J";
    drawn_ = true;
    session_.out << fmt::format("\x1b[H{} not done, {} ended; Ctrl-C ends\x1b[K\n",
                                status.recoveries.size(), status.recoveries_ended.size());
    for (size_t i = 0; i < shown; ++i) session_.out << recovery_bar(*all[i]) << "\x1b[K\n";
    session_.out << "\x1b[J";
  }

  void print_changes(const ClusterStatus& status) {
    std::map<uint64_t, RecoveryView> now;
    for (const RecoveryView* one : all_recoveries(status)) {
      if (!now.emplace(one->server_id, *one).second) continue;
      const auto before = before_.find(one->server_id);
      if (before != before_.end() && before->second == *one) continue;
      session_.out << (session_.json() ? dump(recovery_json(*one)) : recovery_line(*one)) << '\n';
    }
    for (const auto& [id, gone] : before_) {
      if (!now.contains(id)) print_gone(gone);
    }
    before_ = std::move(now);
  }

  /// A coordinator of an earlier version does not list ended recoveries, and a new leader does not
  /// know them.
  void print_gone(const RecoveryView& gone) {
    if (session_.json()) {
      session_.out << dump({{"server_id", gone.server_id}, {"listed", false}}) << '\n';
    } else {
      session_.out << fmt::format("server {}: not listed any more\n", gone.server_id);
    }
  }

  Session& session_;
  std::map<uint64_t, RecoveryView> before_;  // by server; for lines
  bool drawn_ = false;
};

int watch(Session& session, Duration interval) {
  Interrupts interrupts;
  Watched watched(session);
  auto status = ask_status(session);
  if (!status) return session.report(status.error());
  bool answers = true;
  for (;;) {
    if (status) {
      watched.show(*status);
    } else if (answers) {
      session.report(status.error(), "asking again");
    }
    answers = status.has_value();
    if (!session.out) return kExitOk;  // the output was closed
    if (interrupts.wait(interval)) return kExitOk;
    status = ask_status(session);
  }
}

/// Of what `list` and `show` have in common.
constexpr const char* kCommonFooter =
    "ATTEMPT is the number of the latest attempt. Attempts are numbered over all recoveries, so\n"
    "it is no count. OUTCOME is COMPLETE, TAIL_LOST, LOSS_ACCEPTED or ALL_LOST: the server had no\n"
    "replicas (--replicas 0), so all objects of its tablets are lost.";

struct ListArguments {
  bool watch = false;
  std::string interval = "1s";
};

void add_list_options(CLI::App& command, Session& session) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::Option* watched = command.add_flag(
      "--watch", arguments->watch,
      "Repeat until interrupted: progress bars on a terminal, otherwise a line for each change");
  command.add_option("--interval", arguments->interval, "Time between two queries of --watch")
      ->capture_default_str()
      ->type_name("DURATION")
      ->needs(watched)
      ->check(interval());
  command.footer(
      "STATE is DETECTED, PLANNING, REPLAYING, WAITING, BLOCKED or, after the end, DONE. SECONDS "
      "is\n"
      "the time since the server's last answer; after the end, the time from that answer until\n"
      "everything was served. ? means: not known. With -o json, --watch prints one object a "
      "line.\n" +
      std::string(kCommonFooter));
  needs_cluster(command, session, [&session, arguments] {
    if (!arguments->watch) return list(session);
    return watch(session, parse_duration(arguments->interval).value_or(1s));
  });
}

}  // namespace

void add_recovery_command(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand(
      "recovery",
      "Show the recoveries of crashed servers, and accept the loss of data that is missing");
  group->require_subcommand(0, 1);
  add_list_options(*group->add_subcommand("list",
                                          "List recoveries of crashed servers, and what they wait "
                                          "for; also the last 20 that ended"),
                   session);
  auto id = std::make_shared<uint64_t>(0);
  CLI::App* show_command = group->add_subcommand(
      "show", "Show one recovery: times, partitions, memory, and segments that are missing");
  show_command
      ->add_option("ID", *id, "The crashed server's id, as `ramcloud recovery list` shows it")
      ->required()
      ->check(recovery_id());
  show_command->footer(kCommonFooter);
  needs_cluster(*show_command, session, [&session, id] { return show(session, *id); });
  add_accept_loss_commands(*group, session);

  add_list_options(
      *app.add_subcommand("recoveries", "List recoveries (as `ramcloud recovery list`)"), session);
}

}  // namespace ramcloud::cli
