// How a client handles a server that does not answer. A suspended server keeps its connections, so
// the client does not notice that other servers own its tablets now. The client asks the
// coordinator for the owners, and ends the call when the server owns none of them any more. Whether
// the call is repeated at the new owner is decided as after a lost reply (outcome.h). Until then
// the call waits: the server may be slow, and giving up a change makes its outcome unknown.
#include <fmt/core.h>

#include <set>

#include "base/hash.h"
#include "client/core.h"

namespace ramcloud {
namespace {

/// How long to wait for the coordinator; after further silence it is asked again.
constexpr Duration kQuestionTime = 1s;

}  // namespace

/// Watches one call to a tablet's owner.
class ClientCore::OwnerCheck final : public CallWatch {
 public:
  /// All arguments outlive it.
  OwnerCheck(ClientCore& core, const Place& place, const TabletCall& call)
      : CallWatch(core.options_.owner_check_after), core_(core), place_(place), call_(call) {}
  ~OwnerCheck() override {
    if (self_ != nullptr) *self_ = nullptr;
  }

  void on_silence() override {
    if (asking_) return;
    asking_ = true;
    if (self_ == nullptr) self_ = std::make_shared<OwnerCheck*>(this);
    core_.background_.spawn(core_.resolve(self_, targets(), place_.server_id));
  }
  void resolved(bool still_the_owner) {
    asking_ = false;
    if (still_the_owner) return;
    give_up({StatusCode::kConnectionLost,
             fmt::format("server {} was given up: it does not answer, and the coordinator says "
                         "that it does not have the tablet any more",
                         place_.server_id)});
  }

 private:
  std::vector<TabletKey> targets() const {
    if (call_.batch == nullptr) return {{call_.table_id, call_.hash}};
    std::vector<TabletKey> targets;
    targets.reserve(call_.batch->indices.size());
    for (const uint32_t i : call_.batch->indices) {
      const MultiOperation& operation = call_.batch->operations[i];
      targets.push_back({operation.table_id, key_hash(operation.table_id, operation.key)});
    }
    return targets;
  }

  ClientCore& core_;
  const Place& place_;
  const TabletCall& call_;
  /// Shared with the request to the coordinator; set to null when the call is over.
  std::shared_ptr<OwnerCheck*> self_;
  bool asking_ = false;
};

/// By the known map. A dropped table has no owners.
bool ClientCore::owns(uint64_t server_id, const TabletKey& target) const {
  const TabletMap::Table* table = map_.find(target.table_id);
  if (table == nullptr) return false;
  const Place& place = TabletMap::place_of(*table, target.hash);
  return place.server_id == server_id && place.state != wire::TabletState::kUnavailable;
}

/// Finds out whether the server still owns one of the tablets. Asks for each table at most once,
/// and not if the known map shows already that the server lost the tablet.
Task<void> ClientCore::resolve(std::shared_ptr<OwnerCheck*> check, std::vector<TabletKey> targets,
                               uint64_t server_id) {
  std::set<uint64_t> asked;
  bool owner = false;
  for (const TabletKey& target : targets) {
    if (owns(server_id, target) && asked.insert(target.table_id).second) {
      // A failed request does not tell the owner.
      (void)co_await refresh(target.table_id, reactor().now() + kQuestionTime);
    }
    owner = owns(server_id, target);
    if (owner || *check == nullptr) break;
  }
  if (*check != nullptr) (*check)->resolved(owner);
}

/// Calls a tablet's owner, and checks its ownership while it is silent.
Task<RpcReply> ClientCore::call_owner(const Place& place, const TabletCall& call, Time deadline) {
  OwnerCheck check(*this, place, call);
  co_return co_await rpc_.call(place.locator, place.server_id, call.opcode, call.body, deadline,
                               &check);
}

}  // namespace ramcloud
