// The final orders to recovery masters: serve the tablets that the metadata assigns to you, and
// give up the rest. docs/design/recovery.md#recovery-of-one-server.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "coordinator/core/changes.h"
#include "coordinator/core/recovery_calls.h"

namespace ramcloud {

/// Tablets of one table that one attempt handed over to one server.
struct ServedRanges {
  static constexpr uint64_t kAnyMaster = 0;
  uint64_t master_id = kAnyMaster;  // dead; which one is not known of orders of former leaders
  uint64_t server_id = 0;
  uint64_t table_id = 0;
  uint64_t attempt = 0;
  std::vector<wire::HashRange> ranges;
};

class ServeOrders {
 public:
  struct Options {
    Duration timeout = 1s;  // of one try
    Duration retry_min = 50ms;
    Duration retry_max = 1s;
  };
  ServeOrders(Reactor& reactor, ClusterState& state, RecoveryCalls& calls, Changes& changes,
              const Options& options)
      : reactor_(reactor),
        state_(state),
        calls_(calls),
        changes_(changes),
        options_(options),
        scope_(reactor) {}

  /// Sends the order to the owners of all recovered tablets, because an earlier leader may not have
  /// sent it.
  void tell_all();
  /// Repeats the order until it is acknowledged, or the metadata do not match it any more. Returns
  /// at once.
  void serve(ServedRanges served) { scope_.spawn(serve_until_heard(std::move(served))); }
  /// Orders the server to give up what it recovered of this dead master, up to this attempt.
  /// Returns at once. The order is sent only after all serve orders to that server are
  /// acknowledged, because it would give up those tablets as well.
  void abort(uint64_t server_id, uint64_t master_id, uint64_t attempt);
  /// Orders all servers to give up what attempts up to this one recovered of any dead master and
  /// they do not serve: former leaders ordered it, and may not have given it up. After tell_all().
  void give_up_former(uint64_t attempt);
  /// No order is repeated for tablets that may have been of this dead master.
  bool all_serve(uint64_t master_id) const {
    return std::ranges::none_of(serving_, [&](const auto& order) {
      return order.second == master_id || order.second == ServedRanges::kAnyMaster;
    });
  }

 private:
  /// Which of the ranges the server still owns by this attempt.
  std::vector<wire::HashRange> still_its(const ServedRanges& served) const;
  void show(const ServedRanges& served, bool not_there);
  Task<void> serve_until_heard(ServedRanges served);
  Task<void> abort_until_heard(uint64_t server_id, uint64_t master_id, uint64_t attempt);

  Reactor& reactor_;
  ClusterState& state_;
  RecoveryCalls& calls_;
  Changes& changes_;
  const Options& options_;
  std::multimap<uint64_t, uint64_t> serving_;  // server, dead master
  TaskScope scope_;
};

}  // namespace ramcloud
