#include "client/coordinator_link.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/sometimes.h"
#include "client/back_off.h"
#include "client/outcome.h"

namespace ramcloud {

CoordinatorLink::CoordinatorLink(RpcClient& rpc, std::vector<Locator> coordinators)
    : rpc_(rpc), coordinators_(std::move(coordinators)) {}

std::string CoordinatorLink::addresses() const {
  std::string text;
  for (const Locator& locator : coordinators_) {
    if (!text.empty()) text += ", ";
    text += locator.address.to_string();
  }
  return text;
}

void CoordinatorLink::try_another() {
  redirected_.reset();
  current_ = (current_ + 1) % coordinators_.size();
}

void CoordinatorLink::follow_redirect(const RpcReply& reply) {
  auto leader = leader_of(reply, coordinators_.front().transport);
  if (!leader || *leader == target()) return try_another();
  const auto known = std::find(coordinators_.begin(), coordinators_.end(), *leader);
  if (known == coordinators_.end()) {
    redirected_ = std::move(leader);
    return;
  }
  redirected_.reset();
  current_ = static_cast<size_t>(known - coordinators_.begin());
}

Task<RpcReply> CoordinatorLink::call_leader(wire::Opcode opcode, RpcClient::BodyFor body,
                                            Repeat repeat, Time deadline) {
  BackOff back_off;
  Status last(StatusCode::kUnavailable, "not asked yet");
  for (int attempt = 0;; ++attempt) {
    const Locator asked = target();
    const Time until = repeat == Repeat::kSafe
                           ? std::min(deadline, rpc_.reactor().now() + attempt_timeout(attempt))
                           : deadline;
    RpcReply reply = co_await rpc_.call_with(asked, 0, opcode, body, until);
    if (reply.ok()) co_return reply;

    const StatusCode code = reply.status.code();
    Duration wait{};
    switch (outcome_of(code)) {
      case Outcome::kFinal:
        co_return reply;
      case Outcome::kMaybeDone:
        if (repeat == Repeat::kUnsafe) {
          RC_SOMETIMES("client.outcome_of_a_table_change_is_unknown");
          reply.status = {StatusCode::kIndeterminate,
                          fmt::format("coordinator {}: the reply was lost ({}); it may or may not "
                                      "have happened",
                                      asked.address.to_string(), reply.status.to_string())};
          co_return reply;
        }
        if (target() == asked) try_another();
        break;
      case Outcome::kNotDone:
        if (code == StatusCode::kNotLeader) {
          RC_SOMETIMES("client.is_sent_to_the_leader");
          if (target() == asked) follow_redirect(reply);
        } else if (code == StatusCode::kRetry) {
          wait = std::chrono::microseconds(reply.retry_after_us);
        } else if (target() == asked) {
          try_another();
        }
        break;
    }
    last = std::move(reply.status);
    wait = back_off.next(rpc_.reactor().random(), wait);
    if (deadline - rpc_.reactor().now() <= wait) break;
    co_await rpc_.reactor().sleep(wait);
  }
  RpcReply failed;
  failed.status = {StatusCode::kUnavailable,
                   fmt::format("no leading coordinator answered in time at {}; the last said: {}",
                               addresses(), last.to_string())};
  co_return failed;
}

}  // namespace ramcloud
