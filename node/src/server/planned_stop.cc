#include "server/planned_stop.h"

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud::server {
namespace {

std::vector<Reactor*> others_of(const std::vector<ServerReactor*>& reactors) {
  std::vector<Reactor*> others;
  for (size_t i = 1; i < reactors.size(); ++i) others.push_back(&reactors[i]->reactor());
  return others;
}

}  // namespace

PlannedStop::PlannedStop(Master& master, Enlistment& enlistment,
                         std::vector<ServerReactor*> reactors, Limits limits)
    : master_(master),
      enlistment_(enlistment),
      reactors_(std::move(reactors)),
      limits_(limits),
      reactor_(reactors_.front()->reactor()),
      round_(reactor_, others_of(reactors_)) {}

Task<Status> PlannedStop::run() {
  if (master_.replicas() == nullptr) {
    co_return Status(StatusCode::kUnsupported, "without replicas nobody can serve what it has");
  }
  log_info("server.stops", {{"server_id", enlistment_.server_id()}});
  reactors_.front()->plane().refuse_operations();
  for (size_t i = 1; i < reactors_.size(); ++i) {
    reactors_[i]->reactor().post([plane = &reactors_[i]->plane()] { plane->refuse_operations(); });
  }
  co_await all_turned();
  co_await flush();
  // Wait for every reactor: one may have read the lease before it ended, and answer later in the
  // same turn.
  master_.lease().end();
  co_await all_turned();
  Status told = co_await enlistment_.stop_serving(reactor_.now() + limits_.announce);
  if (told.ok()) {
    log_info("server.stop_announced", {{"server_id", enlistment_.server_id()}});
    co_await linger();
  } else {
    log_warn("server.stop_not_announced",
             {{"server_id", enlistment_.server_id()}, {"reason", told}});
  }
  co_return told;
}

Task<void> PlannedStop::all_turned() {
  Event turned(reactor_);
  round_.after_all_turned([&turned] { turned.set(); });
  co_await turned;
}

/// Everything appended is durable, and no reply is held that could be sent.
bool PlannedStop::nothing_waits() const {
  const log::Log& log = master_.log();
  return log.durable() >= log.head() && std::ranges::none_of(reactors_, [](ServerReactor* one) {
           return one->plane().replies().waiting();
         });
}

uint64_t PlannedStop::refused() const {
  uint64_t sum = 0;
  for (ServerReactor* one : reactors_) sum += one->plane().refused();
  return sum;
}

/// If a connection closes while a request is on it, its client does not know whether the request
/// was carried out. So the server keeps sending clients to the next owners until no request has
/// come for a while.
Task<void> PlannedStop::linger() {
  constexpr Duration kLook = 10ms;
  constexpr Duration kQuiet = 500ms;
  const Time until = reactor_.now() + limits_.linger;
  uint64_t seen = refused();
  Time last = reactor_.now();
  while (reactor_.now() < until && reactor_.now() - last < kQuiet) {
    co_await reactor_.sleep(kLook);
    if (const uint64_t now = refused(); now != seen) {
      seen = now;
      last = reactor_.now();
    }
  }
}

/// Waits until held replies have left. They cannot leave if backups do not answer; then the clients
/// must ask the next owner.
Task<void> PlannedStop::flush() {
  constexpr Duration kLook = 1ms;
  const Time until = reactor_.now() + limits_.flush;
  // Twice: in between, a multi-operation may have had a slice left.
  for (int in_a_row = 0; in_a_row < 2 && reactor_.now() < until;) {
    in_a_row = nothing_waits() ? in_a_row + 1 : 0;
    co_await reactor_.sleep(kLook);
  }
  if (!nothing_waits()) RC_SOMETIMES("server.stops_with_replies_that_wait");
}

}  // namespace ramcloud::server
