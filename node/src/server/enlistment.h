// A server's membership of its cluster [Ousterhout15 §4.6]. It enlists, reports a higher
// replication epoch, restates itself to a coordinator with older metadata, and notices when the
// cluster has given it up. CoordinatorLink, which clients use, too, finds the leader and retries.
//
// Threads: everything runs on the first reactor, except functions that are marked "any thread".
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "client/coordinator_link.h"
#include "log/replay.h"
#include "replication/epoch_fence.h"
#include "replication/reactor_role.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "wire/control_messages.h"

namespace ramcloud::server {

class Enlistment {
 public:
  /// The coordinator probes a server at least once a second. A server that hears nothing for this
  /// long may have been given up, so it asks.
  static constexpr Duration kForgottenAfter = std::chrono::seconds(5);

  /// `on_fatal` is called at most once, from a later turn. All arguments outlive this.
  Enlistment(RpcClient& rpc, ServerList& servers, std::vector<Locator> coordinators,
             std::function<void(Status)> on_fatal);
  Enlistment(const Enlistment&) = delete;
  Enlistment& operator=(const Enlistment&) = delete;

  /// Called when the server has its id; an error ends the server.
  using Serve = std::function<Status(const wire::EnlistReply&)>;
  /// Starts to enlist, and retries without limit. The server ends if its volume belongs to another
  /// cluster than all coordinators, or if they reject its request.
  void start(wire::EnlistRequest request, Serve serve);

  /// Tells the coordinator of a higher replication epoch. Retries until the coordinator answers yes
  /// or no, because nothing more can be acknowledged before that. One at a time: the next one only
  /// after take_fence_answer() returned the answer.
  void raise_epoch(const log::ReplicationFence& fence);
  /// The coordinator's answer, once; none before it came.
  std::optional<FenceAnswer> take_fence_answer() {
    first_.assert_here();
    return std::exchange(fence_answer_, std::nullopt);
  }
  /// Asks the leader once for a lease (CoordinatorLease::Ask).
  Task<Status> grant_lease(Time deadline);
  /// Tells the coordinator of the planned stop. Precondition: the lease has ended, and every
  /// reactor has finished a turn since. OK: the server is given up, and others recover its data.
  Task<Status> stop_serving(Time deadline);
  /// A message of the coordinator arrived.
  void heard();
  /// Its data from enlisting, the server list, and the replication epoch that was confirmed last;
  /// without tables.
  wire::Restatement restate() const;
  /// The server must end, for this reason. Only the first call counts.
  void leave(Status why);

  /// Any thread.
  bool enlisted() const { return enlisted_; }
  /// Any thread. 0 before enlisting.
  uint64_t server_id() const { return server_id_; }
  /// Any thread. Why the server is not ready for clients: not enlisted yet, or its cluster ended.
  /// Empty if it is ready.
  std::string why_not_ready() const;

 private:
  Task<void> enlist(wire::EnlistRequest request);
  Task<void> tell_fence(log::ReplicationFence fence);
  Task<Status> ask_to_raise(log::ReplicationFence fence);
  Task<void> ask_when_forgotten();
  void begin(wire::EnlistRequest request, const wire::EnlistReply& reply) RC_REQUIRES(first_);
  void cannot_ask(const Locator& coordinator, const Status& reason) RC_REQUIRES(first_);
  void check_condemned() RC_REQUIRES(first_);
  void set_not_ready(std::string why);

  Reactor& reactor_;
  ServerList& servers_;
  ReactorRole first_;
  CoordinatorLink coordinators_;
  std::function<void(Status)> on_fatal_;
  Serve serve_;
  wire::EnlistRequest enlisted_as_ RC_GUARDED_BY(first_);
  log::ReplicationFence confirmed_ RC_GUARDED_BY(first_);          // by the coordinator
  std::optional<FenceAnswer> fence_answer_ RC_GUARDED_BY(first_);  // not taken yet
  Time heard_ RC_GUARDED_BY(first_){};  // last message of the coordinator
  std::optional<Time> told_forgotten_ RC_GUARDED_BY(first_);
  bool left_ RC_GUARDED_BY(first_) = false;
  std::atomic<uint64_t> server_id_{0};
  std::atomic<bool> enlisted_{false};
  mutable Mutex mutex_;
  std::string not_ready_ RC_GUARDED_BY(mutex_) = "not enlisted with the coordinator";
  ServerList::Subscription list_changes_;
  TaskScope tasks_;  // last member: tasks end before what they use
};

}  // namespace ramcloud::server
