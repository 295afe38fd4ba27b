#include "backup/lease_service.h"

#include <fmt/format.h>

#include "base/sometimes.h"
#include "wire/control_messages.h"
#include "wire/recovery_messages.h"

namespace ramcloud {
namespace {

constexpr uint32_t kRetryAfterUs = 10'000;

}  // namespace

void LeaseService::on_renew(const Request& request) {
  wire::RenewLeaseRequest asked;
  if (!request.decode(asked)) {
    return reply_error(transport_, request.reply,
                       {StatusCode::kInvalidArgument, "lease renewal: does not decode"});
  }
  if (const Status judged = judge(asked.master_id); !judged.ok()) {
    const uint32_t retry_after_us = judged == StatusCode::kRetry ? kRetryAfterUs : 0;
    return reply_error(transport_, request.reply, judged, retry_after_us);
  }
  reply_message(transport_, request.reply, wire::Empty{});
}

/// Recovery reads a master's replicas only after they are frozen. So OK means that no other server
/// has taken over.
Status LeaseService::judge(uint64_t master_id) const {
  if (replicas_.frozen(master_id)) {
    RC_SOMETIMES("backup.frozen_master_gets_no_lease");
    return {StatusCode::kCrashed,
            fmt::format("master {} is being recovered: it has no lease any more", master_id)};
  }
  const ListedServer* master = servers_.find(master_id);
  if (master == nullptr) {  // not in the list yet, or not any more
    return {StatusCode::kRetry,
            fmt::format("master {} is not in server list {}", master_id, servers_.version())};
  }
  if (master->live()) return {};
  return {StatusCode::kCrashed, fmt::format("master {} is listed as crashed in server list {}",
                                            master_id, servers_.version())};
}

}  // namespace ramcloud
