#include "server/control_service.h"

#include <utility>

#include "base/logging.h"
#include "wire/volume_messages.h"

namespace ramcloud::server {
namespace {

constexpr uint32_t kNotEnlistedRetryAfterUs = 10'000;

Status not_enlisted() {
  return {StatusCode::kRetry, "this server is not enlisted yet"};
}

}  // namespace

ControlService::ControlService(ServiceRegistry& registry, Reactor& reactor,
                               std::vector<Reactor*> others, ServerList& servers,
                               Enlistment& enlistment, const ServerStatistics& statistics,
                               const master::TabletService& tablets)
    : transport_(registry.transport()),
      servers_(servers),
      enlistment_(enlistment),
      statistics_(statistics),
      tablets_(tablets),
      all_reactors_(reactor, std::move(others)) {
  using wire::Opcode;
  using Self = ControlService;
  registry.add(Opcode::kPing, &call_member<&Self::ping, Self>, this);
  registry.add(Opcode::kUpdateServerList, &call_member<&Self::update_list, Self>, this);
  registry.add(Opcode::kGetServerStats, &call_member<&Self::get_stats, Self>, this);
  registry.add(Opcode::kRestate, &call_member<&Self::restate, Self>, this);
  registry.add(Opcode::kGetReplicasOn, &call_member<&Self::get_replicas_on, Self>, this);
  registry.add(Opcode::kResizeLog, &call_member<&Self::resize_log, Self>, this);
}

void ControlService::attach(Master& master, FrameStore& frames, LogResize& resize) {
  first_.assert_here();
  resize_ = &resize;
  master_ = &master;
  frames_ = &frames;
}

template <typename Message>
bool ControlService::take(const Request& request, Message& asked, const char* unreadable) {
  if (!request.decode(asked)) {
    reply_error(transport_, request.reply, {StatusCode::kInvalidArgument, unreadable});
    return false;
  }
  if (const Status term = servers_.check_term(asked.term); !term.ok()) {
    refuse(request.reply, term);
    return false;
  }
  return true;
}

void ControlService::refuse(const ReplyHandle& handle, const Status& status) {
  reply_error(transport_, handle, status, 0, servers_.refusal());
}

/// The server is healthy only if every reactor still runs: a healthy reactor must not hide one that
/// hangs.
void ControlService::ping(const Request& request) {
  all_reactors_.after_all_turned(
      [this, handle = request.reply] { transport_.reply(handle, StatusCode::kOk, {}); });
}

void ControlService::update_list(const Request& request) {
  first_.assert_here();
  wire::ServerList list;
  if (!request.decode(list)) {
    return reply_error(transport_, request.reply,
                       {StatusCode::kInvalidArgument, "server list does not decode"});
  }
  if (const Status status = servers_.apply(list); !status.ok()) {
    return refuse(request.reply, status);
  }
  enlistment_.heard();
  if (frames_ != nullptr) {
    if (const Status noted = frames_->note_list(list.term, list.version); !noted.ok()) {
      log_warn("backup.list_version_not_recorded", {{"reason", noted}});
    }
  }
  reply_message(transport_, request.reply, wire::Empty{});
}

/// The coordinator's probe. It also counts as a ping.
void ControlService::get_stats(const Request& request) {
  wire::GetServerStatsRequest asked;
  if (!take(request, asked, "stats request does not decode")) return;
  enlistment_.heard();
  all_reactors_.after_all_turned(
      [this, handle = request.reply] { reply_message(transport_, handle, statistics_.collect()); });
}

/// Asked by a coordinator whose metadata comes from an older export.
void ControlService::restate(const Request& request) {
  wire::RestateRequest asked;
  if (!take(request, asked, "restate: body does not decode")) return;
  if (!enlistment_.enlisted()) return reply_error(transport_, request.reply, not_enlisted());
  enlistment_.heard();
  wire::Restatement all = enlistment_.restate();
  all.tables = tablets_.restate();
  log_info("server.restated", {{"term", asked.term}, {"tables", all.tables.size()}});
  reply_message(transport_, request.reply, all);
}

void ControlService::get_replicas_on(const Request& request) {
  first_.assert_here();
  wire::GetReplicasOnRequest asked;
  if (!take(request, asked, "question does not decode")) return;
  if (master_ == nullptr) {
    return reply_error(transport_, request.reply, not_enlisted(), kNotEnlistedRetryAfterUs);
  }
  wire::ReplicasOn reply{.list_version = servers_.version()};
  if (ReplicaManager* replicas = master_->replicas()) {
    replicas->expect_no_return(asked.server_ids);  // somebody wants to delete the volume
    const BackupTable::Need need = replicas->need_of(asked.server_ids);
    reply.counted = need.counted;
    reply.missed = need.missed;
  }
  reply_message(transport_, request.reply, reply);
}

void ControlService::resize_log(const Request& request) {
  first_.assert_here();
  wire::ResizeLogRequest asked;
  if (!take(request, asked, "resize: body does not decode")) return;
  if (resize_ == nullptr) {
    return reply_error(transport_, request.reply, not_enlisted(), kNotEnlistedRetryAfterUs);
  }
  if (asked.log_bytes != 0) {
    if (const Status status = resize_->set(asked.log_bytes); !status.ok()) {
      return reply_error(transport_, request.reply, status);
    }
  }
  reply_message(transport_, request.reply, resize_->state());
}

}  // namespace ramcloud::server
