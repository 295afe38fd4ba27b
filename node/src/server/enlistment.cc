#include "server/enlistment.h"

#include <fmt/core.h>

#include <utility>

#include "base/logging.h"
#include "wire/recovery_messages.h"

namespace ramcloud::server {
namespace {

constexpr CoordinatorLink::Patience kPatience{.attempt = 2s, .first_pause = 50ms, .last_pause = 1s};
/// How often it logs that no coordinator can be asked.
constexpr Duration kForgottenToldEvery = 60s;

}  // namespace

Enlistment::Enlistment(RpcClient& rpc, ServerList& servers, std::vector<Locator> coordinators,
                       std::function<void(Status)> on_fatal)
    : reactor_(rpc.reactor()),
      servers_(servers),
      coordinators_(rpc, std::move(coordinators)),
      on_fatal_(std::move(on_fatal)),
      list_changes_(servers.subscribe([this] {
        first_.assert_here();
        check_condemned();
      })),
      tasks_(reactor_) {}

void Enlistment::start(wire::EnlistRequest request, Serve serve) {
  serve_ = std::move(serve);
  tasks_.spawn(enlist(std::move(request)));
}

Task<void> Enlistment::enlist(wire::EnlistRequest request) {
  auto reply = co_await coordinators_.call_patiently<wire::EnlistReply>(
      wire::Opcode::kEnlist, request, kPatience,
      [](const Status& status) {
        return status == StatusCode::kWrongCluster || status == StatusCode::kInvalidArgument;
      },
      [](const Locator& coordinator, const Status& reason) {
        log_info("server.not_enlisted_yet",
                 {{"coordinator", coordinator.to_string()}, {"reason", reason}});
      });
  first_.assert_here();
  if (reply) co_return begin(std::move(request), *reply);
  if (reply.error() == StatusCode::kWrongCluster) {
    co_return leave({StatusCode::kWrongCluster,
                     fmt::format("the server's volume belongs to another cluster than all of its "
                                 "coordinators ({}): {}",
                                 coordinators_.addresses(), reply.error().message())});
  }
  leave(std::move(reply.error()));
}

/// The coordinator knows us: from here on this is server `reply.server_id`.
void Enlistment::begin(wire::EnlistRequest request, const wire::EnlistReply& reply) {
  enlisted_as_ = std::move(request);
  (void)servers_.apply(reply.list);  // a newer list may have arrived already
  if (Status status = serve_(reply); !status.ok()) return leave(std::move(status));
  server_id_ = reply.server_id;
  enlisted_ = true;
  set_not_ready({});
  heard_ = reactor_.now();
  tasks_.spawn(ask_when_forgotten());
  check_condemned();
}

void Enlistment::raise_epoch(const log::ReplicationFence& fence) {
  tasks_.spawn(tell_fence(fence));
}

/// Stores the answer for the turn that takes it.
Task<void> Enlistment::tell_fence(log::ReplicationFence fence) {
  Status status = co_await ask_to_raise(fence);
  first_.assert_here();
  fence_answer_ = {fence.epoch, std::move(status)};
  reactor_.nudge();
}

Task<Status> Enlistment::ask_to_raise(log::ReplicationFence fence) {
  auto reply = co_await coordinators_.call_patiently<wire::Empty>(
      wire::Opcode::kRaiseReplicationEpoch,
      wire::RaiseReplicationEpochRequest{server_id_, fence.lowest_open_segment, fence.epoch},
      kPatience,
      [](const Status& status) {
        return status == StatusCode::kCrashed || status == StatusCode::kStaleTerm;
      },
      [](const Locator& coordinator, const Status& reason) {
        log_warn("replication.epoch_not_raised_yet",
                 {{"coordinator", coordinator.to_string()}, {"reason", reason}});
      });
  if (!reply) co_return std::move(reply.error());
  first_.assert_here();
  confirmed_ = fence;
  co_return StatusCode::kOk;
}

Task<Status> Enlistment::grant_lease(Time deadline) {
  auto reply = co_await coordinators_.try_once<wire::Empty>(
      wire::Opcode::kGrantLease, wire::GrantLeaseRequest{server_id_}, deadline);
  co_return reply ? Status() : std::move(reply.error());
}

Task<Status> Enlistment::stop_serving(Time deadline) {
  first_.assert_here();
  left_ = true;  // from now on on_fatal decides
  const wire::StopServingRequest request{server_id_, enlisted_as_.nonce};
  auto reply = co_await coordinators_.call<wire::Empty>(wire::Opcode::kStopServing, request,
                                                        Repeat::kIdempotent, deadline);
  co_return reply ? Status() : std::move(reply.error());
}

/// If the cluster gave this server up while it was unreachable, nobody tells it. Without this
/// question it would run for ever beside the new owner of its data.
Task<void> Enlistment::ask_when_forgotten() {
  first_.assert_here();
  for (;;) {
    co_await reactor_.sleep(kForgottenAfter);
    if (reactor_.now() - heard_ < kForgottenAfter) {
      set_not_ready({});
      continue;
    }
    const Locator coordinator = coordinators_.target();
    auto list = co_await coordinators_.try_once<wire::ServerList>(
        wire::Opcode::kGetServerList, wire::GetServerListRequest{server_id_, enlisted_as_.locator},
        reactor_.now() + kPatience.attempt);
    if (!list) {
      cannot_ask(coordinator, list.error());
      continue;
    }
    set_not_ready({});
    log_info("server.asked_silent_coordinator",
             {{"coordinator", coordinator.to_string()}, {"list_version", list->version}});
    (void)servers_.apply(*list);  // its listener calls check_condemned()
    if (servers_.find(server_id_) == nullptr) {
      leave({StatusCode::kCrashed,
             fmt::format(
                 "the coordinator does not know server {} any more: it must restart with a new id",
                 server_id_.load())});
    }
  }
}

/// If coordinators are unreachable, or none leads, the server continues: it still owns its tablets.
/// If all of them serve another cluster, this server's cluster ended, and clients must not be sent
/// here.
void Enlistment::cannot_ask(const Locator& coordinator, const Status& reason) {
  if (reason == StatusCode::kWrongCluster) {
    set_not_ready(fmt::format("all of its coordinators ({}) belong to another cluster: {}",
                              coordinators_.addresses(), reason.message()));
  }
  if (told_forgotten_ && reactor_.now() - *told_forgotten_ < kForgottenToldEvery) return;
  told_forgotten_ = reactor_.now();
  log_warn("server.coordinator_unreachable",
           {{"coordinator", coordinator.to_string()},
            {"silent_for", format_duration(reactor_.now() - heard_)},
            {"reason", reason}});
}

/// A server that the cluster has given up must not serve any more: its data belongs to other
/// servers.
void Enlistment::check_condemned() {
  const ListedServer* self = server_id_ == 0 ? nullptr : servers_.find(server_id_);
  if (self == nullptr || self->live()) return;
  leave({StatusCode::kCrashed,
         fmt::format("the coordinator lists server {} as CRASHED: it must restart with a new id; "
                     "`ramcloud server show {}` gives the reason",
                     server_id_.load(), server_id_.load())});
}

void Enlistment::heard() {
  first_.assert_here();
  heard_ = reactor_.now();
}

wire::Restatement Enlistment::restate() const {
  first_.assert_here();
  wire::Restatement all;
  all.server_id = server_id_;
  all.enlisted = enlisted_as_;
  all.list = servers_.whole();
  all.lowest_open_segment = confirmed_.lowest_open_segment;
  all.epoch = confirmed_.epoch;
  return all;
}

void Enlistment::leave(Status why) {
  first_.assert_here();
  if (std::exchange(left_, true)) return;
  reactor_.defer([this, why = std::move(why)] { on_fatal_(why); });
}

std::string Enlistment::why_not_ready() const {
  const MutexGuard guard(mutex_);
  return not_ready_;
}

void Enlistment::set_not_ready(std::string why) {
  const MutexGuard guard(mutex_);
  not_ready_ = std::move(why);
}

}  // namespace ramcloud::server
