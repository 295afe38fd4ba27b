// What the coordinator asks of a master: to take tablets, to drop them (paper §3.2).
#pragma once

#include <cstdint>
#include <map>

#include "master/held_replies.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "store/object_store.h"
#include "wire/control_messages.h"

namespace ramcloud::master {

/// Refuses commands of coordinators that have been replaced (lower term) and of older states of a
/// table (lower revision). Purges dropped tablets slice by slice.
class TabletService {
 public:
  TabletService(ServiceRegistry& registry, Reactor& reactor, HeldReplies& replies,
                ServerList& servers);
  void attach(store::ObjectStore& store);

 private:
  void take(const Request& request);
  void drop(const Request& request);
  /// OK if the command is not older than what was seen.
  Status check_order(uint64_t term, uint64_t revision, uint64_t table_id);
  void purge();
  void answer_when_durable(const Request& request);

  ServiceRegistry& registry_;
  HeldReplies& replies_;
  ServerList& servers_;
  store::ObjectStore* store_ = nullptr;
  std::map<uint64_t, uint64_t> revisions_;  // highest seen, by table id
  Timer purge_timer_;
};

}  // namespace ramcloud::master
