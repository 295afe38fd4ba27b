#include "coordinator/core/serve_orders.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"
#include "rpc/back_off.h"

namespace ramcloud {

void ServeOrders::tell_all() {
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, ServedRanges> all;
  for (const auto& [id, table] : state_.tables) {
    if (table.state != TableState::kNormal) continue;
    for (const TabletRecord& tablet : table.tablets) {
      if (tablet.attempt == 0 || tablet.status != TabletStatus::kNormal) continue;
      if (state_.up_server(tablet.server_id) == nullptr) continue;
      ServedRanges& of = all[{tablet.server_id, id, tablet.attempt}];
      of.server_id = tablet.server_id;
      of.table_id = id;
      of.attempt = tablet.attempt;
      of.ranges.push_back({id, tablet.start_hash, tablet.end_hash});
    }
  }
  for (auto& [key, served] : all) serve(std::move(served));
}

std::vector<wire::HashRange> ServeOrders::still_its(const ServedRanges& served) const {
  std::vector<wire::HashRange> ranges;
  const auto table = state_.tables.find(served.table_id);
  if (table == state_.tables.end() || table->second.state != TableState::kNormal) return ranges;
  for (const TabletRecord& tablet : table->second.tablets) {
    if (tablet.server_id != served.server_id || tablet.attempt != served.attempt ||
        tablet.status != TabletStatus::kNormal) {
      continue;
    }
    const wire::HashRange range{served.table_id, tablet.start_hash, tablet.end_hash};
    const bool asked = std::ranges::any_of(served.ranges, [&](const wire::HashRange& one) {
      return one.start_hash == range.start_hash && one.end_hash == range.end_hash;
    });
    if (asked) ranges.push_back(range);
  }
  return ranges;
}

/// Shows it in the cluster's status.
void ServeOrders::show(const ServedRanges& served, bool not_there) {
  const ClusterState::NotThere one{served.server_id, served.table_id, served.attempt};
  const bool changed =
      not_there ? state_.not_there.insert(one).second : state_.not_there.erase(one) > 0;
  if (changed) changes_.status_changed();
}

Task<void> ServeOrders::serve_until_heard(ServedRanges served) {
  BackOff back_off(options_.retry_min, options_.retry_max);
  const auto place = serving_.emplace(served.server_id, served.master_id);
  while (state_.up_server(served.server_id) != nullptr) {
    wire::ServeRecoveredRequest request;
    request.tablets = still_its(served);
    if (request.tablets.empty()) break;
    request.revision = state_.tables.at(served.table_id).latest_revision();
    request.attempt = served.attempt;
    RC_FAILPOINT("coordinator.recovery.before_serve");
    const auto told = co_await calls_.call<wire::Empty>(
        served.server_id, wire::Opcode::kServeRecovered, request, options_.timeout);
    if (told) {
      RC_FAILPOINT("coordinator.recovery.served");
      break;
    }
    // The server does not have what the metadata say it has: report it to people.
    const bool lost = told.error() == StatusCode::kNotFound;
    if (lost) {
      show(served, true);
      log_error("recovery.owner_has_nothing", {{"server", served.server_id},
                                               {"table", served.table_id},
                                               {"attempt", served.attempt},
                                               {"error", told.error()}});
    }
    co_await reactor_.sleep(
        back_off.next(reactor_.random(), lost ? options_.retry_max : Duration{}));
  }
  show(served, false);
  serving_.erase(place);
}

void ServeOrders::give_up_former(uint64_t attempt) {
  for (const auto& [id, server] : state_.servers) {
    if (server.up()) abort(id, wire::AbortRecoveryRequest::kAllMasters, attempt);
  }
}

void ServeOrders::abort(uint64_t server_id, uint64_t master_id, uint64_t attempt) {
  scope_.spawn(abort_until_heard(server_id, master_id, attempt));
}

Task<void> ServeOrders::abort_until_heard(uint64_t server_id, uint64_t master_id,
                                          uint64_t attempt) {
  BackOff back_off(options_.retry_min, options_.retry_max);
  while (state_.up_server(server_id) != nullptr) {
    if (!serving_.contains(server_id)) {
      const auto heard = co_await calls_.call<wire::Empty>(
          server_id, wire::Opcode::kAbortRecovery,
          wire::AbortRecoveryRequest{0, master_id, attempt}, options_.timeout);
      if (heard || heard.error() == StatusCode::kUnsupported) co_return;
    } else {
      RC_SOMETIMES("coordinator.abort_waits_until_others_are_served");
    }
    co_await reactor_.sleep(back_off.next(reactor_.random()));
  }
}

}  // namespace ramcloud
