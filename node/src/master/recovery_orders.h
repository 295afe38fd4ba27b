// The coordinator's orders to a recovery master: recover tablets of a dead master, report progress,
// serve the tablets, or give them up (wire/recovery_messages.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "base/metrics.h"
#include "master/recovery_limits.h"
#include "master/tablet_recovery.h"
#include "master/tablet_service.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/async_mutex.h"
#include "runtime/epoch.h"
#include "store/object_store.h"
#include "store/recovered_slots.h"

namespace ramcloud::master {

/// Refuses orders of former leaders, and attempts with lower numbers than an earlier one for the
/// same dead master. Runs on the reactor of the TabletService.
class RecoveryOrders {
 public:
  /// Parts that are not over; further ones are answered RETRY.
  static constexpr size_t kMostRunning = 64;
  /// Finished parts whose state is still reported.
  static constexpr size_t kMostOver = 64;
  /// Dead masters whose latest attempt is remembered. Those with the lowest attempts are forgotten:
  /// attempts rise over all masters, so lower ones are refused.
  static constexpr size_t kMostMasters = 4096;
  static constexpr Duration kMostWaiting = 1s;

  /// All arguments outlive it.
  RecoveryOrders(ServiceRegistry& registry, RpcClient& rpc, ServerList& servers, Epochs& epochs,
                 TabletService& tablets, MetricsRegistry& metrics, store::ObjectStore& store,
                 const RecoveryLimits& limits);
  ~RecoveryOrders();
  RecoveryOrders(const RecoveryOrders&) = delete;
  RecoveryOrders& operator=(const RecoveryOrders&) = delete;

 private:
  using Part = std::shared_ptr<TabletRecovery>;

  void on_recover(const Request& request);
  void on_get_state(const Request& request);
  void on_serve(const Request& request);
  void on_abort(const Request& request);

  Status begin(wire::RecoverRequest& order, Part& part);
  Status check_attempt(uint64_t master_id, uint64_t attempt) const;
  void note_attempt(uint64_t master_id, uint64_t attempt);
  Status check_serve(const wire::ServeRecoveredRequest& order) const;
  bool serves(const wire::HashRange& range, uint64_t attempt) const;
  Part find(uint64_t master_id, uint64_t attempt) const;
  Part find(uint64_t attempt) const;
  void give_up_table(uint64_t table_id);
  void refuse(const ReplyHandle& handle, const Status& status);
  Task<void> run(Part part);
  Task<void> tell_state(ReplyHandle handle, Part part, wire::GetRecoveryStateRequest asked);
  void want_pass();
  Task<void> clear_slots();
  RecoveryTools tools();
  void count_over(const TabletRecovery& part);
  void forget_over();

  Transport& transport_;
  RpcClient& rpc_;
  Reactor& reactor_;
  ServerList& servers_;
  Epochs& epochs_;
  TabletService& tablets_;
  store::ObjectStore& store_;
  store::RecoveredSlots slots_;
  bool clearing_ = false;
  AsyncMutex fetching_;
  const uint32_t fetches_;
  Pace pace_;
  std::map<uint64_t, uint64_t> latest_;  // latest attempt by dead master, ordered or given up
  uint64_t forgotten_up_to_ = 0;         // highest attempt of masters that are not in latest_
  std::map<uint64_t, Part> parts_;       // by attempt; an attempt belongs to one dead master
  std::set<uint64_t> over_;              // attempts of finished parts
  Counter& replayed_bytes_;
  Counter& replayed_entries_;
  Counter& skipped_entries_;
  Counter& served_parts_;
  Counter& failed_parts_;
  Counter& given_up_parts_;
  TaskScope tasks_;
};

}  // namespace ramcloud::master
