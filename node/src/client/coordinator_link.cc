#include "client/coordinator_link.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/sometimes.h"
#include "client/outcome.h"

namespace ramcloud {

CoordinatorLink::CoordinatorLink(RpcClient& rpc, std::vector<Locator> coordinators)
    : rpc_(rpc), coordinators_(std::move(coordinators)), strangers_(coordinators_.size()) {}

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

/// WRONG_CLUSTER from one address may only mean that the address was reused.
void CoordinatorLink::judge_cluster(const Locator& asked, RpcReply& reply) {
  const auto forget = [this] { strangers_.assign(coordinators_.size(), false); };
  if (reply.status != StatusCode::kWrongCluster) {
    const bool ours =
        reply.ok() || reply.status == StatusCode::kNotLeader || reply.status == StatusCode::kRetry;
    if (ours) forget();
    return;
  }
  for (size_t i = 0; i < coordinators_.size(); ++i) {
    if (coordinators_[i] == asked) strangers_[i] = true;
  }
  if (std::ranges::find(strangers_, false) == strangers_.end()) return forget();
  RC_SOMETIMES("client.coordinator_of_another_cluster_is_passed_by");
  reply.status = {
      StatusCode::kUnavailable,
      fmt::format("coordinator {}: {}", asked.address.to_string(), reply.status.message())};
}

Task<RpcReply> CoordinatorLink::attempt(wire::Opcode opcode, RpcClient::BodyFor body, Time until) {
  const Locator asked = target();
  RpcReply reply = co_await rpc_.call_with(asked, 0, opcode, std::move(body), until);
  judge_cluster(asked, reply);
  // Several calls may see the same failure: only the first switches to another coordinator.
  if (reply.ok() || target() != asked || outcome_of(reply.status.code()) == Outcome::kFinal) {
    co_return reply;
  }
  if (reply.status == StatusCode::kNotLeader) {
    RC_SOMETIMES("client.is_sent_to_the_leader");
    follow_redirect(reply);
  } else if (reply.status != StatusCode::kRetry) {
    try_another();
  }
  co_return reply;
}

namespace {

/// When the peer wants to be asked again. Peers with protocol version 1 tell it only with RETRY.
uint32_t asked_us(const RpcReply& reply, const Status& why) {
  if (reply.details.retry_after_us != 0) return reply.details.retry_after_us;
  return why == StatusCode::kRetry ? reply.retry_after_us : 0;
}

}  // namespace

Task<RpcReply> CoordinatorLink::call_leader(wire::Opcode opcode, RpcClient::BodyFor body,
                                            Repeat repeat, Time deadline) {
  BackOff back_off;
  Status last(StatusCode::kUnavailable, "not asked yet");
  bool maybe_done = false;
  for (int tries = 0;; ++tries) {
    const std::string asked = target().address.to_string();
    const Time until = repeat == Repeat::kUnsafe
                           ? deadline
                           : std::min(deadline, rpc_.reactor().now() + attempt_timeout(tries));
    RpcReply reply = co_await attempt(opcode, body, until);
    const Outcome outcome = outcome_of(reply.status.code());
    if (reply.ok() || outcome == Outcome::kFinal) co_return reply;
    if (outcome == Outcome::kMaybeDone && reply.sent && repeat != Repeat::kSafe) maybe_done = true;
    const Status why = std::move(reply.status);
    const Duration wait = back_off.next_asked(rpc_.reactor().random(), asked_us(reply, why));
    const bool over = deadline - rpc_.reactor().now() <= wait;
    if (maybe_done && (over || repeat == Repeat::kUnsafe)) {
      RC_SOMETIMES("client.outcome_of_a_table_change_is_unknown");
      reply.status = {StatusCode::kIndeterminate,
                      fmt::format("coordinator {}: the reply was lost ({}); it may or may not have "
                                  "happened",
                                  asked, why.to_string())};
      co_return reply;
    }
    last = why;
    if (over) break;
    co_await rpc_.reactor().sleep(wait);
  }
  RpcReply failed;
  failed.status = {StatusCode::kUnavailable,
                   fmt::format("no leading coordinator answered in time at {}; the last said: {}",
                               addresses(), last.to_string())};
  co_return failed;
}

}  // namespace ramcloud
