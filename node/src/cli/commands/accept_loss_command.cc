// ramcloud recovery accept-loss|losses, with the coordinator's admin API.
#include <fmt/core.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
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

/// "ada@desk": for the audit record; the coordinator cannot verify it.
std::string who() {
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  const passwd* user = getpwuid(geteuid());
  const std::string name = user != nullptr ? user->pw_name : std::to_string(geteuid());
  return printable(fmt::format("{}@{}", name, host)).substr(0, 255);
}

/// The command that accepts the loss; the operator types the reason again.
std::string command_of(uint64_t server_id, const LossPreview& preview) {
  return fmt::format("ramcloud recovery accept-loss {} --yes --token {}", server_id, preview.token);
}

std::string holders_of(const log::MissingSegment& segment) {
  std::string holders;
  for (const uint64_t id : segment.holders) {
    holders += (holders.empty() ? "" : ", ") + std::to_string(id);
  }
  return holders.empty() ? "?" : holders;
}

std::string segment_of(const log::MissingSegment& segment) {
  if (segment.segment_id == 0) return "?";
  return fmt::format("{}{}", segment.end ? "after " : "", segment.segment_id);
}

ordered_json preview_json(uint64_t server_id, const LossAnswer& answer) {
  const LossPreview& preview = answer.preview;
  ordered_json json = {{"server_id", server_id},
                       {"accepted", answer.accepted},
                       {"effect", answer.effect},
                       {"token", preview.token},
                       {"missing", ordered_json::array()},
                       {"more_missing", preview.more},
                       {"end_missing", preview.end_given_up},
                       {"newest_head", preview.newest_head},
                       {"segments_found", preview.segments_found},
                       {"bytes_found", preview.bytes_found},
                       {"bytes_missing", preview.bytes_lost},
                       {"tables", ordered_json::array()}};
  for (const log::MissingSegment& segment : preview.missing) {
    json["missing"].push_back({{"segment_id", segment.segment_id},
                               {"end", segment.end},
                               {"found_bytes", segment.found},
                               {"holders", segment.holders},
                               {"why", segment.why}});
  }
  for (const LossPreview::Table& table : preview.tables) {
    json["tables"].push_back(
        {{"name", table.name}, {"tablets", table.tablets}, {"share", table.share_of_table}});
  }
  json["command"] = answer.accepted ? "" : command_of(server_id, preview);
  return json;
}

void print_preview(Session& session, const LossAnswer& answer) {
  const LossPreview& preview = answer.preview;
  session.out << printable(answer.effect) << '\n';
  if (preview.missing.empty()) return;
  std::vector<std::vector<std::string>> rows;
  for (const log::MissingSegment& segment : preview.missing) {
    rows.push_back({segment_of(segment), segment.end ? "?" : format_size(segment.found),
                    holders_of(segment), printable(segment.why)});
  }
  session.out << '\n';
  print_table(session.out, {"MISSING SEGMENT", "OF IT FOUND", "LAST HOLDERS", "WHY"}, rows);
  rows.clear();
  for (const LossPreview::Table& table : preview.tables) {
    rows.push_back({printable(table.name), std::to_string(table.tablets),
                    fmt::format("{:.1f}%", 100 * table.share_of_table)});
  }
  if (rows.empty()) return;
  session.out << '\n';
  print_table(session.out, {"TABLE", "TABLETS", "OF ITS HASHES"}, rows);
}

/// With --yes and no token, the present loss is accepted. The coordinator still gets the token of
/// the preview, and refuses if more is missing by then.
Result<LossAnswer> ask_to_accept(Session& session, LossRequest wanted) {
  const auto ask = [&] {
    return ask_admin(session, [&](AdminClient& admin) { return admin.accept_loss(wanted); });
  };
  if (!wanted.confirmed || !wanted.token.empty()) return ask();
  wanted.confirmed = false;
  const auto shown = ask();
  if (!shown) return shown;
  wanted.confirmed = true;
  wanted.token = shown->preview.token;
  return ask();
}

int accept_loss(Session& session, LossRequest wanted) {
  wanted.by = who();
  const uint64_t server_id = wanted.server_id;
  const auto answer = ask_to_accept(session, std::move(wanted));
  if (!answer) return session.report(answer.error());
  if (session.json()) {
    session.out << dump(preview_json(server_id, *answer)) << '\n';
  } else {
    if (answer->accepted) session.out << "accepted: ";
    print_preview(session, *answer);
  }
  if (answer->accepted) return kExitOk;
  session.err << "nothing was changed; what is shown is accepted by\n  "
              << command_of(server_id, answer->preview) << '\n';
  return kExitFailed;
}

ordered_json loss_json(const AcceptedLossRecord& loss) {
  ordered_json json = {{"server_id", loss.server_id},
                       {"accepted_at_ms", loss.accepted_at_ms},
                       {"by", loss.by},
                       {"reason", loss.reason},
                       {"summary", loss.summary},
                       {"token", loss.token},
                       {"segments", ordered_json::array()},
                       {"end_given_up", loss.end_given_up},
                       {"newest_head", loss.newest_head},
                       {"later_segments", loss.later},
                       {"revision", loss.revision}};
  for (const GivenUpSegment& segment : loss.segments) {
    json["segments"].push_back(
        {{"segment_id", segment.segment_id}, {"found_bytes", segment.found_bytes}});
  }
  return json;
}

/// "1, 7, 9 and 3 more; the end after 12".
std::string segments_text(const AcceptedLossRecord& loss) {
  constexpr size_t kNamed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(loss.segments.size(), kNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(loss.segments[i].segment_id);
  }
  if (loss.segments.size() > kNamed) {
    text += fmt::format(" and {} more", loss.segments.size() - kNamed);
  }
  if (!loss.end_given_up) return text;
  return text + fmt::format("{}the end after {}", text.empty() ? "" : "; ", loss.newest_head);
}

int losses(Session& session) {
  const auto all = ask_admin(session, [](AdminClient& admin) { return admin.accepted_losses(); });
  if (!all) return session.report(all.error());
  if (session.json()) {
    ordered_json list = ordered_json::array();
    for (const AcceptedLossRecord& loss : *all) list.push_back(loss_json(loss));
    session.out << dump(list) << '\n';
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const AcceptedLossRecord& loss : *all) {
    rows.push_back({std::to_string(loss.server_id), time_text(loss.accepted_at_ms),
                    printable(loss.by), printable(loss.reason), segments_text(loss)});
  }
  print_table(session.out, {"SERVER", "ACCEPTED AT", "BY", "REASON", "SEGMENTS"}, rows);
  return kExitOk;
}

/// An empty token is that of a script whose variable is not set. It must not pass for no token,
/// with which everything is accepted.
CLI::Validator token_of_preview() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        // For `--token=` the parser takes the next word.
        if (text.empty() || text.starts_with('-')) {
          return fmt::format(
              "it is {}; run the command without --yes to see the token, or leave --token out to "
              "accept unseen whatever is missing now",
              text.empty() ? "empty" : fmt::format("'{}'", printable(text.substr(0, 64))));
        }
        return recorded_text(1)(text);
      },
      "");
}

}  // namespace

void add_accept_loss_commands(CLI::App& group, Session& session) {
  auto wanted = std::make_shared<LossRequest>();
  CLI::App* accept = group.add_subcommand(
      "accept-loss",
      "Accept the loss of the data that a BLOCKED recovery lacks, so that the rest is served. "
      "Without --yes: show what is lost, and the command that accepts it");
  accept
      ->add_option("ID", wanted->server_id,
                   "The crashed server's id, as `ramcloud recovery list` shows it")
      ->required()
      ->check(recovery_id());
  accept->add_flag(
      "--yes", wanted->confirmed,
      "Do it. It cannot be undone: replicas that come back later are not used any more");
  accept
      ->add_option(
          "--token", wanted->token,
          "With --yes: the token of the preview, so that only the loss that you have seen is "
          "accepted. Without --token, everything that is missing now is accepted")
      ->check(token_of_preview());
  accept
      ->add_option("--reason", wanted->reason,
                   "The reason; it is recorded for ever, with your name")
      ->check(recorded_text(0));
  needs_cluster(*accept, session, [&session, wanted] { return accept_loss(session, *wanted); });

  CLI::App* list = group.add_subcommand(
      "losses", "List the losses that were accepted with accept-loss; they are recorded for ever");
  needs_cluster(*list, session, [&session] { return losses(session); });
}

}  // namespace ramcloud::cli
