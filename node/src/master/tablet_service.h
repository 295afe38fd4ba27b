// The coordinator's orders to a master: take tablets, drop tablets [Ousterhout15 §3.2].
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "master/held_replies.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/epoch.h"
#include "store/object_store.h"
#include "wire/control_messages.h"

namespace ramcloud::master {

/// Refuses orders of former leaders (lower term) and of older states of a table (lower revision).
/// Purges dropped tablets in slices.
///
/// A change is complete after a grace period (docs/design/runtime.md#epochs), when the log is
/// durable up to its end at the change. Then every reactor has seen the change, and none still
/// works on an earlier request. Only then is the order answered, and purging begins.
class TabletService {
 public:
  /// Everything runs on one reactor. `epochs`: of all reactors that use the store.
  TabletService(ServiceRegistry& registry, Reactor& reactor, HeldReplies& replies,
                ServerList& servers, Epochs& epochs);
  void attach(store::ObjectStore& store);
  /// `fn` is called for each dropped table, before the order is answered.
  void set_drop_listener(std::function<void(uint64_t table_id)> fn) { on_drop_ = std::move(fn); }

  /// @name For other orders that change which tablets are served
  /// @{
  /// OK if the command is not older than the last one for the table.
  Status check_order(uint64_t term, uint64_t revision, uint64_t table_id);
  /// Records that this server has tablets of the table, by the order that was checked last.
  void note_taken(uint64_t table_id, const std::string& table_name);
  /// Answers once all reactors have seen that what was recovered is served.
  void answer_recovered(const ReplyHandle& handle, std::string body);
  /// @}

  /// Tells a coordinator with older metadata which tables are owned here, and which dropped ones
  /// are remembered.
  std::vector<wire::RestatedTable> restate() const;
  /// How many dropped tables are remembered with their last order. A late order for a forgotten
  /// table would have to be older than this many drops of the same term.
  static constexpr size_t kMostDropped = 16'384;

 private:
  void take(const Request& request);
  void drop(const Request& request);
  void refuse(const ReplyHandle& handle, const Status& status);
  void purge();
  Task<void> take_tablet(ReplyHandle handle, wire::TakeTabletRequest command);
  enum class Change : uint8_t { kTaken, kRecovered, kDropped };
  Task<void> answer_when_seen(ReplyHandle handle, Change change, std::string body = {});
  Task<void> free_retired();

  ServiceRegistry& registry_;
  Reactor& reactor_;
  HeldReplies& replies_;
  ServerList& servers_;
  Epochs& epochs_;
  store::ObjectStore* store_ = nullptr;
  /// The last order for a table that was followed.
  struct Order {
    uint64_t revision = 0;
    bool drop = false;
    std::string table_name;  // if a coordinator sent it
  };
  void note_dropped(uint64_t table_id, Order& order);
  std::map<uint64_t, Order> orders_;                 // by table id
  std::set<std::pair<uint64_t, uint64_t>> dropped_;  // revision and table of those with `drop`
  std::function<void(uint64_t)> on_drop_;
  Timer purge_timer_;
  TaskScope tasks_;
};

}  // namespace ramcloud::master
